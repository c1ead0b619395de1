// Between numbers and their codes.
#include "frontends/onnx/Bits.h"
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

/// Where the operand's rank is known, in range; a scalar scale has no axis.
int64_t axisOf(NodeImport &n) {
  int64_t axis = n.intAttr("axis", 1);
  if (!n.has(0) || !n.isRanked(n.input(0)))
    return axis;
  int64_t rank = n.rank(n.input(0));
  if (axis < 0)
    axis += rank;
  return axis < 0 || axis >= rank ? 0 : axis;
}

LogicalResult checkAxis(NodeImport &n) {
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  bool needed = n.rank(n.input(1)) > 0 && NodeImport::known(n.dims(n.input(1))[0]) != 1;
  if (needed && failed(n.axis(n.intAttr("axis", 1), n.rank(n.input(0)))))
    return failure();
  return success();
}

LogicalResult quantize(NodeImport &n) {
  if (failed(checkAxis(n)))
    return failure();
  Type to = n.builder.getIntegerType(8, /*isSigned=*/false);
  if (n.has(2))
    to = n.element(n.input(2));
  else if (n.intAttr("output_dtype"))
    to = n.typeAttr("output_dtype", 0);
  if (!to)
    return failure();
  return n.give({n("graph.quantize", {n.input(0), n.input(1), n.maybe(2)},
                   {n.integer("axis", axisOf(n)), n.integer("block_size", n.intAttr("block_size")),
                    n.type("to", to), n.boolean("saturate", n.intAttr("saturate", 1))})});
}

LogicalResult dequantize(NodeImport &n) {
  if (failed(checkAxis(n)))
    return failure();
  Type to = n.intAttr("output_dtype") ? n.typeAttr("output_dtype", 0) : n.element(n.input(1));
  if (!to)
    return failure();
  return n.give({n("graph.dequantize", {n.input(0), n.input(1), n.maybe(2)},
                   {n.integer("axis", axisOf(n)), n.integer("block_size", n.intAttr("block_size")),
                    n.type("to", to)})});
}

constexpr Operator kOperators[] = {{"QuantizeLinear", quantize},
                                   {"DequantizeLinear", dequantize},
                                   {"BitPack", bitPack, kTensmith}};

} // namespace

std::span<const Operator> quantizationOperators() { return kOperators; }

} // namespace tensmith::onnx_import
