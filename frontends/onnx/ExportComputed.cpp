// Operators whose axes are operands in ONNX, and those that several nodes compute.
#include "compiler/graph/Constants.h"
#include "frontends/onnx/ExportRules.h"

using namespace mlir;

namespace tensmith::onnx_export {
namespace {

Status reduce(NodeExport &n, StringRef type) {
  return n.giveNode(
      type, {n.input(0), n.vector(n.attributes.integers("axes"))},
      {{"keepdims", n.attributes.integer("keepdims")}, {"noop_with_empty_axes", int64_t(1)}});
}
Status reduceSum(NodeExport &n) { return reduce(n, "ReduceSum"); }
Status reduceProd(NodeExport &n) { return reduce(n, "ReduceProd"); }
Status reduceMax(NodeExport &n) { return reduce(n, "ReduceMax"); }
Status reduceMin(NodeExport &n) { return reduce(n, "ReduceMin"); }

Status cumulative(NodeExport &n, StringRef type) {
  return n.giveNode(type, {n.input(0), n.integer(n.attributes.integer("axis"))},
                    {{"exclusive", n.attributes.integer("exclusive")},
                     {"reverse", n.attributes.integer("reverse")}});
}
Status cumsum(NodeExport &n) { return cumulative(n, "CumSum"); }
Status cumprod(NodeExport &n) { return cumulative(n, "CumProd"); }

Status rsqrt(NodeExport &n) { return n.giveNode("Reciprocal", {n.node("Sqrt", {n.input(0)})}); }

/// With u = 1 + x, log(u) x / (u - 1): the rounding of u is in both (W. Kahan). x where u is 1, and
/// log(u) where 1 is lost in u, as in what is large or infinite.
Status log1p(NodeExport &n) {
  std::string x = n.input(0), one = n.scalar(n.element(), 1), zero = n.scalar(n.element(), 0);
  std::string u = n.node("Add", {x, one}), difference = n.node("Sub", {u, one});
  std::string isX = n.node("Equal", {difference, zero});
  std::string isLog = n.node("Equal", {difference, u});
  std::string divisor = n.node("Where", {n.node("Or", {isX, isLog}), one, difference});
  std::string log = n.node("Log", {u});
  std::string value = n.node("Mul", {n.node("Div", {log, divisor}), x});
  return n.giveNode("Where", {isX, x, n.node("Where", {isLog, log, value})});
}

/// Of a size that only the run knows.
Status iota(NodeExport &n) {
  auto dims = n.dims(n.op->getResult(0));
  if (!dims.ok())
    return dims.status();
  size_t axis = size_t(n.attributes.integer("axis"));
  auto shape = n.sizes(*dims);
  auto limit = n.exporter.sizeOf((*dims)[axis]);
  if (!shape.ok() || !limit.ok())
    return n.error("has a size that is known to the run alone");
  std::vector<int64_t> along(dims->size(), 1);
  along[axis] = -1;
  std::string range = n.node("Range", {n.integer(0), n.node("Squeeze", {*limit}), n.integer(1)});
  auto type = int64_t(graph::dataType(getElementTypeOrSelf(n.op->getResult(0).getType())));
  if (type != int64_t(DataType::I64))
    range = n.node("Cast", {range}, {{"to", type}});
  return n.giveNode("Expand", {n.node("Reshape", {range, n.vector(along)}), *shape});
}

const Record kRecords[] = {
    {"graph.reduce_sum", "ReduceSum", {}, reduceSum},
    {"graph.reduce_prod", "ReduceProd", {}, reduceProd},
    {"graph.reduce_max", "ReduceMax", {}, reduceMax},
    {"graph.reduce_min", "ReduceMin", {}, reduceMin},
    {"graph.cumsum", "CumSum", {}, cumsum},
    {"graph.cumprod", "CumProd", {}, cumprod},
    {"graph.rsqrt", "", {}, rsqrt},
    {"graph.log1p", "", {}, log1p},
    {"graph.iota", "", {}, iota},
};

} // namespace

std::span<const Record> computedRecords() { return kRecords; }

} // namespace tensmith::onnx_export
