// Proofs of conditions on sizes by bounds; see Conditions.h.
//
// All expressions are polynomials in the normal form of Polynomial.h. The least value of one is
// found from the inside out: a symbol is at least 0, or what was assumed of it; a sum is at least
// the sum of the least values; a quotient by a positive number at least that of the numerator's. It
// is a bound and not the minimum, so that what can't be shown may still hold.
#include "compiler/graph/Conditions.h"

#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/SizeTerms.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

using Relation = Condition::Relation;

/// Whether it is one of those that `assume` makes of a <= b: a part and a number.
bool isBound(const Condition &known) {
  return known.relation == Relation::AtMost && !known.unlessZero;
}

/// The most that a sum, product or quotient is, by the bounds of its parts.
std::optional<int64_t>
mostOfParts(AffineBinaryOpExpr binary,
            llvm::function_ref<std::optional<int64_t>(AffineExpr, bool isMost)> bound) {
  AffineExpr a = binary.getLHS(), b = binary.getRHS();
  auto number = constantOf(b);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return checkedSum(bound(a, true), bound(b, true));
  case AffineExprKind::Mul:
    if (!number)
      return std::nullopt;
    return checkedProduct(number, bound(a, *number >= 0));
  case AffineExprKind::Mod:
    return number && *number > 0 ? std::optional(*number - 1) : std::nullopt;
  case AffineExprKind::FloorDiv:
    if (auto high = number && *number > 0 ? bound(a, true) : std::nullopt)
      return floorDiv(*high, *number);
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

/// Whether the one relation of two sizes means that the other holds, too.
bool implies(Relation known, Relation wanted) {
  if (known == Relation::AtMost || wanted == Relation::AtMost)
    return false;
  return known == wanted || known == Relation::Equal ||
         (known == Relation::EqualOrOne && wanted == Relation::Broadcast);
}

/// Whether the difference is a multiple of one that is known to be none: 12 - 6 * (k * (2 floordiv
/// k)) is where k * (2 floordiv k) = 2, which says no symbol's value; and so is n + m - 115 where
/// n + m = 115.
bool isMultipleOf(AffineExpr difference, const Condition &none) {
  auto isOfSeveral = [](AffineExpr size) {
    return size.getKind() == AffineExprKind::Mul || size.getKind() == AffineExprKind::Add;
  };
  bool isOfNumber = (constantOf(none.a) && isOfSeveral(none.b)) ||
                    (constantOf(none.b) && isOfSeveral(none.a)); // what nothing else makes use of
  if (none.relation != Relation::Equal || none.unlessZero || !isOfNumber)
    return false;
  ShapeContext shapes(difference.getContext());
  AffineExpr divisor = shapes.simplify(none.a - none.b);
  AffineExpr times = shapes.simplify(difference.floorDiv(divisor));
  return constantOf(shapes.simplify(times * divisor - difference)) == 0;
}

/// The symbols of sizes that a proof is asked of. What is known of others says nothing of these,
/// and to see so is far cheaper than to try: a model may have as many conditions as nodes.
class Symbols {
public:
  explicit Symbols(llvm::ArrayRef<AffineExpr> sizes) {
    for (AffineExpr size : sizes)
      size.walk([&](AffineExpr part) {
        if (isa<AffineSymbolExpr>(part))
          symbols_.insert(part);
      });
  }

  /// Or those that have become others since it was known.
  bool areIn(const Condition &known, const llvm::DenseMap<AffineExpr, AffineExpr> &equals) const {
    bool found = false;
    for (AffineExpr size : {known.a, known.b})
      size.walk([&](AffineExpr part) {
        found |= isa<AffineSymbolExpr>(part) && (symbols_.contains(part) || equals.contains(part));
      });
    return found;
  }

private:
  llvm::SmallDenseSet<AffineExpr, 8> symbols_;
};

/// A symbol that no context has, for that part of it.
AffineExpr partOf(AffineSymbolExpr symbol) {
  constexpr unsigned kBehindAll = 1u << 30;
  return getAffineSymbolExpr(kBehindAll + symbol.getPosition(), symbol.getContext());
}

} // namespace

std::string &leftOutRequirement() {
  static std::string text;
  return text;
}

AffineExpr SizeFacts::normal(AffineExpr expression) const {
  ShapeContext shapes(expression.getContext());
  // What a symbol is equal to may have symbols that are equal to others.
  for (size_t round = 0; !equals_.empty() && round <= equals_.size(); ++round) {
    AffineExpr next = replaceSizes(expression, equals_);
    if (next == expression)
      break;
    expression = next;
  }
  return shapes.simplify(expression);
}

AffineExpr SizeFacts::settled(AffineExpr expression) const {
  AffineExpr size = normal(expression);
  if (quotients_.empty())
    return size;
  return ShapeContext(size.getContext()).simplify(size.replace(quotients_));
}

