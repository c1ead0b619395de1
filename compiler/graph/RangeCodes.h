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

/// x as what its codes stand for.
mlir::Value roundedByRange(const GraphCode &code, mlir::Value x);

/// A mark on an LSTM before it is decomposed: its state is rounded so before each product with the
/// weights.
inline constexpr char kRoundsState[] = "graph.rounds_state";

} // namespace tensmith::graph
