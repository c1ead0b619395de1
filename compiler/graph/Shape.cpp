// Symbolic dimensions in a normal form: polynomials over symbols and quotients; see Shape.h.
//
// A sum of products, each a coefficient times a sorted list of atoms (a symbol, or a quotient that
// does not divide out). Two expressions are equal where their normal forms are; since MLIR makes
// expressions unique, that is a comparison of pointers. What strided layers and reshapes make of
// sizes has one form: quotients are rounded down, by what divides no part of their numerators, and
// remainders are differences (Graham, Knuth, Patashnik, "Concrete mathematics", section 3.2, has
// the identities).
#include "compiler/graph/Shape.h"

#include "compiler/graph/Graph.h"

#include <numeric>

using namespace mlir;

namespace tensmith::graph {
namespace {

using Monomial = SmallVector<AffineExpr, 4>; // atoms, sorted; empty: 1

std::string text(AffineExpr expression) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  expression.print(stream);
  return result;
}

/// Symbols by number, before quotients by their text: an order that does not depend on addresses.
bool atomLess(AffineExpr a, AffineExpr b) {
  auto sa = dyn_cast<AffineSymbolExpr>(a), sb = dyn_cast<AffineSymbolExpr>(b);
  if (sa && sb)
    return sa.getPosition() < sb.getPosition();
  if (sa || sb)
    return bool(sa);
  return a != b && text(a) < text(b);
}

struct MonomialLess {
  bool operator()(const Monomial &a, const Monomial &b) const {
    if (a.size() != b.size())
      return a.size() > b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), atomLess);
  }
};

class Polynomial {
public:
  explicit Polynomial(MLIRContext *context) : context_(context) {}

  static Polynomial of(AffineExpr expression) {
    MLIRContext *context = expression.getContext();
    Polynomial result(context);
    if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
      result.add({}, std::max(constant.getValue(), -std::numeric_limits<int64_t>::max()));
      return result;
    }
    auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
    if (!binary) {
      result.add({expression}, 1);
      return result;
    }
    Polynomial a = of(binary.getLHS()), b = of(binary.getRHS());
    switch (binary.getKind()) {
    case AffineExprKind::Add:
      for (auto &[monomial, coefficient] : b.terms_)
        a.add(monomial, coefficient);
      return a;
    case AffineExprKind::Mul:
      return a.times(b);
    default:
      return quotient(binary.getKind(), a, b);
    }
  }

  AffineExpr expression() const {
    AffineExpr sum;
    for (auto &[monomial, coefficient] : terms_) {
      AffineExpr product;
      for (AffineExpr atom : monomial)
        product = product ? product * atom : atom;
      AffineExpr term =
          product ? product * coefficient : getAffineConstantExpr(coefficient, context_);
      sum = sum ? sum + term : term;
    }
    return sum ? sum : getAffineConstantExpr(0, context_);
  }

  Polynomial times(const Polynomial &other) const {
    Polynomial result(context_);
    for (auto &[m, c] : terms_)
      for (auto &[n, d] : other.terms_) {
        Monomial product(m);
        product.append(n);
        llvm::sort(product, atomLess);
        int64_t coefficient;
        if (__builtin_mul_overflow(c, d, &coefficient))
          coefficient = std::numeric_limits<int64_t>::max();
        result.add(product, coefficient);
      }
    return result;
  }