std::optional<int64_t> SizeFacts::leastProduct(AffineExpr a, AffineExpr b) const {
  for (auto [factor, other] : {std::pair(a, b), std::pair(b, a)})
    if (auto constant = constantOf(factor))
      return checkedProduct(constant, *constant >= 0 ? least(other) : most(other));
  auto x = least(a), y = least(b);
  return x && y && *x >= 0 && *y >= 0 ? checkedProduct(x, y) : std::nullopt;
}

std::optional<int64_t> SizeFacts::leastQuotient(AffineBinaryOpExpr quotient) const {
  auto numerator = least(quotient.getLHS());
  auto divisor = constantOf(quotient.getRHS());
  bool up = quotient.getKind() == AffineExprKind::CeilDiv;
  if (numerator && divisor && *divisor > 0)
    return up ? -floorDiv(-*numerator, *divisor) : floorDiv(*numerator, *divisor);
  // A divisor that isn't positive is no size that anything has.
  return numerator && *numerator >= 0 ? std::optional<int64_t>(0) : std::nullopt;
}

std::optional<int64_t> SizeFacts::least(AffineExpr expression) const {
  auto ofParts = [&]() -> std::optional<int64_t> {
    if (auto constant = constantOf(expression))
      return constant;
    if (isa<AffineSymbolExpr>(expression)) {
      auto known = least_.find(expression);
      return known == least_.end() ? 0 : known->second;
    }
    auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
    if (!binary)
      return std::nullopt;
    switch (binary.getKind()) {
    case AffineExprKind::Add:
      return checkedSum(least(binary.getLHS()), least(binary.getRHS()));
    case AffineExprKind::Mul:
      return leastProduct(binary.getLHS(), binary.getRHS());
    case AffineExprKind::Mod:
      return 0;
    default:
      return leastQuotient(binary);
    }
  };
  auto low = ofParts();
  auto raise = [&](AffineExpr size, int64_t more) {
    if (sizes_.contains(size))
      low = std::max(low.value_or(more), more);
  };
  raise(expression, 0);
  if (quotientOf(expression))
    for (const Condition &known : known_)
      if (auto number =
              isBound(known) && known.b == expression ? constantOf(known.a) : std::nullopt)
        low = std::max(low.value_or(*number), *number);
  // A number is the last summand, so that what is before it may be a size as a whole.
  if (auto sum = dyn_cast<AffineBinaryOpExpr>(expression);
      sum && sum.getKind() == AffineExprKind::Add)
    if (auto number = constantOf(sum.getRHS()))
      raise(sum.getLHS(), *number);
  return low;
}

std::optional<int64_t> SizeFacts::most(AffineExpr expression) const {
  if (auto constant = constantOf(expression))
    return constant;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  auto high =
      binary ? mostOfParts(binary, [&](AffineExpr part,
                                       bool isMost) { return isMost ? most(part) : least(part); })
             : std::nullopt;
  for (const Condition &known : known_)
    if (auto number = isBound(known) && known.a == expression ? constantOf(known.b) : std::nullopt)
      high = std::min(high.value_or(*number), *number);
  return high;
}

/// With a number times a symbol of its own for each symbol that is a multiple of the number, so
/// that quotients by it are that symbol.
AffineExpr SizeFacts::divided(AffineExpr expression) const {
  if (multiples_.empty())
    return expression;
  return ShapeContext(expression.getContext()).simplify(expression.replace(multiples_));
}

/// Of parts of broadcasts.
bool SizeFacts::knowsBroadcast(AffineExpr a, AffineExpr b) const {
  AffineExpr one = getAffineConstantExpr(1, a.getContext());
  if (decideEqual(a, b) == true || decideEqual(a, one) == true || decideEqual(b, one) == true)
    return true;
  return llvm::any_of(known_, [&](const Condition &known) {
    return known.relation != Relation::AtMost && !known.unlessZero &&
           ((known.a == a && known.b == b) || (known.a == b && known.b == a));
  });
}

/// Each of both is the first of its parts that isn't 1.
bool SizeFacts::areBroadcast(AffineExpr a, AffineExpr b) const {
  ShapeContext shapes(a.getContext());
  auto parts = shapes.broadcastParts(a), others = shapes.broadcastParts(b);
  return llvm::all_of(parts, [&](AffineExpr part) {
    return llvm::all_of(others, [&](AffineExpr other) { return knowsBroadcast(part, other); });
  });
}

/// What is a part of a broadcast, all of whose parts go together, is 1 or equal to it.
bool SizeFacts::isPartOf(AffineExpr a, AffineExpr broadcast) const {
  ShapeContext shapes(a.getContext());
  auto parts = shapes.broadcastParts(a), all = shapes.broadcastParts(broadcast);
  return all.size() > 1 && areBroadcast(a, broadcast) &&
         llvm::all_of(parts, [&](AffineExpr part) { return llvm::is_contained(all, part); });
}

