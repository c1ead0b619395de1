// A step a function: sums and products with constants, columns and tensors, and activations.
#include "compiler/libraries/Steps.h"

#include "compiler/graph/Constants.h"
#include "runtime/LibraryAbi.h"

#include <cmath>

using namespace mlir;

namespace tensmith::libraries {
namespace {

std::optional<double> numberOf(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!constant || !type || !type.getElementType().isF32() || type.getNumElements() != 1)
    return std::nullopt;
  auto tensor = graph::hostTensor(constant.getValue());
  return tensor.ok() ? std::optional(tensor->getDouble(0)) : std::nullopt;
}

bool isNumber(Value value, double wanted) {
  auto number = numberOf(value);
  return number && std::abs(*number - wanted) <= 1e-6 * std::abs(wanted);
}

/// Of an operator of two operands, the one that is not `value`.
OpOperand *other(Operation *op, Value value) {
  if (op->getNumOperands() != 2 || op->getNumResults() != 1 ||
      op->getOperand(0) == op->getOperand(1))
    return nullptr;
  return &op->getOpOperand(op->getOperand(0) == value ? 1 : 0);
}

/// Whether the operand has one element for each column of the result, or is it for all of them.
bool isOfColumns(Value operand, Value result) {
  auto type = dyn_cast<RankedTensorType>(operand.getType()),
       whole = cast<RankedTensorType>(result.getType());
  if (!type || !type.getElementType().isF32() || type.getRank() == 0 ||
      type.getRank() > whole.getRank() || type == whole)
    return false;
  graph::ShapeContext shapes(operand.getContext());
  return llvm::all_of(type.getShape().drop_back(), [](int64_t size) { return size == 1; }) &&
         shapes.equal(shapes.dims(type).back(), shapes.dims(whole).back());
}

std::optional<Step> binaryStep(Operation *op, Value value) {
  OpOperand *operand = other(op, value);
  if (!operand || op->getResult(0).getType() != value.getType())
    return std::nullopt;
  auto number = numberOf(operand->get());
  bool all = operand->get().getType() == value.getType();
  auto step = [&](int kind, bool takes = true) {
    Step made{kind, 0, takes ? operand : nullptr, {op}};
    made.number = takes ? 0 : *number;
    return std::optional(std::move(made));
  };
  if (isa<graph::MulOp>(op) && number)
    return step(TENSMITH_STEP_SCALE, false);
  if (isa<graph::MaxOp>(op) && number == 0.0)
    return step(TENSMITH_STEP_RELU, false);
  if (isa<graph::MulOp>(op) && isOfColumns(operand->get(), value))
    return step(TENSMITH_STEP_SCALE_COLUMNS);
  if (isa<graph::AddOp>(op) && isOfColumns(operand->get(), value))
    return step(TENSMITH_STEP_ADD_COLUMNS);
  if (isa<graph::AddOp>(op) && all)
    return step(TENSMITH_STEP_ADD);
  if (isa<graph::SubOp>(op) && all)
    return step(op->getOperand(1) == value ? TENSMITH_STEP_SUBTRACT_FROM : TENSMITH_STEP_SUBTRACT);
  return std::nullopt;
}

Operation *onlyUser(Operation *op) { return op->hasOneUse() ? *op->user_begin() : nullptr; }

/// The operator's only user, if it multiplies by the number, or divides by its inverse.
bool scales(Operation *op, Value value, double number) {
  OpOperand *operand = op ? other(op, value) : nullptr;
  if (!operand)
    return false;
  return (isa<graph::MulOp>(op) && isNumber(operand->get(), number)) ||
         (isa<graph::DivOp>(op) && op->getOperand(0) == value &&
          isNumber(operand->get(), 1 / number));
}

/// y / 2 * (1 + erf(y / sqrt(2))), whichever product of the three is done first.
std::optional<Step> geluStep(Value y) {
  SmallVector<Operation *, 2> users(y.getUsers());
  if (users.size() != 2)
    return std::nullopt;
  if (!scales(users[0], y, std::sqrt(0.5)))
    std::swap(users[0], users[1]);
  auto [scaled, rest] = std::pair(users[0], users[1]);
  Operation *erf = scales(scaled, y, std::sqrt(0.5)) ? onlyUser(scaled) : nullptr;
  Operation *sum = isa_and_nonnull<graph::ErfOp>(erf) ? onlyUser(erf) : nullptr;
  OpOperand *one = isa_and_nonnull<graph::AddOp>(sum) ? other(sum, erf->getResult(0)) : nullptr;
  Operation *next = one && isNumber(one->get(), 1) ? onlyUser(sum) : nullptr;
  if (!next)
    return std::nullopt;
  SmallVector<Operation *, 1> ops{scaled, erf, sum};
  auto halved = [&](Operation *op, Value value) { return scales(op, value, 0.5); };
  auto multiplies = [](Operation *op, Value a, Value b) {
    return isa_and_nonnull<graph::MulOp>(op) && llvm::is_contained(op->getOperands(), a) &&
           llvm::is_contained(op->getOperands(), b);
  };
  Value factor = sum->getResult(0);
  if (next == rest && multiplies(rest, y, factor) && rest->hasOneUse() &&
      halved(onlyUser(rest), rest->getResult(0))) {
    ops.append({rest, onlyUser(rest)});
  } else if (halved(rest, y) && onlyUser(rest) == next &&
             multiplies(next, rest->getResult(0), factor)) {
    ops.append({rest, next});
  } else if (halved(next, factor) && onlyUser(next) == rest &&
             multiplies(rest, y, next->getResult(0))) {
    ops.append({next, rest});
  } else {
    return std::nullopt;
  }
  return Step{TENSMITH_STEP_GELU, 0, nullptr, ops};
}

} // namespace

std::optional<Step> stepBehind(Value value) {
  Block *block = value.getParentBlock();
  if (llvm::any_of(value.getUsers(), [&](Operation *user) { return user->getBlock() != block; }))
    return std::nullopt;
  if (auto gelu = geluStep(value))
    return gelu;
  if (!value.hasOneUse())
    return std::nullopt;
  Operation *user = *value.user_begin();
  if (isa<graph::TanhOp>(user))
    return Step{TENSMITH_STEP_TANH, 0, nullptr, {user}};
  if (isa<graph::SigmoidOp>(user))
    return Step{TENSMITH_STEP_SIGMOID, 0, nullptr, {user}};
  return binaryStep(user, value);
}

} // namespace tensmith::libraries
