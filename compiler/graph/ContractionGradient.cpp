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

} // namespace

std::span<const NamedGradientRule> contractionGradients() {
  static const NamedGradientRule kRules[] = {
      {"matmul", pulled(multiplication, Linear::Each)},
      {"det", kNoGradient},
  };
  return kRules;
}

} // namespace tensmith::graph