/// What a broadcast goes together with, its parts do, as far as they go together themselves.
void SizeFacts::assumeParts(AffineExpr a, AffineExpr b) {
  ShapeContext shapes(a.getContext());
  auto sound = [&](AffineExpr size) {
    auto parts = shapes.broadcastParts(size);
    for (size_t part = 1; part < parts.size(); ++part)
      for (size_t before = 0; before < part; ++before)
        if (!knowsBroadcast(parts[before], parts[part])) {
          parts.truncate(part);
          return parts;
        }
    return parts;
  };
  auto parts = sound(a), others = sound(b);
  for (AffineExpr part : parts)
    for (AffineExpr other : others)
      if (parts.size() + others.size() > 2 && !knowsBroadcast(part, other))
        known_.push_back({Relation::Broadcast, part, other, {}});
}

std::optional<bool> SizeFacts::decideEqual(AffineExpr a, AffineExpr b) const {
  // Of a size that is whole halves the half may be known, too: either proves it, and a half that
  // has become a number is no longer seen as that of the size.
  AffineExpr difference = divided(normal(a - b));
  if (!constantOf(difference) && !quotients_.empty())
    difference = divided(settled(a - b));
  if (auto constant = constantOf(difference))
    return *constant == 0;
  Symbols asked({a - b, difference});
  if (llvm::any_of(known_, [&](const auto &known) {
        return asked.areIn(known, equals_) && isMultipleOf(difference, known);
      }))
    return true;
  auto low = least(difference), high = most(difference);
  if ((low && *low > 0) || (high && *high < 0) || isNeverZero(difference))
    return false;
  if (low && high && *low == *high) // both 0
    return true;
  // Broadcasts of the same parts, in whatever order, if all of them go together.
  AffineExpr x = normal(a), y = normal(b);
  auto parts = partsOfBroadcast(x), others = partsOfBroadcast(y);
  bool isSame = parts.size() > 1 && parts.size() == others.size() &&
                std::is_permutation(parts.begin(), parts.end(), others.begin());
  return isSame && areBroadcast(x, y) ? std::optional(true) : std::nullopt;
}

std::optional<bool> SizeFacts::decide(Relation relation, AffineExpr a, AffineExpr b) const {
  AffineExpr one = getAffineConstantExpr(1, a.getContext());
  if (relation == Relation::AtMost) {
    AffineExpr room = normal(b - a), halves = divided(room);
    auto isSize = [&](AffineExpr size) { return least(size).value_or(-1) >= 0; };
    auto isWithoutQuotients = [&](AffineExpr size, bool any) {
      return isSize(withoutQuotients(size, any, isSize));
    };
    if (isSize(room) || isWithoutQuotients(halves, /*any=*/false) ||
        isWithoutQuotients(nestedQuotients(halves, isSize), /*any=*/true))
      return true;
    auto high = most(room);
    if (high && *high < 0)
      return false;
    Symbols asked(room);
    for (const Condition &known : known_)
      if (known.relation == Relation::AtMost && !known.unlessZero && asked.areIn(known, equals_))
        if (auto more = least(normal(room - (known.b - known.a))); more && *more >= 0)
          return true;
    return std::nullopt;
  }
  auto equal = decideEqual(a, b);
  if (equal == true || relation == Relation::Equal) {
    if (equal)
      return equal;
  } else {
    auto isOne = decideEqual(a, one);
    auto otherIsOne =
        relation == Relation::Broadcast ? decideEqual(b, one) : std::optional<bool>(false);
    if (isOne == true || otherIsOne == true)
      return true;
    if (equal == false && isOne == false && otherIsOne == false)
      return false;
  }
  AffineExpr x = settled(a), y = settled(b);
  for (const Condition &known : known_) {
    if (known.unlessZero || !implies(known.relation, relation))
      continue;
    // Sizes may have been settled after it was known.
    AffineExpr ka = quotients_.empty() ? known.a : settled(known.a);
    AffineExpr kb = quotients_.empty() ? known.b : settled(known.b);
    bool eitherWay = relation != Relation::EqualOrOne || known.relation == Relation::Equal;
    // One of both is the same, and the other is equal, by what else is known.
    auto isSame = [&](AffineExpr a, AffineExpr b) {
      return (ka == a && (kb == b || decideEqual(kb, b) == true)) ||
             (kb == b && decideEqual(ka, a) == true);
    };
    if (isSame(x, y) || (eitherWay && isSame(y, x)))
      return true;
  }
  bool isEqual = relation == Relation::EqualOrOne && decideEqual(y, one) == false;
  if ((relation == Relation::EqualOrOne && isPartOf(x, y)) ||
      ((relation == Relation::Broadcast || isEqual) && areBroadcast(x, y)))
    return true;
  return std::nullopt;
}

