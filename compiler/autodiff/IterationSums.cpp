// Groups of rows out of stacks, and their product; see IterationSums.h.
#include "compiler/autodiff/IterationSums.h"

#include "compiler/autodiff/LoopBuilder.h"
#include "compiler/autodiff/Operators.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

// A pass over the sum for each group costs little beside a product of so many rows.
constexpr int64_t kRows = 256;
constexpr int64_t kMostTogether = 64;
constexpr int64_t kUnknownRows = 16;

RankedTensorType rankedType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

/// The sum over all rows of left^T * right.
Value productOfRows(const graph::GradientCode &code, Value left, Value right) {
  auto asRows = [&](Value x) {
    auto dims = code.dims(x);
    AffineExpr columns = dims.pop_back_val();
    return code.reshape(x, {code.graph.shapes.product(dims), columns});
  };
  if (!left || !right)
    return {};
  return code.matmul(code.transpose(asRows(left), {1, 0}), asRows(right));
}

} // namespace

bool multipliesByOuter(graph::LoopOp loop, Operation *op) {
  auto matmul = dyn_cast<graph::MatMulOp>(op);
  if (!matmul || loop.getBody().isAncestor(matmul.getB().getParentRegion()))
    return false;
  auto a = rankedType(matmul.getA()), b = rankedType(matmul.getB());
  return a && b && b.getRank() == 2 && a.getRank() >= 2;
}

int64_t iterationsTogether(Value left) {
  auto shape = rankedType(left).getShape().drop_back();
  bool isKnown = !ShapedType::isDynamicShape(shape);
  int64_t rows = isKnown ? ShapedType::getNumElements(shape) : kUnknownRows, together = 1;
  while (together < kMostTogether && together * rows < kRows)
    together *= 2;
  return together;
}

int64_t iterationsTogether(graph::LoopOp loop) {
  int64_t most = 1;
  for (Operation &op : loop.getBody().front())
    if (multipliesByOuter(loop, &op))
      most = std::max(most, iterationsTogether(op.getOperand(0)));
  return most;
}

Value productOfAll(const graph::GradientCode &code, Value left, Value right) {
  return productOfRows(code, left, code.op("graph.reverse", {right}, {code.integers("axes", {0})}));
}

/// The last group may lack rows, which are zeros then.
Value sumOfProducts(const graph::GradientCode &code, Activity &activity, Value sum, Value left,
                    Value right, Value trips, int64_t together) {
  auto number = [&](int64_t value) {
    return code.graph.scalar(code.builder.getI64Type(), double(value));
  };
  Value size = number(together), last = code.sub(trips, number(1));
  Value groups = code.div(code.add(last, size), size);
  LoopBuilder loop(code, activity, code.graph.location);
  Value before = loop.carry(sum);
  Value after;
  {
    OpBuilder::InsertionGuard guard(code.builder);
    code.builder.setInsertionPointToEnd(&loop.block());
    Value group = code.sub(code.sub(groups, number(1)), loop.iteration());
    Value place = code.add(code.iota({code.size(together)}, 0), code.mul(group, size));
    Value isThere = code.op("graph.less_or_equal", {place, last});
    Value known = code.op("graph.min", {place, last});
    auto rows = [&](Value stack, Value at) {
      Value taken = code.op("graph.gather", {stack, at}, {code.integer("axis", 0)});
      int64_t rank = taken ? graph::GraphCode::rank(taken) : 0;
      return taken ? code.where(code.alongDimension(isThere, 0, rank), taken, code.scalar(taken, 0))
                   : taken;
    };
    Value product = productOfRows(code, rows(left, known), rows(right, code.sub(last, known)));
    after = withType(code, product ? code.add(before, product) : product, sum.getType());
  }
  auto closed = loop.close(groups, {}, {loop.condition(), after});
  return failed(closed) ? Value() : withType(code, closed->getResult(0), sum.getType());
}

} // namespace tensmith::autodiff
