// Broadcasts as expressions of their parts; see BroadcastSizes.h.
#include "compiler/graph/BroadcastSizes.h"

#include "compiler/graph/Polynomial.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

using SizeMap = DenseMap<AffineExpr, AffineExpr>;

/// Of an expression that a type may have: what is done with one takes the square of that in time.
constexpr size_t kMostParts = size_t(1) << 11;

/// 1 floordiv n or 2 floordiv n, which parts but the last are asked by whether they are 1.
std::optional<int64_t> numeratorOfQuestion(AffineExpr part) {
  auto quotient = dyn_cast<AffineBinaryOpExpr>(part);
  if (!quotient || quotient.getKind() != AffineExprKind::FloorDiv)
    return std::nullopt;
  auto over = dyn_cast<AffineConstantExpr>(quotient.getLHS());
  bool isQuestion = over && (over.getValue() == 1 || over.getValue() == 2);
  return isQuestion ? std::optional(over.getValue()) : std::nullopt;
}

/// Parts of parts, each once. A part that is 1 is none, unless there is no other.
SmallVector<AffineExpr> partsOfAll(ArrayRef<AffineExpr> sizes) {
  SmallVector<AffineExpr> all;
  for (AffineExpr size : sizes)
    for (AffineExpr part : partsOfBroadcast(size))
      if (part != getAffineConstantExpr(1, part.getContext()) && !llvm::is_contained(all, part))
        all.push_back(part);
  if (all.empty())
    all.push_back(getAffineConstantExpr(1, sizes.front().getContext()));
  return all;
}

} // namespace

AffineExpr partOfQuestion(AffineExpr expression) {
  auto over = numeratorOfQuestion(expression);
  return over ? cast<AffineBinaryOpExpr>(expression).getRHS() * (2 / *over) - 1 : AffineExpr();
}

AffineExpr sizeOfBroadcast(ArrayRef<AffineExpr> parts) {
  // a + isOne(a) * (rest - 1)
  AffineExpr size = parts.back(), two = getAffineConstantExpr(2, size.getContext());
  for (AffineExpr part : llvm::reverse(parts.drop_back())) {
    // 1 where it is 1, and 0 elsewhere: of 2, 1, 0, 0, ... for 0, 1, 2, 3, ... what is odd.
    AffineExpr isOne = two.floorDiv(part + 1) % 2;
    size = Polynomial::normal(part + isOne * (size - 1));
  }
  return size;
}

SmallVector<AffineExpr> partsOfBroadcast(AffineExpr size) {
  size = Polynomial::normal(size);
  SmallVector<AffineExpr> parts;
  DenseMap<AffineExpr, AffineExpr> allOnes;
  size.walk([&](AffineExpr part) {
    // Of 2n - 1, 2 / 2n has become 1 / n.
    auto over = numeratorOfQuestion(part);
    if (over && allOnes.try_emplace(part, getAffineConstantExpr(1, size.getContext())).second)
      parts.push_back(Polynomial::normal(partOfQuestion(part)));
  });
  if (parts.empty() || parts.size() >= kMostBroadcastParts)
    return {size};
  // If all parts but the last were 1, it would be the sum of all, less 1 for each of the others.
  AffineExpr last = size.replace(allOnes);
  for (AffineExpr part : parts)
    last = last - (part - 1);
  parts.push_back(Polynomial::normal(last));
  auto less = [&](AffineExpr a, AffineExpr b) { return textOf(a) < textOf(b); };
  std::sort(parts.begin(), parts.end() - 1, less);
  do
    if (sizeOfBroadcast(parts) == size)
      return parts;
  while (std::next_permutation(parts.begin(), parts.end() - 1, less));
  return {size};
}

/// How many parts it has with what the map says in their place, or the limit and 1 more.
static size_t countParts(AffineExpr size, const SizeMap &by) {
  DenseMap<AffineExpr, size_t> counts;
  size_t count = 0;
  size.walk([&](AffineExpr part) {
    auto replacement = by.find(part);
    if (replacement == by.end()) {
      ++count;
    } else {
      auto [known, isNew] = counts.try_emplace(part, 0);
      if (isNew)
        known->second = countParts(replacement->second, SizeMap());
      count += known->second;
    }
    return count > kMostParts ? WalkResult::interrupt() : WalkResult::advance();
  });
  return std::min(count, kMostParts + 1);
}

AffineExpr replaceSizes(AffineExpr size, const SizeMap &by) {
  if (countParts(size, by) > kMostParts)
    return size;
  bool isBroadcast = false;
  size.walk([&](AffineExpr part) { isBroadcast |= numeratorOfQuestion(part).has_value(); });
  auto parts = isBroadcast ? partsOfBroadcast(size) : SmallVector<AffineExpr>{size};
  if (parts.size() == 1)
    return size.replace(by);
  for (AffineExpr &part : parts)
    part = part.replace(by);
  auto all = partsOfAll(parts);
  return all.size() <= kMostBroadcastParts ? sizeOfBroadcast(all) : size.replace(by);
}

bool isLongSize(AffineExpr size) { return countParts(size, SizeMap()) > kMostParts; }

} // namespace tensmith::graph
