// A product with a row of ones is a sum of columns, and one with another row a weighted sum of
// rows.
//
// before: matmul(ones, x)      after: reduce_sum(x) over the rows
// before: matmul(row, x)       after: reduce_sum(column * x) over the rows, of x that is not known
//
// Gradients of biases are written as such products, since where x is the right operand of another
// one, too, it is packed for that anyway, and the sum costs next to nothing. Where it isn't, the
// packing alone reads and writes what the sum only reads.
//
// The second is what a step of a recurrent layer or of a decoder does whose weights are inputs.
// Weights that are constants are in panels already, and an attention is one kernel with its
// products. Under `exact` products stay what they are.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isOnes(Value value) {
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>()) // of an open number of rows
    value = broadcast.getX();
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  if (!constant)
    return false;
  auto tensor = graph::hostTensor(constant.getValue());
  if (!tensor.ok())
    return false;
  for (int64_t i = 0; i < tensor->size(); ++i)
    if (tensor->getDouble(i) != 1)
      return false;
  return true;
}

bool isPackedAnyway(graph::MatMulOp product) {
  return llvm::any_of(product.getB().getUses(), [&](OpOperand &use) {
    return use.getOwner() != product && use.getOperandNumber() == 1 &&
           isa<graph::MatMulOp>(use.getOwner());
  });
}

/// What the matrix is a view of, in which columns are the last dimension, too: its rows are summed
/// over several dimensions then, and what computes them joins the sum.
Value withoutReshape(Value matrix) {
  auto columns = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() > 0 ? type.getShape().back() : ShapedType::kDynamic;
  };
  auto reshape = matrix.getDefiningOp<graph::ReshapeOp>();
  bool same = reshape && !ShapedType::isDynamic(columns(matrix)) &&
              columns(reshape.getX()) == columns(matrix);
  return same ? reshape.getX() : matrix;
}

/// The sum, of the product's type; null where the types say different things.
Value sumOfColumns(graph::MatMulOp product) {
  OpBuilder builder(product);
  graph::ShapeContext shapes(product.getContext());
  graph::GraphBuilder graph(builder, shapes, product.getLoc());
  Value x = withoutReshape(product.getB());
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  auto rows = llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
  Value sum = graph.reduce("graph.reduce_sum", x, rows, /*keepdims=*/true);
  if (sum && rank > 2)
    sum = graph.reshape(sum, shapes.dims(product.getType()));
  return sum && sum.getType() == product.getType() ? sum : Value();
}

bool sumsColumns(graph::MatMulOp product) {
  auto a = dyn_cast<RankedTensorType>(product.getA().getType()),
       b = dyn_cast<RankedTensorType>(product.getB().getType());
  if (!a || !b || a.getRank() != 2 || b.getRank() != 2 || a.getDimSize(0) != 1)
    return false;
  Type element = b.getElementType();
  return (element.isF32() || element.isF64()) && element == a.getElementType() &&
         kernel::storedRight(product) == product.getB() && isOnes(product.getA()) &&
         !isPackedAnyway(product);
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

void replaceProducts(func::FuncOp function, bool (*takes)(graph::MatMulOp),
                     Value (*sumOf)(graph::MatMulOp)) {
  SmallVector<graph::MatMulOp> products;
  function.walk([&](graph::MatMulOp product) {
    if (!product->getParentOfType<graph::KernelOp>() && takes(product))
      products.push_back(product);
  });
  for (graph::MatMulOp product : products)
    if (Value sum = sumOf(product)) {
      product->getResult(0).replaceAllUsesWith(sum);
      product.erase();
    }
}

} // namespace

LogicalResult sumColumns(func::FuncOp function, const Options &) {
  replaceProducts(function, sumsColumns, sumOfColumns);
  return success();
}

LogicalResult sumRows(func::FuncOp function, const Options &options) {
  if (options.precision != Precision::Exact)
    replaceProducts(function, isOfOneRow, sumOfRows);
  return success();
}

} // namespace tensmith::rewrite
