// Chains as they are built; see ProductChain.h.
//
// A vector becomes a matrix of one row or one column, which kernels of products are for.
#include "compiler/graph/Precision.h"
#include "compiler/rewrite/ProductChain.h"

using namespace mlir;

namespace tensmith::rewrite {

Value ChainBuilder::factor(unsigned number) {
  const Factor &of = chain_.factors[number];
  if (!of.isVector)
    return of.isTurned ? turned(of.value) : of.value;
  return code_.reshape(of.value, {chain_.sizes[number].rows, chain_.sizes[number].columns});
}

Value ChainBuilder::turned(Value part) {
  if (!part)
    return part;
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, graph::GraphCode::rank(part)));
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return code_.transpose(part, permutation);
}

/// What the graph has of a part already, as a matrix; null: nothing.
Value ChainBuilder::given(const ProductTree &part) {
  bool isTurned;
  Value value = chain_.hasStacks() ? Value() : known_.find(chain_, part.first, part.last, isTurned);
  if (!value)
    return {};
  SmallVector<AffineExpr> dims{chain_.sizes[part.first].rows, chain_.sizes[part.last].columns};
  if (isTurned)
    std::reverse(dims.begin(), dims.end());
  Type element = getElementTypeOrSelf(value.getType());
  value = asType(graph_, value, graph_.shapes.tensorType(element, dims));
  return isTurned ? turned(value) : value;
}

Value ChainBuilder::part(const ProductTree &tree) {
  if (tree.isProduct())
    return product(tree);
  if (tree.first == tree.last)
    return factor(tree.first);
  if (Value value = given(tree))
    return value;
  // Of constants: in the best order, too, since it is evaluated.
  auto sizes = ArrayRef(chain_.sizes).slice(tree.first, tree.last - tree.first + 1);
  auto orders = bestOrders(sizes, graph_.shapes, [](unsigned, unsigned) { return false; });
  std::function<Value(const ProductTree &)> build = [&](const ProductTree &of) {
    return of.isProduct() ? code_.matmul(build(*of.left), build(*of.right))
                          : factor(tree.first + of.first);
  };
  return build(*orders[0].tree);
}

Value ChainBuilder::product(const ProductTree &tree) {
  Value result = code_.matmul(part(*tree.left), part(*tree.right));
  if (result && chain_.keepsPrecision)
    graph::keepPrecision(result.getDefiningOp());
  if (result && notes_ && !chain_.hasStacks())
    known_.add(chain_, {tree.first, tree.last, result, /*isTurned=*/false});
  return result;
}

Value ChainBuilder::build(const ProductTree &tree) {
  Value result = part(tree);
  if (chain_.isNegative)
    result = result ? graph_.unary("graph.neg", result) : result;
  for (const Scale &scale : chain_.scales) {
    Value number = code_.reshape(scale.number, {});
    result = scale.divides ? code_.div(result, number) : code_.mul(result, number);
  }
  return result;
}

Value ChainBuilder::sizeOf(unsigned number, bool isRows) {
  const Factor &of = chain_.factors[number];
  if (of.isVector)
    return isRows == of.isTurned ? graph_.scalar(graph_.builder.getI64Type(), 1)
                                 : code_.sizeOf(of.value, 0);
  int64_t rank = graph::GraphCode::rank(of.value);
  return code_.sizeOf(of.value, isRows != of.isTurned ? rank - 2 : rank - 1);
}

Value ChainBuilder::stackSize(unsigned first, unsigned last) {
  size_t rank = 0;
  for (const FactorSizes &sizes : chain_.sizes)
    rank = std::max(rank, sizes.stack.size());
  Value product;
  for (size_t fromEnd = 1; fromEnd <= rank; ++fromEnd) {
    Value largest;
    for (unsigned number = first; number <= last; ++number) {
      size_t own = chain_.sizes[number].stack.size();
      if (own < fromEnd)
        continue;
      Value size = code_.sizeOf(chain_.factors[number].value, int64_t(own - fromEnd));
      largest = largest ? graph_.binary("graph.max", largest, size) : size;
    }
    if (largest)
      product = product ? code_.mul(product, largest) : largest;
  }
  return product;
}

Value ChainBuilder::count(const ProductTree &tree) {
  if (!tree.isProduct())
    return {};
  Value own = code_.mul(code_.mul(sizeOf(tree.first, true), sizeOf(tree.left->last, false)),
                        sizeOf(tree.last, false));
  if (Value stack = stackSize(tree.first, tree.last))
    own = code_.mul(own, stack);
  for (const auto &part : {tree.left, tree.right})
    if (Value more = count(*part))
      own = code_.add(own, more);
  return own;
}

Value asType(graph::GraphBuilder &graph, Value value, RankedTensorType type) {
  if (!value || value.getType() == type)
    return value;
  auto own = dyn_cast<RankedTensorType>(value.getType());
  if (!own || own.getElementType() != type.getElementType())
    return {};
  auto known = [&](RankedTensorType of) {
    auto dims = graph.shapes.dims(of);
    llvm::erase(dims, graph.shapes.constant(1));
    return dims;
  };
  auto from = known(own), to = known(type);
  bool same = from.size() == to.size() && llvm::all_of(llvm::zip_equal(from, to), [&](auto pair) {
                return graph.shapes.equal(std::get<0>(pair), std::get<1>(pair));
              });
  return same ? graph.reshape(value, graph.shapes.dims(type)) : Value();
}

} // namespace tensmith::rewrite
