// Operators of ONNX Runtime's domain that the standard has, too, under this or another name, or
// that are an expression of a line or two. See Contrib.h.
#include "compiler/graph/CodedLstm.h"
#include "compiler/graph/RangeCodes.h"
#include "frontends/onnx/Contrib.h"
#include "frontends/onnx/OperatorName.h"

namespace tensmith::onnx_import {
namespace {

/// As the standard's operator of that name.
template <OperatorName name> LogicalResult standard(NodeImport &n) {
  return importAs(n, std::string_view(name.text, sizeof(name.text) - 1));
}

/// The pads may be one row of a matrix.
LogicalResult pad(NodeImport &n) {
  if (failed(needOperands(n, 2)))
    return failure();
  if (n.isRanked(n.input(1)) && n.rank(n.input(1)) == 2)
    n.inputs[1] = n.reshape(n.input(1), {n.graph.shapes.product(n.dims(n.input(1)))});
  return importAs(n, "Pad");
}

/// Values in the order in which they come first, where each place's value is among them, and how
/// often each is there.
LogicalResult unique(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  auto *op = n.graph.create("graph.unique", {n.input(0)}, {n.boolean("sorted", false)});
  return op ? n.give({op->getResult(0), op->getResult(2), op->getResult(3)}) : failure();
}

LogicalResult expandDims(NodeImport &n) {
  if (failed(needOperands(n, 2, 2)))
    return failure();
  n.inputs[1] = n.reshape(n.cast(n.input(1), n.builder.getI64Type()), {n.size(1)});
  return importAs(n, "Unsqueeze");
}

/// Distances between all rows of a and all of b; their sum of squares by differences, which don't
/// cancel.
LogicalResult cdist(NodeImport &n) {
  if (failed(needOperands(n, 2, 2)) || n.rank(n.input(0)) != 2 || n.rank(n.input(1)) != 2)
    return n.error("operands a and b have not rank 2");
  std::string metric = n.stringAttr("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return n.error("metric '" + metric + "' is neither sqeuclidean nor euclidean");
  auto a = n.dims(n.input(0)), b = n.dims(n.input(1));
  Value difference = n.sub(n.reshape(n.input(0), {a[0], n.size(1), a[1]}),
                           n.reshape(n.input(1), {n.size(1), b[0], b[1]}));
  if (!difference)
    return failure();
  Value sum = n.reduce("graph.reduce_sum", n.mul(difference, difference), {2}, false);
  return n.give({metric == "euclidean" ? n.unary("graph.sqrt", sum) : sum});
}

/// Gate and up halves side by side in x.
LogicalResult biasSplitGelu(NodeImport &n) {
  if (failed(needOperands(n, 2, 1)))
    return failure();
  Value sum = n.add(n.input(0), n.input(1));
  auto width = sum ? NodeImport::known(n.dims(sum).back()) : std::optional<int64_t>();
  if (!width || *width % 2)
    return n.error("the last dimension is not known or odd");
  auto dims = n.dims(sum);
  dims.back() = n.size(*width / 2);
  Ints starts(dims.size(), 0);
  Value left = n.slice(sum, starts, dims);
  starts.back() = *width / 2;
  return n.give({n.mul(left, erfGelu(n, n.slice(sum, starts, dims)))});
}

/// Channels last: x [batch, places, channels] + bias + skip.
LogicalResult biasAdd(NodeImport &n) {
  if (failed(needOperands(n, 3)))
    return failure();
  return n.give({n.add(n.add(n.input(0), n.input(1)), n.input(2))});
}

// ---- LSTM with weights in codes

/// Entry `number` of dimension 0, which goes; a scalar of what has one for all.
Value entryOf(NodeImport &n, Value x, int64_t number) {
  auto dims = n.dims(x);
  Ints starts(dims.size(), 0);
  starts[0] = number;
  dims[0] = n.size(1);
  return n.reshape(n.slice(x, starts, dims), ArrayRef<AffineExpr>(dims).drop_front());
}

/// A direction's weights [in, 4 hidden]: (codes - zero point) * scale, with scales and zero points
/// of the direction or of each column.
Value weightsOf(NodeImport &n, int64_t number, Value codes, Value scale, Value zeroPoint) {
  auto known = n.importer.evaluated(zeroPoint);
  bool isZero = known && known->size() > 0;
  for (int64_t i = 0; isZero && i < known->size(); ++i)
    isZero = known->getInt(i) == 0;
  Value zero = isZero ? n.graph.none() : entryOf(n, zeroPoint, number);
  return n("graph.dequantize", {entryOf(n, codes, number), entryOf(n, scale, number), zero},
           {n.integer("axis", 1), n.type("to", n.builder.getF32Type())});
}

/// Operands: those of LSTM with w and r in codes, [directions, in, 4 hidden], where LSTM has them
/// transposed, then their scales and zero points. x and, in each step, a direction's state are
/// rounded to 8 bits by their own ranges.
LogicalResult dynamicQuantizeLSTM(NodeImport &n) {
  if (n.inputCount() < 12)
    return n.error("has " + llvm::Twine(n.inputCount()) + " operands, not 12");
  for (size_t operand : {0, 1, 2, 8, 9, 10, 11})
    if (failed(n.needRank(operand)))
      return failure();
  auto directions = NodeImport::known(n.dims(n.input(1))[0]);
  for (size_t operand : {1, 2, 8, 9, 10, 11})
    if (int64_t rank = n.rank(n.input(operand));
        !directions || (operand < 3 ? rank != 3 : rank < 1 || rank > 2) ||
        NodeImport::known(n.dims(n.input(operand))[0]) != directions)
      return n.error("operand " + llvm::Twine(operand) +
                     " has not one part for each direction of the weights");
  SmallVector<graph::LstmWeights> weights;
  for (int64_t number = 0; number < *directions; ++number)
    weights.push_back({weightsOf(n, number, n.input(1), n.input(8), n.input(9)),
                       weightsOf(n, number, n.input(2), n.input(10), n.input(11))});
  // The layer is there for its attributes and shapes; nobody reads its results.
  for (size_t operand : {1, 2})
    n.inputs[operand] = n.transpose(n.cast(n.input(operand), n.builder.getF32Type()), {0, 2, 1});
  n.inputs.resize(8);
  n.inputs[0] = graph::roundedByRange(n, n.inputs[0]);
  if (!n.inputs[0] || !n.inputs[1] || !n.inputs[2] || failed(importAs(n, "LSTM")))
    return failure();
  SmallVector<Value> results;
  if (failed(graph::decomposeCoded(n.results[0].getDefiningOp<graph::LstmOp>(), weights, n.graph,
                                   results)))
    return n.error("its operands' ranks are not known, which this operator needs");
  return n.give(results);
}

constexpr Operator kOperators[] = {
    {"Pad", pad, kContrib},
    {"Unique", unique, kContrib},
    {"ExpandDims", expandDims, kContrib},
    {"Trilu", standard<"Trilu">, kContrib},
    {"Range", standard<"Range">, kContrib},
    {"GatherND", standard<"GatherND">, kContrib},
    {"CDist", cdist, kContrib},
    {"BiasSplitGelu", biasSplitGelu, kContrib},
    {"BiasAdd", biasAdd, kContrib},
    {"DynamicQuantizeLSTM", dynamicQuantizeLSTM, kContrib},
};

} // namespace

std::span<const Operator> contribStandardOperators() { return kOperators; }

} // namespace tensmith::onnx_import
