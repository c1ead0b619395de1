// A walk from what each kernel stores back to what it reads; see LayoutConversions.h.
#include "compiler/vm/LayoutConversions.h"

#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/TypeText.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

/// Whether dimensions of more than one element change places.
bool reorders(graph::TransposeOp transpose) {
  auto type = dyn_cast<RankedTensorType>(transpose.getX().getType());
  int64_t last = -1;
  for (int64_t dim : transpose.getPermutation()) {
    if (type && type.getDimSize(dim) == 1)
      continue;
    if (dim < last)
      return true;
    last = dim;
  }
  return false;
}

bool converts(Operation *op) {
  auto transpose = dyn_cast<graph::TransposeOp>(op);
  return transpose ? reorders(transpose) : isa<graph::PackOp>(op);
}

/// The operator behind which the value has another order, where nothing between it and the value
/// but moves elements or takes them one by one; null: none.
Operation *conversionBefore(Value stored) {
  llvm::SetVector<Value> values;
  values.insert(stored);
  for (size_t next = 0; next < values.size(); ++next) {
    Operation *op = values[next].getDefiningOp();
    auto moves = dyn_cast_or_null<graph::Indexed>(op);
    if (!op || !(isa<graph::Elementwise>(op) || (moves && moves.isMovement())))
      continue;
    // What is turned before it is packed is packed as it is turned.
    if (converts(op))
      return op;
    values.insert(op->operand_begin(), op->operand_end());
  }
  return nullptr;
}

void add(llvm::json::Array &list, Operation *conversion, Value stored) {
  auto type = dyn_cast<RankedTensorType>(stored.getType());
  llvm::json::Value bytes = nullptr;
  if (type && type.hasStaticShape() && type.getElementType().isIntOrFloat())
    bytes = type.getNumElements() * int64_t(type.getElementTypeBitWidth()) / 8;
  list.push_back(
      llvm::json::Object{{"value", llvm::json::fixUTF8(graph::describe(conversion->getLoc()))},
                         {"from", graph::typeText(conversion->getOperand(0).getType())},
                         {"to", graph::typeText(stored.getType()) +
                                    (isa<graph::PackOp>(conversion) ? " in panels" : "")},
                         {"bytes", std::move(bytes)}});
}

} // namespace

std::string layoutConversions(ModuleOp program) {
  llvm::json::Array list;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto kernel = dyn_cast<graph::KernelOp>(op)) {
      for (Value stored : kernel.getBody().front().getTerminator()->getOperands())
        if (Operation *conversion = conversionBefore(stored))
          add(list, conversion, stored);
      return WalkResult::skip();
    }
    if (converts(op))
      add(list, op, op->getResult(0));
    return WalkResult::advance();
  });
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

} // namespace tensmith::vm
