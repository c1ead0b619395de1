// Rules of several operators on 16-bit floats.
//
// What such a rule computes on the way, as the sum behind a mean or the squares behind a norm, may
// be beyond float16's 65504 where its result is not. So its operands become f32, and only its
// results are rounded. An operator of the graph that is one record sums in f32 by itself.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// The rule, all of whose float operands and results have one type.
template <Rule rule> LogicalResult widened(NodeImport &n) {
  Type narrow;
  const SmallVector<Value> given = n.inputs;
  for (Value &operand : n.inputs)
    if (Value wide = n.widen(operand); wide != operand) {
      narrow = NodeImport::element(operand);
      operand = wide;
    }
  LogicalResult result = rule(n);
  n.inputs = given;
  if (failed(result))
    return failure();
  for (Value &value : n.results)
    if (narrow && NodeImport::element(value).isF32())
      value = n.cast(value, narrow);
  return success();
}

} // namespace tensmith::onnx_import
