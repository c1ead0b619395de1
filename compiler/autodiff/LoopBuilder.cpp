// A loop of nothing as a place, and the loop that takes its region; see LoopBuilder.h.
#include "compiler/autodiff/LoopBuilder.h"

using namespace mlir;

namespace tensmith::autodiff {

LoopBuilder::LoopBuilder(const graph::GradientCode &code, Activity &activity, Location location)
    : code_(code), activity_(activity), location_(location), block_(new Block()) {
  Value none = code_.graph.none();
  OperationState place(location, graph::LoopOp::getOperationName());
  place.addOperands({none, none});
  place.addRegion();
  scaffold_ = cast<graph::LoopOp>(code_.builder.create(place));
  scaffold_.getBody().push_back(block_);
  block_->addArgument(RankedTensorType::get({}, code_.builder.getI64Type()), location);
  block_->addArgument(RankedTensorType::get({}, code_.builder.getI1Type()), location);
}

Value LoopBuilder::carry(Value initial, Type type) {
  initial_.push_back(initial);
  if (!type)
    type = initial ? initial.getType() : Type(code_.builder.getNoneType());
  return block_->addArgument(type, location_);
}

FailureOr<graph::LoopOp> LoopBuilder::close(Value trips, Value condition, ArrayRef<Value> yielded) {
  if (llvm::is_contained(yielded, Value()) || llvm::is_contained(initial_, Value()))
    return failure();
  {
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointToEnd(block_);
    code_.builder.create<graph::YieldOp>(location_, yielded);
  }
  Value none = code_.graph.none();
  OperationState state(location_, graph::LoopOp::getOperationName());
  state.addOperands({trips ? trips : none, condition ? condition : none});
  state.addOperands(initial_);
  state.addTypes(SmallVector<Type>(yielded.size() - 1, code_.builder.getNoneType()));
  state.addRegion()->takeBody(scaffold_.getBody());
  activity_.retire(scaffold_);
  auto loop = cast<graph::LoopOp>(code_.builder.create(state));
  SmallVector<Type> types;
  if (failed(loop.inferResults(code_.graph.shapes, types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(loop.getResults(), types))
    result.setType(type);
  return loop;
}

} // namespace tensmith::autodiff
