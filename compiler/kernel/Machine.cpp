// Looking an instruction up; see Machine.h.
#include "compiler/kernel/Machine.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

using Predicate = llvm::function_ref<bool(const Intrinsic &)>;

/// The first of the machine's of which it holds.
const Intrinsic *find(const Machine &machine, Predicate holds) {
  const auto *found =
      llvm::find_if(machine.intrinsics, [&](const Intrinsic *one) { return holds(*one); });
  return found == machine.intrinsics.end() ? nullptr : *found;
}

const Intrinsic *findTiles(const Machine &machine, Predicate holds) {
  return find(machine, [&](const Intrinsic &one) { return one.has(OfTiles) && holds(one); });
}

const Intrinsic *fastestOfVectors(const Machine &machine, Predicate holds) {
  const Intrinsic *best = nullptr;
  for (const Intrinsic *one : machine.intrinsics)
    if (!one->has(OfTiles) && holds(*one) && (!best || one->rate > best->rate))
      best = one;
  return best;
}

auto ofNumbers(Number left, Number right, Number sum) {
  return [=](const Intrinsic &one) {
    return one.left == left && one.right == right && one.sum == sum;
  };
}

auto ofTypes(Type left, Type right, Type sum) {
  return [=](const Intrinsic &one) {
    return isNumber(left, one.left) && isNumber(right, one.right) && isNumber(sum, one.sum);
  };
}

} // namespace

const Intrinsic *Machine::products(Number left, Number right, Number sum) const {
  auto holds = ofNumbers(left, right, sum);
  return find(*this, [&](const Intrinsic &one) { return one.rows == 1 && holds(one); });
}

const Intrinsic *Machine::matrixProducts(Type left, Type right, Type sum) const {
  return fastestOfVectors(*this, ofTypes(left, right, sum));
}

const Intrinsic *Machine::matrixProducts(Number left, Number right, Number sum) const {
  return fastestOfVectors(*this, ofNumbers(left, right, sum));
}

const Intrinsic *Machine::tileProducts(Type left, Type right, Type sum) const {
  return findTiles(*this, ofTypes(left, right, sum));
}

const Intrinsic *Machine::tileProducts(Number left, Number right, Number sum) const {
  return findTiles(*this, ofNumbers(left, right, sum));
}

} // namespace tensmith::kernel
