// What ONNX's quantised products (MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv) share:
// codes become i32 numbers relative to their zero point, are multiplied exactly, and are rounded
// once.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// x - zeroPoint in i32; an absent zero point is 0.
inline Value shifted(NodeImport &n, Value x, Value zeroPoint) {
  Type wide = n.builder.getI32Type();
  Value codes = n.cast(x, wide);
  return zeroPoint ? n.sub(codes, n.cast(zeroPoint, wide)) : codes;
}

inline Value widened(NodeImport &n, Value scale) { return n.cast(scale, n.builder.getF32Type()); }

/// round(x * scale / resultScale) + zeroPoint, saturated, of the zero point's type; x in i32.
inline Value requantized(NodeImport &n, Value x, Value scale, Value resultScale, Value zeroPoint) {
  if (!x || !scale || !resultScale || !zeroPoint)
    return {};
  Value number = n.mul(n.cast(x, n.builder.getF32Type()), scale);
  return n("graph.quantize", {number, widened(n, resultScale), zeroPoint},
           {n.integer("axis", 0), n.type("to", n.element(zeroPoint))});
}

} // namespace tensmith::onnx_import
