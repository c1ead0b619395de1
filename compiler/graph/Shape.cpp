// Symbols by their names, types' dimensions over them, broadcasting, known contents; see Shape.h.
#include "compiler/graph/Shape.h"

#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Polynomial.h"

using namespace mlir;

namespace tensmith::graph {

ArrayRef<StringAttr> symbolNames(RankedTensorType type) {
  auto dims = dyn_cast_or_null<DimsAttr>(type.getEncoding());
  return dims ? dims.getSymbols() : ArrayRef<StringAttr>();
}

AffineExpr dimExpression(RankedTensorType type, unsigned dim) {
  if (!type.isDynamicDim(dim))
    return getAffineConstantExpr(type.getDimSize(dim), type.getContext());
  auto dims = dyn_cast_or_null<DimsAttr>(type.getEncoding());
  return dims ? dims.getMap().getResult(dim) : AffineExpr();
}

AffineExpr ShapeContext::symbol(StringAttr name) {
  auto [it, isNew] = positions_.try_emplace(name, names_.size());
  if (isNew)
    names_.push_back(name);
  return getAffineSymbolExpr(it->second, context_);
}

AffineExpr ShapeContext::freshSymbol(StringRef hint) {
  StringAttr name;
  do
    name = StringAttr::get(context_, hint + "." + Twine(fresh_++));
  while (positions_.contains(name));
  return symbol(name);
}

SmallVector<AffineExpr> ShapeContext::dims(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  SmallVector<AffineExpr> symbols;
  for (StringAttr name : symbolNames(type))
    symbols.push_back(symbol(name));
  SmallVector<AffineExpr> result;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (AffineExpr expression = dimExpression(type, dim)) {
      result.push_back(simplify(expression.replaceSymbols(symbols)));
      continue;
    }
    result.push_back(freshSymbol("unknown"));
    nameless_.insert(cast<AffineSymbolExpr>(result.back()).getPosition());
  }
  return result;
}

Type ShapeContext::withSizes(Type type, llvm::function_ref<AffineExpr(AffineExpr)> of) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !ranked.getEncoding())
    return type;
  return tensorType(ranked.getElementType(), llvm::map_to_vector(dims(ranked), of));
}

RankedTensorType ShapeContext::tensorType(Type element, ArrayRef<AffineExpr> dims) {
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> expressions;
  std::map<StringRef, StringAttr> used;
  for (AffineExpr dim : dims) {
    AffineExpr simple = simplify(dim);
    expressions.push_back(simple);
    auto constant = dyn_cast<AffineConstantExpr>(simple);
    shape.push_back(constant ? std::max<int64_t>(constant.getValue(), 0) : ShapedType::kDynamic);
    simple.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        used.emplace(names_[symbol.getPosition()].getValue(), names_[symbol.getPosition()]);
    });
  }
  if (used.empty())
    return RankedTensorType::get(shape, element);
  SmallVector<StringAttr> names;
  SmallVector<AffineExpr> replacements(names_.size(), constant(0));
  for (auto &[_, name] : used) {
    replacements[positions_.lookup(name)] = getAffineSymbolExpr(names.size(), context_);
    names.push_back(name);
  }
  for (AffineExpr &expression : expressions)
    expression = simplify(expression.replaceSymbols(replacements));
  auto map = AffineMap::get(0, names.size(), expressions, context_);
  return RankedTensorType::get(shape, element, DimsAttr::get(context_, names, map));
}

AffineExpr ShapeContext::simplify(AffineExpr expression) const {
  return Polynomial::normal(expression);
}

bool ShapeContext::equal(AffineExpr a, AffineExpr b) const {
  return a == b || simplify(a) == simplify(b);
}

AffineExpr ShapeContext::product(ArrayRef<AffineExpr> dims) const {
  // Not by `*`, which wraps around where it folds constants.
  SmallVector<Polynomial> factors;
  for (AffineExpr dim : dims)
    Polynomial::appendFactors(dim, factors);
  return Polynomial::product(factors, context_).expression();
}

/// Of sizes that are longer than that it is one that the run alone tells, too: an expression of
/// their broadcast has each of them twice.
static constexpr size_t kMostBroadcastTerms = 512;

static size_t termsOf(AffineExpr size) {
  size_t terms = 0;
  size.walk([&](AffineExpr) { ++terms; });
  return terms;
}

AffineExpr ShapeContext::broadcastOf(ArrayRef<AffineExpr> parts) const {
  return sizeOfBroadcast(parts);
}

SmallVector<AffineExpr> ShapeContext::broadcastParts(AffineExpr size) const {
  return partsOfBroadcast(size);
}

/// A text that is the same in every context.
std::string ShapeContext::nameText(AffineExpr size) const {
  std::map<StringRef, unsigned> used; // in the order of their names
  size.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      used.emplace(names_[symbol.getPosition()].getValue(), symbol.getPosition());
  });
  std::string result;
  SmallVector<AffineExpr> replacements(names_.size(), constant(0));
  for (auto [number, name] : llvm::enumerate(used)) {
    replacements[name.second] = getAffineSymbolExpr(unsigned(number), context_);
    result += name.first.str() + " ";
  }
  return result + textOf(simplify(size.replaceSymbols(replacements)));
}