/// A number of elements that is zero where this one is: 5 * n is where n is.
static AffineExpr withoutFactor(AffineExpr count) {
  auto product = dyn_cast<AffineBinaryOpExpr>(count);
  auto factor = product && product.getKind() == AffineExprKind::Mul
                    ? dyn_cast<AffineConstantExpr>(product.getRHS())
                    : AffineConstantExpr();
  return factor && factor.getValue() > 0 ? product.getLHS() : count;
}

std::optional<bool> SizeFacts::decide(const Condition &condition) const {
  auto holds = decide(condition.relation, condition.a, condition.b);
  if (!condition.unlessZero || holds == true)
    return holds;
  AffineExpr zero = getAffineConstantExpr(0, condition.a.getContext());
  auto isVoid = decideEqual(condition.unlessZero, zero);
  if (isVoid == true)
    return true;
  if (isVoid == false)
    return holds;
  for (const Condition &known : known_)
    if (known.unlessZero && known.relation == condition.relation &&
        known.a == normal(condition.a) && known.b == normal(condition.b) &&
        known.unlessZero == withoutFactor(normal(condition.unlessZero)))
      return true;
  return std::nullopt;
}

void SizeFacts::assume(const Condition &condition) {
  Condition known = condition;
  known.a = normal(condition.a);
  known.b = normal(condition.b);
  AffineExpr zero = getAffineConstantExpr(0, condition.a.getContext());
  if (known.unlessZero && decideEqual(known.unlessZero, zero) == false)
    known.unlessZero = {};
  if (known.unlessZero) {
    known.unlessZero = withoutFactor(normal(known.unlessZero));
    known_.push_back(std::move(known));
    return;
  }
  if (known.relation == Relation::Equal) {
    // The later symbol becomes the earlier, so that none comes to be made of itself.
    auto a = dyn_cast<AffineSymbolExpr>(known.a), b = dyn_cast<AffineSymbolExpr>(known.b);
    auto linear = linearOf(normal(known.a - known.b));
    auto isFree = [](AffineExpr symbol, AffineExpr value) {
      bool free = true;
      value.walk([&](AffineExpr part) { free &= part != symbol; });
      return free;
    };
    auto root = linear ? linear->root() : std::nullopt;
    auto number = root ? getAffineConstantExpr(*root, known.a.getContext()) : AffineExpr();
    if (number && linear->isOfSymbol() && *root >= 0)
      equals_[linear->part] = number;
    else if (b && (!a || b.getPosition() > a.getPosition()) && isFree(b, known.a))
      equals_[b] = known.a;
    else if (a && isFree(a, known.b))
      equals_[a] = known.b;
    if (number && !linear->isOfSymbol())
      quotients_[linear->part] = number;
    if ((constantOf(known.a) || constantOf(known.b)) &&
        boundWithoutQuotient(normal(known.a - known.b))) {
      assume({Relation::AtMost, known.a, known.b, {}});
      assume({Relation::AtMost, known.b, known.a, {}});
    }
    // Each part of a broadcast is 1 or its size, whatever else that is.
    for (auto [whole, size] : {std::pair(known.a, known.b), std::pair(known.b, known.a)})
      if (auto parts = partsOfBroadcast(whole); parts.size() > 1 && areBroadcast(whole, whole))
        for (AffineExpr part : parts)
          known_.push_back({Relation::EqualOrOne, part, size, {}});
    for (auto [whole, product] : {std::pair(a, known.b), std::pair(b, known.a)})
      if (AffineExpr size = whole ? multipleOf(whole, product) : AffineExpr())
        multiples_[whole] = partOf(whole) * size;
  }
  if (known.relation == Relation::Broadcast || known.relation == Relation::EqualOrOne)
    assumeParts(known.a, known.b);
  if (known.relation == Relation::AtMost) {
    AffineExpr room = normal(known.b - known.a);
    if (auto linear = linearOf(room)) { // a bound of that part
      AffineExpr number = getAffineConstantExpr(linear->bound(), zero.getContext());
      bool isLeast = linear->times > 0;
      known.a = isLeast ? number : linear->part;
      known.b = isLeast ? linear->part : number;
      room = known.b - known.a;
      if (isLeast && linear->isOfSymbol()) {
        int64_t &low = least_.try_emplace(linear->part, 0).first->second;
        low = std::max(low, linear->bound());
      }
    }
    if (AffineExpr less = boundWithoutQuotient(room))
      assume({Relation::AtMost, zero, less, {}});
  }
  known_.push_back(std::move(known));
}

} // namespace tensmith::graph