private:
  void add(Monomial monomial, int64_t coefficient) {
    auto [it, isNew] = terms_.try_emplace(std::move(monomial), 0);
    if (__builtin_add_overflow(it->second, coefficient, &it->second))
      it->second = std::numeric_limits<int64_t>::max();
    if (it->second == 0)
      terms_.erase(it);
  }

  std::optional<int64_t> constant() const {
    if (terms_.empty())
      return 0;
    bool isConstant = terms_.size() == 1 && terms_.begin()->first.empty();
    return isConstant ? std::optional(terms_.begin()->second) : std::nullopt;
  }

  static Polynomial ofAtom(AffineExpr atom) {
    Polynomial result(atom.getContext());
    result.add({atom}, 1);
    return result;
  }

  void addAll(const Polynomial &other, int64_t factor = 1) {
    for (auto &[monomial, coefficient] : other.terms_) {
      int64_t product;
      if (__builtin_mul_overflow(coefficient, factor, &product))
        product = std::numeric_limits<int64_t>::max();
      add(monomial, product);
    }
  }

  /// Without those atoms; nothing where one isn't there.
  static std::optional<Monomial> without(const Monomial &monomial, const Monomial &atoms) {
    Monomial rest(monomial);
    for (AffineExpr atom : atoms) {
      auto it = llvm::find(rest, atom);
      if (it == rest.end())
        return std::nullopt;
      rest.erase(it);
    }
    return rest;
  }

  /// This divided by the other where nothing is left: long division by the leading terms, whose
  /// order products keep.
  std::optional<Polynomial> dividedBy(const Polynomial &divisor) const {
    constexpr int kMostSteps = 64;
    auto &[atoms, leading] = *divisor.terms_.begin();
    Polynomial result(context_), rest(*this);
    for (int step = 0; !rest.terms_.empty(); ++step) {
      auto &[monomial, coefficient] = *rest.terms_.begin();
      auto left = without(monomial, atoms);
      if (!left || coefficient % leading != 0 || step == kMostSteps)
        return std::nullopt;
      Polynomial part(context_);
      part.add(*left, coefficient / leading);
      result.addAll(part);
      rest.addAll(part.times(divisor), -1);
    }
    return result;
  }

  /// Takes out of this the terms that the single term divides, and returns their quotient:
  /// (d * p + q) floordiv d = p + q floordiv d. Of coefficients beside a constant divisor what is
  /// left is in [0, d).
  Polynomial takeMultiples(const Polynomial &divisor) {
    auto &[atoms, each] = *divisor.terms_.begin();
    Polynomial taken(context_);
    for (auto &[monomial, coefficient] : terms_)
      if (auto left = without(monomial, atoms)) {
        int64_t times = coefficient / each - (coefficient % each < 0);
        if (atoms.empty() || coefficient % each == 0)
          taken.add(*left, times);
      }
    addAll(taken.times(divisor), -1);
    return taken;
  }

  /// The largest constant that divides all coefficients but the constant term's.
  int64_t content() const {
    int64_t content = 0;
    for (auto &[monomial, coefficient] : terms_)
      if (!monomial.empty())
        content = std::gcd(content, coefficient);
    return content;
  }

  /// ((p floordiv a) + q) floordiv d  ->  (p + a * q) floordiv (a * d), with a constant a, as of
  /// strided layers one behind the other: this becomes the numerator, `divisor` a * d. False where
  /// there is no such quotient.
  bool flatten(int64_t &divisor) {
    for (auto &[monomial, coefficient] : terms_) {
      auto inner = monomial.size() == 1 && coefficient == 1
                       ? dyn_cast<AffineBinaryOpExpr>(monomial[0])
                       : AffineBinaryOpExpr(nullptr);
      auto by = inner && inner.getKind() == AffineExprKind::FloorDiv
                    ? dyn_cast<AffineConstantExpr>(inner.getRHS())
                    : AffineConstantExpr();
      if (!by || by.getValue() <= 0 || by.getValue() > kLargestDivisor / divisor)
        continue;
      Polynomial rest(*this);
      rest.add(monomial, -1);
      *this = of(inner.getLHS());
      addAll(rest, by.getValue());
      divisor *= by.getValue();
      return true;
    }
    return false;
  }

  /// The quotient, rounded down, by a positive constant.
  static Polynomial floorOf(Polynomial a, int64_t divisor) {
    Polynomial result(a.context_);
    do {
      Polynomial by(a.context_);
      by.add({}, divisor);
      result.addAll(a.takeMultiples(by));
      // (g * p + c) floordiv (g * d) = (p + c floordiv g) floordiv d
      if (int64_t common = std::gcd(a.content(), divisor); common > 1) {
        Polynomial reduced(a.context_);
        for (auto &[monomial, coefficient] : a.terms_) // in [0, divisor), all of them
          reduced.add(monomial, coefficient / common);
        a = reduced;
        divisor /= common;
      }
    } while (a.flatten(divisor));
    if (divisor == 1)
      result.addAll(a);
    else if (!a.constant()) // a constant is less than the divisor
      result.addAll(ofAtom(a.expression().floorDiv(divisor)));
    return result;
  }

  /// Atoms and constant that divide all terms of both go from both: (a * s) floordiv (b * s).
  static void cancel(Polynomial &a, Polynomial &b) {
    Monomial shared(b.terms_.begin()->first);
    int64_t content = 0;
    for (const Polynomial *each : {&a, &b})
      for (auto &[monomial, coefficient] : each->terms_) {
        content = std::gcd(content, coefficient);
        Monomial left(monomial), both;
        for (AffineExpr atom : shared)
          if (auto it = llvm::find(left, atom); it != left.end()) {
            left.erase(it);
            both.push_back(atom);
          }
        shared = both;
      }
    if (shared.empty() && content <= 1)
      return;
    for (Polynomial *each : {&a, &b}) {
      Polynomial reduced(each->context_);
      for (auto &[monomial, coefficient] : each->terms_)
        reduced.add(*without(monomial, shared), coefficient / content);
      *each = reduced;
    }
  }

  static Polynomial quotient(AffineExprKind kind, Polynomial a, Polynomial b) {
    Polynomial result(a.context_);
    if (b.terms_.empty()) // by zero: nothing is known of it, and nothing traps
      return result;
    if (kind == AffineExprKind::Mod) { // a - b * (a floordiv b)
      result.addAll(a);
      result.addAll(b.times(quotient(AffineExprKind::FloorDiv, a, b)), -1);
      return result;
    }
    if (auto exact = a.dividedBy(b))
      return *exact;
    cancel(a, b);
    if (auto divisor = b.constant(); divisor && *divisor > 0) {
      // Rounding up is rounding down of a little more.
      if (kind == AffineExprKind::CeilDiv)
        a.add({}, *divisor - 1);
      return floorOf(std::move(a), *divisor);
    }
    if (b.terms_.size() == 1)
      result = a.takeMultiples(b);
    if (a.terms_.empty())
      return result;
    AffineExpr x = a.expression(), y = b.expression();
    result.addAll(ofAtom(kind == AffineExprKind::FloorDiv ? x.floorDiv(y) : x.ceilDiv(y)));
    return result;
  }

  /// A divisor up to which quotients of quotients become one: what it is multiplied by stays exact.
  static constexpr int64_t kLargestDivisor = int64_t(1) << 31;

  MLIRContext *context_;
  std::map<Monomial, int64_t, MonomialLess> terms_;
};

} // namespace

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
  return Polynomial::of(expression).expression();
}

