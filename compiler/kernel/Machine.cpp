// Looking an instruction up; see Machine.h.
#include "compiler/kernel/Machine.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// The first of the machine's that are tiles or not, and of which it holds.
const Intrinsic *find(const Machine &machine, bool tiles,
                      llvm::function_ref<bool(const Intrinsic &)> holds) {
  const auto *found = llvm::find_if(machine.intrinsics, [&](const Intrinsic *one) {
    return (one->rows > 1) == tiles && holds(*one);
  });
  return found == machine.intrinsics.end() ? nullptr : *found;
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

const Intrinsic *Machine::products(Type left, Type right, Type sum) const {
  return find(*this, false, ofTypes(left, right, sum));
}

const Intrinsic *Machine::products(Number left, Number right, Number sum) const {
  return find(*this, false, ofNumbers(left, right, sum));
}

const Intrinsic *Machine::tileProducts(Type left, Type right, Type sum) const {
  return find(*this, true, ofTypes(left, right, sum));
}

const Intrinsic *Machine::tileProducts(Number left, Number right, Number sum) const {
  return find(*this, true, ofNumbers(left, right, sum));
}

} // namespace tensmith::kernel
