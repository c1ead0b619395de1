// Numbers as 8-bit integers by their own range, as ONNX's DynamicQuantizeLinear makes them.
#pragma once

#include "compiler/graph/GraphCode.h"

namespace tensmith::graph {

/// number = (values - zeroPoint) * scale, with one scale for the whole tensor; u8, f32 and u8. Null
/// after an error.
struct RangeCodes {
  mlir::Value values, scale, zeroPoint;
};

/// Of x in f32. The range has 0 in it.
RangeCodes codesByRange(const GraphCode &code, mlir::Value x);

/// x as what its codes stand for, by `dequantize`: products of it become those of its codes.
mlir::Value roundedByRange(const GraphCode &code, mlir::Value x);

} // namespace tensmith::graph
