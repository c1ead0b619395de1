// Operands of products that stand for codes of 8 bits: dequantised, and maybe transposed.
#pragma once

#include "compiler/graph/Graph.h"

#include <optional>

namespace tensmith::rewrite {

/// Of one element.
bool isScalar(mlir::Value value);

/// Absent, or a constant of zeros.
bool isZero(mlir::Value value);

/// The dequantisation that makes the value, of 8-bit codes to f32.
graph::DequantizeOp dequantizationOf(mlir::Value value);

/// The dimension along which codes that make the value have scales, through transpositions; -1 of
/// one scale. Nothing where it is made otherwise.
std::optional<int64_t> scaleAxis(mlir::Value value);

} // namespace tensmith::rewrite
