// Operators of the domain tensmith on numbers of few bits; rows of the families' tables.
#pragma once

#include "frontends/onnx/Operators.h"

namespace tensmith::onnx_import {

inline constexpr std::string_view kTensmith = "tensmith";

mlir::LogicalResult bitPack(NodeImport &n);
mlir::LogicalResult bitConv(NodeImport &n);
mlir::LogicalResult bitMatMul(NodeImport &n);

} // namespace tensmith::onnx_import