static constexpr char kBroadcastMessage[] = "the operands' shapes do not broadcast together: a "
                                            "dimension is {a} in one and {b} in the other";

std::optional<AffineExpr> ShapeContext::broadcast(AffineExpr a, AffineExpr b) {
  if (equal(a, b))
    return a;
  auto ca = dyn_cast<AffineConstantExpr>(a), cb = dyn_cast<AffineConstantExpr>(b);
  if (ca && ca.getValue() == 1)
    return b;
  if (cb && cb.getValue() == 1)
    return a;
  if (ca && cb)
    return std::nullopt;
  // A constant other than 1 is the result, whether the other is 1 or the same.
  if (ca || cb) {
    require({Condition::Relation::EqualOrOne, ca ? b : a, ca ? a : b, kBroadcastMessage});
    return ca ? a : b;
  }
  // Of a size without a name this is the first that anybody hears, and the last.
  auto isNameless = [&](AffineExpr size) {
    bool found = false;
    size.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        found |= nameless_.contains(symbol.getPosition());
    });
    return found;
  };
  if (isNameless(a) || isNameless(b))
    return freshSymbol("broadcast");
  // What can't be 1 is the result, as with a constant: images that were made twice as large.
  auto isNotOne = [&](AffineExpr size) {
    return SizeFacts().decide(Condition::Relation::Equal, size, constant(1)) == false;
  };
  for (auto [size, other] : {std::pair(a, b), std::pair(b, a)})
    if (isNotOne(size)) {
      require({Condition::Relation::EqualOrOne, other, size, kBroadcastMessage});
      return size;
    }
  if (termsOf(a) + termsOf(b) > kMostBroadcastTerms)
    return freshSymbol("broadcast");
  SmallVector<AffineExpr> parts = broadcastParts(a), others = broadcastParts(b);
  auto isIn = [](ArrayRef<AffineExpr> all) {
    return [all](AffineExpr part) { return llvm::is_contained(all, part); };
  };
  // Of a value that is there it is known that its parts broadcast together.
  if (llvm::all_of(others, isIn(parts)))
    return a;
  if (llvm::all_of(parts, isIn(others)))
    return b;
  SmallVector<AffineExpr> all(parts);
  llvm::copy_if(others, std::back_inserter(all), std::not_fn(isIn(parts)));
  if (all.size() > kMostBroadcastParts)
    return freshSymbol("broadcast");
  // In an order of its own, so that operands that change places give the same size.
  llvm::sort(all, [&](AffineExpr x, AffineExpr y) { return nameText(x) < nameText(y); });
  require({Condition::Relation::Broadcast, a, b, kBroadcastMessage});
  return broadcastOf(all);
}

bool ShapeContext::isExact(AffineExpr expression) {
  bool exact = true;
  expression.walk([&](AffineExpr part) {
    if (auto constant = dyn_cast<AffineConstantExpr>(part))
      exact &= std::abs(double(constant.getValue())) < 0x1p63;
  });
  return exact;
}

/// Whether elements of the type can have the value; integers without a sign are signed. What is
/// made of symbols stays within 32 bits for sizes of some ten thousands, unless its constants are
/// large.
static bool holds(Type element, AffineExpr value) {
  if (element.isIndex())
    return true;
  auto type = cast<IntegerType>(element);
  auto constant = dyn_cast<AffineConstantExpr>(value);
  if (!constant) {
    bool isSmall = true;
    value.walk([&](AffineExpr part) {
      if (auto factor = dyn_cast<AffineConstantExpr>(part))
        isSmall &= llvm::isInt<16>(factor.getValue());
    });
    return isSmall || type.getWidth() >= 64;
  }
  return type.isUnsigned() || type.getWidth() == 1
             ? constant.getValue() >= 0 &&
                   llvm::isUIntN(type.getWidth(), uint64_t(constant.getValue()))
             : llvm::isIntN(type.getWidth(), constant.getValue());
}

std::optional<Contents> ShapeContext::contents(Value value) {
  if (auto it = known_.find(value); it != known_.end())
    return it->second;
  std::optional<Contents> result;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto op = value.getDefiningOp<KnownContents>();
  if (op && type && type.hasStaticShape() && type.getElementType().isIntOrIndex() &&
      type.getNumElements() <= kMaxKnownContents)
    result = op.contents(*this, cast<OpResult>(value).getResultNumber());
  if (result)
    for (AffineExpr &element : *result)
      element = simplify(element);
  // What wraps around is the reference's to compute, and what has become long.
  if (result && !llvm::all_of(*result, [&](AffineExpr element) {
        return !isLongSize(element) && holds(type.getElementType(), element);
      }))
    result.reset();
  known_[value] = result;
  return result;
}

void ShapeContext::forget(Operation *made) {
  made->walk([&](Operation *op) {
    for (Value result : op->getResults())
      known_.erase(result);
  });
}

std::optional<SmallVector<int64_t>> ShapeContext::constants(Value value) {
  auto known = contents(value);
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> result;
  for (AffineExpr element : *known) {
    auto constant = dyn_cast<AffineConstantExpr>(element);
    if (!constant)
      return std::nullopt;
    result.push_back(constant.getValue());
  }
  return result;
}

} // namespace tensmith::graph
