// A product of one row with a matrix is a sum of the matrix' rows, each times a number.
//
// before: matmul(row, x)       after: reduce_sum(column * x) over the rows, of x that is not known
//
// A step of a recurrent layer or of a decoder does that whose weights are inputs: a product would
// write them once in panels and read them again, for a single row. Weights that are constants are
// in panels already, and an attention is one kernel with its products. Under `exact` products stay
// what they are.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isPackedAnyway(graph::MatMulOp product) {
  return llvm::any_of(product.getB().getUses(), [&](OpOperand &use) {
    return use.getOwner() != product && use.getOperandNumber() == 1 &&
           isa<graph::MatMulOp>(use.getOwner());
  });
}

/// Whether the matrix is known before the product's block runs, or read against its rows: then
/// panels are laid out once, or are what makes it readable.
bool isLaidOutBefore(graph::MatMulOp product) {
  Value matrix = product.getB();
  while (Operation *op = matrix.getDefiningOp()) {
    if (isa<graph::ConstantOp, graph::TransposeOp>(op))
      return true;
    if (!isa<graph::ReshapeOp, graph::CastOp, graph::DequantizeOp>(op))
      break;
    matrix = op->getOperand(0);
  }
  return matrix.getParentBlock() != product->getBlock();
}

bool passesElements(Operation *op) {
  return isa<graph::Elementwise, graph::ReshapeOp, graph::BroadcastOp, graph::TransposeOp>(op);
}

/// Whether the product gives or takes what a softmax makes of rows: an attention is one kernel.
bool isOfAttention(graph::MatMulOp product) {
  constexpr size_t kMost = 32; // operators that are looked through
  llvm::SetVector<Operation *> before, behind;
  auto add = [](llvm::SetVector<Operation *> &all, Operation *op) {
    if (op && all.size() < kMost)
      all.insert(op);
  };
  add(before, product.getA().getDefiningOp());
  for (size_t next = 0; next < before.size(); ++next)
    if (passesElements(before[next]))
      for (Value operand : before[next]->getOperands())
        add(before, operand.getDefiningOp());
  behind.insert(product->user_begin(), product->user_end());
  for (size_t next = 0; next < behind.size(); ++next)
    if (passesElements(behind[next]))
      for (Operation *user : behind[next]->getUsers())
        add(behind, user);
  auto isSoftmax = [](Operation *op) { return isa<graph::SoftmaxOp, graph::AttentionOp>(op); };
  return llvm::any_of(before, isSoftmax) || llvm::any_of(behind, isSoftmax);
}

bool isOfOneRow(graph::MatMulOp product) {
  auto a = dyn_cast<RankedTensorType>(product.getA().getType()),
       b = dyn_cast<RankedTensorType>(product.getB().getType());
  return a && b && a.getRank() >= 2 && a.getRank() == b.getRank() &&
         a.getDimSize(unsigned(a.getRank()) - 2) == 1 && a.getElementType().isF32() &&
         b.getElementType().isF32() && kernel::storedRight(product) == product.getB() &&
         !isLaidOutBefore(product) && !isPackedAnyway(product) && !isOfAttention(product);
}

/// Null where the types say different things.
Value sumOfRows(graph::MatMulOp product) {
  OpBuilder builder(product);
  graph::ShapeContext shapes(product.getContext());
  graph::GraphBuilder graph(builder, shapes, product.getLoc());
  auto dims = shapes.dims(product.getA().getType());
  std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
  Value column = graph.reshape(product.getA(), dims);
  Value parts = graph::GraphBuilder::first(graph.create("mul", {column, product.getB()}));
  Value sum = parts ? graph.reduce("graph.reduce_sum", parts, {int64_t(dims.size()) - 2},
                                   /*keepdims=*/true)
                    : Value();
  return sum && sum.getType() == product.getType() ? sum : Value();
}

} // namespace

LogicalResult sumRows(func::FuncOp function, const Options &options) {
  if (options.precision == Precision::Exact)
    return success();
  SmallVector<graph::MatMulOp> products;
  function.walk([&](graph::MatMulOp product) {
    if (!product->getParentOfType<graph::KernelOp>() && isOfOneRow(product))
      products.push_back(product);
  });
  for (graph::MatMulOp product : products)
    if (Value sum = sumOfRows(product)) {
      product->getResult(0).replaceAllUsesWith(sum);
      product.erase();
    }
  return success();
}

} // namespace tensmith::rewrite
