// Chains as they are found; see ProductChain.h.
#include "compiler/rewrite/ProductChain.h"

#include "compiler/graph/Precision.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

RankedTensorType ranked(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

/// Whether the last two dimensions change places, and no others.
bool turnsMatrices(graph::TransposeOp op) {
  ArrayRef<int64_t> permutation = op.getPermutation();
  size_t rank = permutation.size();
  if (rank < 2 || permutation[rank - 1] != int64_t(rank) - 2)
    return false;
  return llvm::all_of(llvm::seq<size_t>(0, rank - 2),
                      [&](size_t dim) { return permutation[dim] == int64_t(dim); });
}

/// Between a vector and a matrix of one row or one column: which of both the matrix is.
enum class Side { None, Row, Column };
Side sideOf(RankedTensorType matrix, RankedTensorType vector) {
  if (!matrix || !vector || matrix.getRank() != 2 || vector.getRank() != 1)
    return Side::None;
  if (matrix.getDimSize(1) == 1)
    return Side::Column;
  return matrix.getDimSize(0) == 1 ? Side::Row : Side::None;
}
Side sideOf(graph::ReshapeOp op) {
  Side side = sideOf(ranked(op.getY()), ranked(op.getX()));
  return side == Side::None ? sideOf(ranked(op.getX()), ranked(op.getY())) : side;
}

/// Moves matrices and leaves their elements.
bool isPassage(Operation *op) {
  if (auto transpose = dyn_cast<graph::TransposeOp>(op))
    return turnsMatrices(transpose);
  auto reshape = dyn_cast<graph::ReshapeOp>(op);
  return reshape && sideOf(reshape) != Side::None;
}

bool isNumber(Value value) {
  auto type = ranked(value);
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

/// The operand that is scaled by one number, or negated; null of other operators.
Value scaledOperand(Operation *op) {
  Value scaled;
  if (auto negation = dyn_cast<graph::NegOp>(op))
    scaled = negation.getX();
  else if (auto quotient = dyn_cast<graph::DivOp>(op))
    scaled = isNumber(quotient.getB()) && isa<FloatType>(getElementTypeOrSelf(quotient.getA()))
                 ? quotient.getA()
                 : Value();
  else if (auto product = dyn_cast<graph::MulOp>(op))
    scaled = isNumber(product.getB())   ? product.getA()
             : isNumber(product.getA()) ? product.getB()
                                        : Value();
  return scaled && scaled.getType() == op->getResult(0).getType() ? scaled : Value();
}

bool isReorderable(graph::MatMulOp product, bool keepsSums) {
  auto a = ranked(product.getA()), b = ranked(product.getB()), c = ranked(product.getC());
  if (!a || !b || !c || product.getAccumulateI32() || product->hasAttr("graph.input_moments"))
    return false;
  Type element = c.getElementType();
  bool isFloat = isa<FloatType>(element) && element.getIntOrFloatBitWidth() >= 16;
  bool isInteger = element.isSignlessInteger(32) || element.isSignlessInteger(64);
  return (isInteger || (isFloat && !keepsSums)) && a.getElementType() == element &&
         b.getElementType() == element;
}

/// Whether the result's rank says by itself whether it is a vector.
bool canBeInner(graph::MatMulOp product) {
  int64_t a = ranked(product.getA()).getRank(), b = ranked(product.getB()).getRank();
  return (a >= 2 && b >= 2) || a + b == 3;
}

/// Uses of the value, those behind passages in their place.
void appendReaders(Value value, SmallVectorImpl<OpOperand *> &readers) {
  for (OpOperand &use : value.getUses())
    if (isPassage(use.getOwner()))
      appendReaders(use.getOwner()->getResult(0), readers);
    else
      readers.push_back(&use);
}

SmallVector<OpOperand *> readersOf(Operation *op) {
  SmallVector<OpOperand *> readers;
  appendReaders(op->getResult(0), readers);
  return readers;
}

} // namespace

bool ProductChain::hasStacks() const {
  return llvm::any_of(sizes, [](const FactorSizes &of) { return !of.stack.empty(); });
}

bool ProductChain::isConstant(unsigned first, unsigned last) const {
  return llvm::all_of(ArrayRef(factors).slice(first, last - first + 1), [](const Factor &factor) {
    return factor.value.getDefiningOp<graph::ConstantOp>();
  });
}

/// The factors' texts as they stand, and turned round; the smaller is the key.
static KnownProducts::Text keyOf(const ProductChain &chain, unsigned first, unsigned last,
                                 bool &isTurned) {
  KnownProducts::Text straight, turned;
  for (const Factor &factor : ArrayRef(chain.factors).slice(first, last - first + 1))
    straight.emplace_back(factor.value.getAsOpaquePointer(), factor.isTurned);
  for (auto [value, isFactorTurned] : llvm::reverse(straight))
    turned.emplace_back(value, !isFactorTurned);
  isTurned = turned < straight;
  return isTurned ? turned : straight;
}

bool KnownProducts::has(const ProductChain &chain, unsigned first, unsigned last) const {
  bool isTurned;
  return values_.count(keyOf(chain, first, last, isTurned));
}

void KnownProducts::add(const ProductChain &chain, const ChainPart &part) {
  bool isTurned;
  Text key = keyOf(chain, part.first, part.last, isTurned);
  values_.try_emplace(std::move(key), part.value, isTurned ^ part.isTurned);
}

Value KnownProducts::find(const ProductChain &chain, unsigned first, unsigned last,
                          bool &isTurned) const {
  auto found = values_.find(keyOf(chain, first, last, isTurned));
  if (found == values_.end())
    return {};
  isTurned ^= found->second.second;
  return found->second.first;
}

ProductGraph::ProductGraph(Block &block, graph::ShapeContext &shapes, bool keepsSums)
    : block_(block), shapes_(shapes), keepsSums_(keepsSums) {
  for (auto product : block.getOps<graph::MatMulOp>())
    if (isReorderable(product, keepsSums))
      products_.push_back(product);
}

bool ProductGraph::isPart(Operation *op) const {
  auto product = dyn_cast<graph::MatMulOp>(op);
  return product && product->getBlock() == &block_ && isReorderable(product, keepsSums_);
}

bool ProductGraph::isShared(graph::MatMulOp product) const {
  return readersOf(product).size() != 1 && !expanded_.contains(product);
}

/// The reader's product, through what scales on the way; null where it is none.
static Operation *readingProduct(OpOperand *reader) {
  Operation *op = reader->getOwner();
  while (!isa<graph::MatMulOp>(op)) {
    auto readers =
        op->getNumResults() == 1 && scaledOperand(op) ? readersOf(op) : SmallVector<OpOperand *>();
    if (readers.size() != 1)
      return nullptr;
    op = readers[0]->getOwner();
  }
  return op;
}

bool ProductGraph::isInner(graph::MatMulOp product) const {
  if (!canBeInner(product) || isShared(product))
    return false;
  return llvm::all_of(readersOf(product), [&](OpOperand *reader) {
    Operation *op = readingProduct(reader);
    return op && isPart(op);
  });
}

Operation *ProductGraph::chainEnd(Operation *product) const {
  while (isInner(cast<graph::MatMulOp>(product)) && !expanded_.contains(product))
    product = readingProduct(readersOf(product)[0]);
  return product;
}

llvm::SetVector<Operation *> ProductGraph::chainsThatShare(graph::MatMulOp product) const {
  constexpr size_t kMostReaders = 8;
  SmallVector<OpOperand *> readers = readersOf(product);
  if (readers.size() < 2 || readers.size() > kMostReaders || !canBeInner(product))
    return {};
  llvm::SetVector<Operation *> ends;
  for (OpOperand *reader : readers) {
    if (!isPart(reader->getOwner()))
      return {};
    ends.insert(chainEnd(reader->getOwner()));
  }
  return ends;
}

void ProductGraph::addFactor(Value value, bool isTurned, ProductChain &chain) const {
  auto dims = shapes_.dims(value.getType());
  FactorSizes sizes;
  bool isVector = dims.size() == 1;
  sizes.columns = isVector ? shapes_.constant(1) : dims.pop_back_val();
  sizes.rows = dims.pop_back_val();
  if (isTurned)
    std::swap(sizes.rows, sizes.columns);
  sizes.stack.assign(dims.begin(), dims.end());
  chain.factors.push_back({value, isTurned, isVector});
  chain.sizes.push_back(std::move(sizes));
}

void ProductGraph::collectProduct(graph::MatMulOp product, bool isTurned, bool counts,
                                  ProductChain &chain) const {
  unsigned first = unsigned(chain.factors.size());
  ++chain.products;
  if (counts) {
    SmallVector<AffineExpr> sizes = shapes_.dims(product.getC().getType());
    sizes.push_back(shapes_.dims(product.getA().getType()).back());
    chain.count += OperationCount::ofProduct(sizes);
  }
  chain.keepsPrecision |= product->hasAttr(graph::kKeepsPrecision);
  bool isRow = ranked(product.getA()).getRank() == 1;
  bool isRowOfTurned = isRow && ranked(product.getB()).getRank() > 1;
  if (isTurned == isRowOfTurned) { // a vector is a column, and that of a row is turned
    collect(product.getA(), isRow, counts, chain);
    collect(product.getB(), false, counts, chain);
  } else {
    collect(product.getB(), true, counts, chain);
    collect(product.getA(), !isRow, counts, chain);
  }
  chain.parts.push_back({first, unsigned(chain.factors.size()) - 1, product.getC(), isTurned});
}

bool ProductGraph::collectScaled(Operation *op, bool isTurned, bool counts,
                                 ProductChain &chain) const {
  Value scaled = scaledOperand(op);
  if (!scaled || op->getBlock() != &block_ || readersOf(op).size() != 1)
    return false;
  ProductChain inner;
  inner.products = chain.products;
  collect(scaled, isTurned, counts, inner);
  if (inner.factors.size() < 2)
    return false;
  for (ChainPart &part : inner.parts) {
    part.first += unsigned(chain.factors.size());
    part.last += unsigned(chain.factors.size());
  }
  chain.parts.append(inner.parts);
  chain.products = inner.products;
  chain.factors.append(inner.factors);
  chain.sizes.append(inner.sizes);
  chain.scales.append(inner.scales);
  chain.isNegative ^= inner.isNegative ^ isa<graph::NegOp>(op);
  chain.keepsPrecision |= inner.keepsPrecision;
  chain.count += inner.count;
  if (!isa<graph::NegOp>(op)) {
    bool isFirst = op->getOperand(0) == scaled;
    chain.scales.push_back({op->getOperand(isFirst ? 1 : 0), isa<graph::DivOp>(op)});
  }
  return true;
}

void ProductGraph::collect(Value value, bool isTurned, bool counts, ProductChain &chain) const {
  Operation *op = value.getDefiningOp();
  if (op && isPassage(op)) {
    auto reshape = dyn_cast<graph::ReshapeOp>(op);
    return collect(op->getOperand(0), isTurned ^ (!reshape || sideOf(reshape) == Side::Row), counts,
                   chain);
  }
  auto product = op && isPart(op) ? cast<graph::MatMulOp>(op) : graph::MatMulOp();
  if (product && canBeInner(product) && chain.products + 1 < kMostFactors)
    return collectProduct(product, isTurned, counts && !isShared(product), chain);
  if (!op || !collectScaled(op, isTurned, counts, chain))
    addFactor(value, isTurned, chain);
}

ProductChain ProductGraph::chainOf(graph::MatMulOp last) const {
  ProductChain chain;
  bool isRow = ranked(last.getA()).getRank() == 1 && ranked(last.getB()).getRank() > 1;
  collectProduct(last, isRow, /*counts=*/true, chain);
  return chain;
}

/// Adds the term of the sum that is the whole chain's factor at the position; false where it does
/// not broadcast as a factor does.
bool ProductGraph::addTerm(Value term, const ProductChain &whole, unsigned position,
                           ProductChain &chain) const {
  const Factor &sum = whole.factors[position];
  RankedTensorType type = ranked(term), ofSum = ranked(sum.value);
  if (!type || type.getRank() == 0 || (sum.isVector && type.getRank() != 1))
    return false;
  size_t at = chain.factors.size();
  bool isRowOfMatrix = type.getRank() == 1 && !sum.isVector;
  collect(term, sum.isTurned ^ isRowOfMatrix, /*counts=*/true, chain);
  const FactorSizes &wanted = whole.sizes[position];
  AffineExpr one = shapes_.constant(1), rows = chain.sizes[at].rows,
             columns = chain.sizes.back().columns;
  bool freeRows = position == 0, freeColumns = position + 1 == whole.factors.size();
  auto fits = [&](AffineExpr size, AffineExpr of, bool isFree) {
    return shapes_.equal(size, of) || (isFree && size == one);
  };
  return ofSum && fits(rows, wanted.rows, freeRows) && fits(columns, wanted.columns, freeColumns);
}

std::optional<ProductGraph::Distribution> ProductGraph::distribution(const ProductChain &chain,
                                                                     unsigned position) const {
  Operation *sum = chain.factors[position].value.getDefiningOp();
  if (!sum || !isa<graph::AddOp, graph::SubOp>(sum) || sum->getBlock() != &block_ ||
      readersOf(sum).size() != 1)
    return std::nullopt;
  Distribution result;
  result.sum = sum;
  for (auto [number, term] : llvm::enumerate(sum->getOperands())) {
    if (auto product = term.getDefiningOp<graph::MatMulOp>();
        product && isPart(product) && canBeInner(product) && !isShared(product))
      result.own.push_back(chainOf(product));
    ProductChain &own = result.terms[number];
    auto append = [&](unsigned first, unsigned last) {
      own.factors.append(chain.factors.begin() + first, chain.factors.begin() + last);
      own.sizes.append(chain.sizes.begin() + first, chain.sizes.begin() + last);
    };
    append(0, position);
    if (!addTerm(term, chain, position, own))
      return std::nullopt;
    append(position + 1, unsigned(chain.factors.size()));
    own.scales.append(chain.scales);
    own.isNegative ^= chain.isNegative;
    own.keepsPrecision |= chain.keepsPrecision;
    own.parts.clear();
  }
  return result.own.empty() ? std::nullopt : std::optional(std::move(result));
}

std::vector<ProductGraph::Distribution>
ProductGraph::distributions(const ProductChain &chain) const {
  std::vector<Distribution> found;
  for (unsigned position = 0; position < chain.factors.size(); ++position)
    if (auto one = distribution(chain, position))
      found.push_back(std::move(*one));
  return found;
}

} // namespace tensmith::rewrite
