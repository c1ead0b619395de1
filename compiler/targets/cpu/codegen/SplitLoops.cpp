// Where answers change is read off comparisons, minima and maxima of the index and a constant; what
// they are in a part follows from the range of the index there. See SplitLoops.h.
#include "compiler/targets/cpu/codegen/SplitLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/Support/CheckedArithmetic.h"

#include <set>

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

constexpr size_t kMostCuts = 8;
constexpr int64_t kWorthIt = 16;          // iterations of the longest part
constexpr int64_t kMostOperations = 2048; // of all parts together

struct Range {
  int64_t low, high; // both may occur
};

/// None where a bound is no number of 64 bits.
std::optional<Range> between(std::optional<int64_t> low, std::optional<int64_t> high) {
  return low && high ? std::optional(Range{*low, *high}) : std::nullopt;
}

/// What is known of a value of type `index` while the loop's is within `iterations`.
std::optional<Range> rangeOf(Value value, scf::ForOp loop, Range iterations) {
  if (value == loop.getInductionVar())
    return iterations;
  if (auto constant = getConstantIntValue(value))
    return Range{*constant, *constant};
  Operation *op = value.getDefiningOp();
  if (!op || !isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::nullopt;
  auto a = rangeOf(op->getOperand(0), loop, iterations);
  auto b = rangeOf(op->getOperand(1), loop, iterations);
  if (!a || !b)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return between(llvm::checkedAdd(a->low, b->low), llvm::checkedAdd(a->high, b->high));
  if (isa<arith::SubIOp>(op))
    return between(llvm::checkedSub(a->low, b->high), llvm::checkedSub(a->high, b->low));
  if (isa<arith::MinSIOp>(op))
    return Range{std::min(a->low, b->low), std::min(a->high, b->high)};
  return Range{std::max(a->low, b->low), std::max(a->high, b->high)};
}

/// c, of a value that is the loop's index plus c, or that with a bound.
std::optional<int64_t> distanceFromIndex(Value value, scf::ForOp loop) {
  if (value == loop.getInductionVar())
    return 0;
  Operation *op = value.getDefiningOp();
  if (!op || !isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::nullopt;
  auto constant = getConstantIntValue(op->getOperand(1));
  auto distance = distanceFromIndex(op->getOperand(0), loop);
  if (!constant || !distance)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return llvm::checkedAdd(*distance, *constant);
  return isa<arith::SubIOp>(op) ? llvm::checkedSub(*distance, *constant) : distance;
}

/// The least i for which the answer to "i against the bound" may be another one than before; none
/// where there is no number above the bound.
SmallVector<int64_t> changesAt(Operation *op, int64_t bound) {
  using Is = arith::CmpIPredicate;
  auto behind = llvm::checkedAdd<int64_t>(bound, 1);
  if (!behind)
    return {};
  if (isa<arith::MaxSIOp>(op))
    return {bound};
  auto comparison = dyn_cast<arith::CmpIOp>(op);
  if (!comparison) // a minimum
    return {*behind};
  switch (comparison.getPredicate()) {
  case Is::ult:
  case Is::uge:
    return {0, bound}; // a negative number is a large one
  case Is::ule:
  case Is::ugt:
    return {0, *behind};
  case Is::slt:
  case Is::sge:
    return {bound};
  case Is::sle:
  case Is::sgt:
    return {*behind};
  case Is::eq:
  case Is::ne:
    return {bound, *behind};
  }
  return {};
}

/// Iterations before which an answer may change.
std::set<int64_t> cutsOf(scf::ForOp loop, Range iterations) {
  std::set<int64_t> cuts;
  loop.getBody()->walk([&](Operation *op) {
    if (!isa<arith::CmpIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      return;
    auto distance = distanceFromIndex(op->getOperand(0), loop);
    auto bound = getConstantIntValue(op->getOperand(1));
    if (!distance || !bound)
      return;
    for (int64_t change : changesAt(op, *bound))
      if (auto at = llvm::checkedSub(change, *distance);
          at && *at > iterations.low && *at <= iterations.high)
        cuts.insert(*at);
  });
  return cuts;
}

/// The operand that a minimum or maximum always is; null if that is not known.
Value alwaysChosen(Operation *op, Range a, Range b) {
  bool isLess = isa<arith::MinSIOp>(op);
  if (a.high <= b.low)
    return op->getOperand(isLess ? 0 : 1);
  return b.high <= a.low ? op->getOperand(isLess ? 1 : 0) : Value();
}

std::optional<bool> answer(arith::CmpIPredicate predicate, Range a, Range b) {
  using Is = arith::CmpIPredicate;
  bool isUnsigned = predicate >= Is::ult;
  if (isUnsigned && (a.low < 0 || b.low < 0)) {
    // Of numbers of which one is negative throughout, that is the larger one.
    if (predicate == Is::ult && a.high < 0 && b.low >= 0)
      return false;
    return std::nullopt;
  }
  auto always = [](bool yes, bool no) {
    return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
  };
  bool below = a.high < b.low;
  bool above = b.high < a.low;
  bool notAbove = a.high <= b.low, notBelow = a.low >= b.high;
  switch (predicate) {
  case Is::slt:
  case Is::ult:
    return always(below, notBelow);
  case Is::sle:
  case Is::ule:
    return always(notAbove, above);
  case Is::sgt:
  case Is::ugt:
    return always(above, notAbove);
  case Is::sge:
  case Is::uge:
    return always(notBelow, below);
  case Is::eq:
    return always(notAbove && notBelow, below || above);
  case Is::ne:
    return always(below || above, notAbove && notBelow);
  }
  return std::nullopt;
}

/// Replaces what has one answer in this part.
void decide(scf::ForOp part, Range iterations) {
  OpBuilder builder(part);
  part.getBody()->walk([&](Operation *op) {
    if (!isa<arith::CmpIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      return;
    auto a = rangeOf(op->getOperand(0), part, iterations);
    auto b = rangeOf(op->getOperand(1), part, iterations);
    if (!a || !b)
      return;
    Value known;
    if (auto comparison = dyn_cast<arith::CmpIOp>(op)) {
      if (auto holds = answer(comparison.getPredicate(), *a, *b))
        known = builder.create<arith::ConstantIntOp>(op->getLoc(), *holds, 1);
    } else {
      known = alwaysChosen(op, *a, *b);
    }
    if (known)
      op->replaceAllUsesWith(ValueRange(known));
  });
}

void split(scf::ForOp loop) {
  auto low = getConstantIntValue(loop.getLowerBound());
  auto end = getConstantIntValue(loop.getUpperBound());
  if (!low || !end || *low >= *end || loop.getNumRegionIterArgs() ||
      getConstantIntValue(loop.getStep()) != 1)
    return;
  int64_t operations = 0;
  bool isInnermost = true;
  loop.getBody()->walk([&](Operation *op) {
    ++operations;
    isInnermost &= !isa<LoopLikeOpInterface>(op);
  });
  std::set<int64_t> cuts = cutsOf(loop, {*low, *end - 1});
  if (!isInnermost || cuts.empty() || cuts.size() > kMostCuts ||
      operations * int64_t(cuts.size() + 1) > kMostOperations)
    return;
  int64_t longest = 0, begin = *low;
  cuts.insert(*end);
  for (int64_t cut : cuts) {
    longest = std::max(longest, cut - begin);
    begin = cut;
  }
  if (longest < kWorthIt)
    return;
  OpBuilder builder(loop);
  begin = *low;
  for (int64_t cut : cuts) {
    auto part = cast<scf::ForOp>(builder.clone(*loop));
    builder.setInsertionPoint(part);
    part.setLowerBound(builder.create<arith::ConstantIndexOp>(loop.getLoc(), begin));
    part.setUpperBound(builder.create<arith::ConstantIndexOp>(loop.getLoc(), cut));
    decide(part, {begin, cut - 1});
    builder.setInsertionPointAfter(part);
    begin = cut;
  }
  loop.erase();
}

} // namespace

void splitLoops(ModuleOp module) {
  SmallVector<scf::ForOp> loops;
  module.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    split(loop);
}

} // namespace tensmith::targets::cpu