bool ShapeContext::equal(AffineExpr a, AffineExpr b) const {
  return a == b || simplify(a) == simplify(b);
}

AffineExpr ShapeContext::product(ArrayRef<AffineExpr> dims) const {
  // Not by `*`, which wraps around where it folds constants.
  Polynomial result = Polynomial::of(constant(1));
  for (AffineExpr dim : dims)
    result = result.times(Polynomial::of(dim));
  return result.expression();
}

/// Sizes that one broadcasts from, beyond which it is a size that the run alone tells: the
/// expression has twice as many terms with each.
static constexpr size_t kMostBroadcastParts = 4;

/// Of sizes that are longer than that, too: an expression of their broadcast has each of them
/// twice.
static constexpr size_t kMostBroadcastTerms = 512;

static size_t termsOf(AffineExpr size) {
  size_t terms = 0;
  size.walk([&](AffineExpr) { ++terms; });
  return terms;
}

/// The first of the sizes that is not 1, as an expression: a + isOne(a) * (rest - 1).
AffineExpr ShapeContext::broadcastOf(ArrayRef<AffineExpr> parts) const {
  AffineExpr size = parts.back();
  for (AffineExpr part : llvm::reverse(parts.drop_back())) {
    // 1 where it is 1, and 0 elsewhere: of 2, 1, 0, 0, ... for 0, 1, 2, 3, ... what is odd.
    AffineExpr isOne = constant(2).floorDiv(part + 1) % 2;
    size = simplify(part + isOne * (size - 1));
  }
  return size;
}

/// The sizes of which `broadcastOf` made this one, or the size itself. Without this, each further
/// operator would nest the expression once more.
SmallVector<AffineExpr> ShapeContext::broadcastParts(AffineExpr size) const {
  size = simplify(size);
  SmallVector<AffineExpr> parts;
  DenseMap<AffineExpr, AffineExpr> allOnes;
  size.walk([&](AffineExpr part) {
    auto quotient = dyn_cast<AffineBinaryOpExpr>(part);
    if (!quotient || quotient.getKind() != AffineExprKind::FloorDiv)
      return;
    // Of 2n - 1, 2 / 2n has become 1 / n.
    auto over = dyn_cast<AffineConstantExpr>(quotient.getLHS());
    bool isOne = over && (over.getValue() == 1 || over.getValue() == 2);
    if (isOne && allOnes.try_emplace(part, constant(1)).second)
      parts.push_back(simplify(quotient.getRHS() * (2 / over.getValue()) - 1));
  });
  if (parts.empty() || parts.size() >= kMostBroadcastParts)
    return {size};
  // If all parts but the last were 1, it would be the sum of all, less 1 for each of the others.
  AffineExpr last = size.replace(allOnes);
  for (AffineExpr part : parts)
    last = last - (part - 1);
  parts.push_back(simplify(last));
  auto less = [&](AffineExpr a, AffineExpr b) { return text(a) < text(b); };
  std::sort(parts.begin(), parts.end() - 1, less);
  do
    if (broadcastOf(parts) == size)
      return parts;
  while (std::next_permutation(parts.begin(), parts.end() - 1, less));
  return {size};
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
  return result + text(simplify(size.replaceSymbols(replacements)));
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
  // What wraps around is the reference's to compute.
  if (result && !llvm::all_of(*result, [&](AffineExpr element) {
        return holds(type.getElementType(), element);
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
