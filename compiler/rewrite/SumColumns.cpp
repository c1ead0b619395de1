// A product with a row of ones is a sum of columns.
//
// before: matmul(ones, x)      after: reduce_sum(x) over the rows
//
// Gradients of biases are written as such products, since where x is the right operand of another
// one, too, it is packed for that anyway, and the sum costs next to nothing. Where it isn't, the
// packing alone reads and writes what the sum only reads.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/Rewrites.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isOnes(Value value) {
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

} // namespace

LogicalResult sumColumns(func::FuncOp function, const Options &) {
  SmallVector<graph::MatMulOp> products;
  function.walk([&](graph::MatMulOp product) {
    if (sumsColumns(product))
      products.push_back(product);
  });
  for (graph::MatMulOp product : products)
    if (Value sum = sumOfColumns(product)) {
      product->getResult(0).replaceAllUsesWith(sum);
      product.erase();
    }
  return success();
}

} // namespace tensmith::rewrite
