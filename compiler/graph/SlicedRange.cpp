// Slices of open sizes; see SlicedRange.h.
#include "compiler/graph/SlicedRange.h"

#include "base/HostTensor.h"
#include "compiler/graph/SizeCases.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace tensmith::graph {
namespace {

/// Ends from here on mean the dimension's.
constexpr int64_t kEnd = std::numeric_limits<int32_t>::max() - 1; // ~x of x = -INT32_MAX

/// All numbers are known: any step.
SlicedRange knownRange(const ShapeContext &shapes, int64_t size, int64_t start, int64_t end,
                       int64_t step) {
  int64_t a = start < 0 ? start + size : start, b = end < 0 ? end + size : end;
  a = std::clamp<int64_t>(a, 0, step > 0 ? size : std::max<int64_t>(size - 1, 0));
  b = std::clamp<int64_t>(b, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  int64_t distance = step > 0 ? b - a : a - b, stride = step > 0 ? step : -step;
  int64_t count = distance > 0 && size > 0 ? (distance - 1) / stride + 1 : 0;
  return {shapes.constant(count ? a : 0), shapes.constant(count)};
}

/// Where a start or an end lies within the dimension, from its beginning or from its end.
struct Point {
  AffineExpr distance; // not clamped
  bool fromEnd;
};

std::optional<Point> pointOf(const ShapeContext &shapes, AffineExpr at, AffineExpr size) {
  AffineExpr zero = shapes.constant(0);
  if (shapes.equal(at, size))
    return Point{zero, true};
  if (auto number = constantOf(at)) {
    if (*number >= kEnd)
      return Point{zero, true};
    if (*number <= -kEnd)
      return Point{zero, false};
    return *number < 0 ? Point{shapes.constant(-*number), true} : Point{at, false};
  }
  if (!SizeCases::isAtMost(zero, at))
    return std::nullopt;
  return Point{at, false};
}

/// Adds the terms of a simplified sum to those with positive factors, and those with negative ones,
/// made positive, to the others.
void splitTerms(AffineExpr sum, AffineExpr &positive, AffineExpr &negative) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(sum);
  if (binary && binary.getKind() == AffineExprKind::Add) {
    splitTerms(binary.getLHS(), positive, negative);
    splitTerms(binary.getRHS(), positive, negative);
    return;
  }
  bool isProduct = binary && binary.getKind() == AffineExprKind::Mul;
  auto factor = constantOf(isProduct ? binary.getRHS() : sum);
  if (factor && *factor < 0)
    negative = negative - sum;
  else
    positive = positive + sum;
}

/// An expression of more has so many parts in what is computed from it that the compilation would
/// take longer with it than a run does without.
constexpr size_t kMostTerms = 128;

bool isShort(AffineExpr expression) {
  size_t terms = 0;
  expression.walk([&](AffineExpr) { ++terms; });
  return terms <= kMostTerms;
}

} // namespace

int64_t withinDimension(int64_t distance) {
  constexpr int64_t kLonger = (int64_t(1) << 48) + 1;
  static_assert(kLonger > kMostElements);
  return std::clamp(distance, -kLonger, kLonger);
}

AffineExpr smallerSize(const ShapeContext &shapes, AffineExpr a, AffineExpr b) {
  a = shapes.simplify(a), b = shapes.simplify(b);
  if (SizeCases::isAtMost(a, b))
    return a;
  if (SizeCases::isAtMost(b, a))
    return b;
  if (isa<AffineConstantExpr>(a))
    std::swap(a, b);
  if (constantOf(b) == 1) // less where it is 0: of 1, 0, 0, ... for 0, 1, 2, ...
    return shapes.simplify(1 - shapes.constant(1).floorDiv(a + 1));
  // a floordiv (b + 1) is 0 where a <= b, so that this is 1 there and 0 elsewhere.
  AffineExpr isFirst = shapes.constant(1).floorDiv(a.floorDiv(b + 1) + 1);
  return shapes.simplify(b + (a - b) * isFirst);
}

std::optional<AffineExpr> smallerNumber(const ShapeContext &shapes, AffineExpr a, AffineExpr b) {
  a = shapes.simplify(a), b = shapes.simplify(b);
  if (SizeCases::isAtMost(a, b))
    return a;
  if (SizeCases::isAtMost(b, a))
    return b;
  // a - b is what is added less what is taken off, neither of which is negative: so
  // min(a, b) = a - added + min(added, off).
  AffineExpr zero = shapes.constant(0), added = zero, off = zero;
  AffineExpr difference = shapes.simplify(a - b);
  splitTerms(difference, added, off);
  added = shapes.simplify(added), off = shapes.simplify(off);
  if (!isShort(difference) || !ShapeContext::isExact(difference) ||
      !SizeCases::isAtMost(zero, added) || !SizeCases::isAtMost(zero, off))
    return std::nullopt;
  return shapes.simplify(a - added + smallerSize(shapes, added, off));
}

std::optional<SlicedRange> slicedRange(const ShapeContext &shapes, AffineExpr size,
                                       AffineExpr start, AffineExpr end, int64_t step) {
  step = withinDimension(step);
  size = shapes.simplify(size), start = shapes.simplify(start), end = shapes.simplify(end);
  auto length = constantOf(size), first = constantOf(start), last = constantOf(end);
  if (length && first && last && step != 0)
    return knownRange(shapes, *length, *first, *last, step);
  if (step < 0) {
    // Read backwards, the first element is the last. A start before the first one is moved to it,
    // where forwards nothing would be left.
    if (!first || !last || *first < -1)
      return std::nullopt;
    auto backwards =
        slicedRange(shapes, size, shapes.constant(~*first), shapes.constant(~*last), -step);
    if (backwards)
      backwards->first = shapes.simplify(size - 1 - backwards->first);
    return backwards;
  }
  auto from = pointOf(shapes, start, size), to = pointOf(shapes, end, size);
  if (step == 0 || !from || !to)
    return std::nullopt;
  auto clamped = [&](const Point &point) { return smallerSize(shapes, point.distance, size); };
  AffineExpr begin = from->fromEnd ? size - clamped(*from) : clamped(*from);
  SlicedRange range{shapes.simplify(begin), {}};
  if (from->fromEnd && to->fromEnd) { // the one that is farther from the end comes first
    AffineExpr both = smallerSize(shapes, from->distance, to->distance);
    range.count = clamped(*from) - clamped({both, true});
  } else if (!from->fromEnd && !to->fromEnd) {
    AffineExpr both = smallerSize(shapes, from->distance, to->distance);
    range.count = clamped(*to) - clamped({both, false});
  } else if (to->fromEnd) { // without what is before and behind
    range.count = size - smallerSize(shapes, from->distance + to->distance, size);
  } else {
    AffineExpr rest = clamped(*to);
    range.count = rest - smallerSize(shapes, begin, rest);
  }
  range.count = shapes.simplify((range.count + (step - 1)).floorDiv(step));
  return range;
}

} // namespace tensmith::graph
