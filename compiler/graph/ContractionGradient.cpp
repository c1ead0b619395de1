// Products: the cotangent times the other operand, transposed.
//
// The gradient of a matrix that a whole stack is multiplied by is one product over all of the
// stack's rows, and not a sum of one for each matrix.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

Value transposed(const GradientCode &code, Value x) {
  if (!x)
    return x;
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, GraphCode::rank(x)));
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return code.transpose(x, permutation);
}

/// A stack [..., m, n] as one matrix [... * m, n].
Value asRows(const GradientCode &code, Value x) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  AffineExpr columns = dims.pop_back_val();
  return code.reshape(x, {code.graph.shapes.product(dims), columns});
}

Value inserted(const GradientCode &code, Value x, int64_t fromEnd) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  dims.insert(dims.end() - fromEnd, code.size(1));
  return code.reshape(x, dims);
}

Value multiplication(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value a = pull.operand(0), b = pull.operand(1), g = pull.cotangent();
  if (!g || !GraphCode::isRanked(a) || !GraphCode::isRanked(b))
    return {};
  bool isRow = GraphCode::rank(a) == 1, isColumn = GraphCode::rank(b) == 1;
  if (isColumn) { // its columns first, so that the rows are last but one
    g = inserted(code, g, 0);
    b = inserted(code, b, 0);
  }
  if (isRow) {
    g = inserted(code, g, 1);
    a = inserted(code, a, 1);
  }
  if (!g || !a || !b)
    return {};
  Value own = pull.operand(operand);
  if (operand == 0)
    return code.reshapeLike(code.sumLike(code.matmul(g, transposed(code, b)), a), own);
  if (GraphCode::rank(b) == 2 && GraphCode::rank(a) > 2)
    return code.reshapeLike(code.matmul(transposed(code, asRows(code, a)), asRows(code, g)), own);
  return code.reshapeLike(code.sumLike(code.matmul(transposed(code, a), g), b), own);
}

/// Of each dimension of a square of n, 0, 1, ... without the row's own number: [n, n - 1].
Value withoutOwn(const GradientCode &code, AffineExpr n) {
  GraphCode::Dims dims{n, code.graph.shapes.simplify(n - 1)};
  Value row = code.iota(dims, 0), place = code.iota(dims, 1);
  Value isBeyond = code.op("graph.greater_or_equal", {place, row});
  return code.add(place, code.cast(isBeyond, code.builder.getI64Type()));
}

/// The cofactor of each element: the determinant of what is left without its row and column. A sum
/// of products of the other elements, so right where the matrix is singular, too, and with
/// derivatives of its own; of n by n elements it takes n^4 and their determinants n^5.
Value determinant(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), g = pull.cotangent();
  int64_t rank = GraphCode::rank(x);
  GraphCode::Dims dims = code.dims(x), ones(dims);
  ones[ones.size() - 1] = ones[ones.size() - 2] = code.size(1);
  if (dims.back() == code.size(1))
    return code.reshape(g, dims);
  Value kept = withoutOwn(code, dims.back());
  Value rows = code.op("graph.gather", {x, kept}, {code.integer("axis", rank - 2)});
  Value minors = code.op("graph.gather", {rows, kept}, {code.integer("axis", rank)});
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank + 2)); // ..., i, rows, j, columns
  std::swap(order[size_t(rank) - 1], order[size_t(rank)]);
  Value minor = code.op("graph.det", {code.transpose(minors, order)});
  GraphCode::Dims square{dims.back(), dims.back()};
  Value two = code.graph.scalar(code.builder.getI64Type(), 2);
  Value isOdd =
      code.cast(code.op("graph.mod", {code.add(code.iota(square, 0), code.iota(square, 1)), two}),
                GraphCode::element(x));
  Value sign = code.sub(code.scalar(x, 1), code.add(isOdd, isOdd));
  return code.mul(code.reshape(g, ones), code.mul(minor, sign));
}

/// The weights are bytes, which have no change; their numbers are made for the product.
Value blockMultiplication(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value weights = code.op("graph.block_values", {pull.operand(1)},
                          {code.text("format", textOf(pull.op, "format"))});
  Value g = pull.cotangent();
  return g && weights ? code.matmul(g, weights) : Value();
}

} // namespace

std::span<const NamedGradientRule> contractionGradients() {
  static const NamedGradientRule kRules[] = {
      {"block_product", pulled(blockMultiplication, Linear::Each, 1)},
      {"matmul", pulled(multiplication, Linear::Each)},
      {"det", pulled(determinant)},
  };
  return kRules;
}

} // namespace tensmith::graph
