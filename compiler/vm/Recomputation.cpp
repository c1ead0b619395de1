// From IR to a tape, and a replay back to IR; see Recomputation.h.
#include "compiler/vm/Recomputation.h"

#include "base/DataType.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"

using namespace mlir;

namespace tensmith::vm {
namespace {

Value rootOf(Value value) {
  while (auto view = value.getDefiningOp<graph::ReshapeOp>())
    value = view.getX();
  return value;
}

/// The operator's operands, and what its regions use from outside.
SmallVector<OpOperand *> readsOf(Operation *op) {
  SmallVector<OpOperand *> reads;
  for (OpOperand &operand : op->getOpOperands())
    reads.push_back(&operand);
  if (op->getNumRegions() == 0 || op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    return reads;
  op->walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (inner != op && !op->isAncestor(operand.get().getParentRegion()->getParentOp()))
        reads.push_back(&operand);
  });
  return reads;
}

class Recorder {
public:
  Recorder(func::FuncOp function, const KernelCost &cost) : function_(function), cost_(cost) {}

  Result<RecordedFunction> run() {
    Block &block = function_.getBody().front();
    for (Value value : block.getTerminator()->getOperands())
      results_.insert(value);
    for (Operation &op : block)
      if (!isa<graph::ConstantOp, graph::NoneOp, graph::ReshapeOp>(op))
        if (Status status = add(&op); !status.ok())
          return status;
    Operation *exit = block.getTerminator();
    Operation *first =
        exit->getNumOperands() ? rootOf(exit->getOperand(0)).getDefiningOp() : nullptr;
    for (auto [number, op] : llvm::enumerate(recorded_.operators))
      if (op == first)
        recorded_.tape.turn = number + 1;
    return std::move(recorded_);
  }

private:
  Status add(Operation *op) {
    Tape::Operator made;
    for (OpOperand *operand : readsOf(op))
      if (auto it = recorded_.values.find(rootOf(operand->get())); it != recorded_.values.end())
        if (!llvm::is_contained(made.reads, it->second))
          made.reads.push_back(it->second);
    if (isa<graph::LoopOp>(op))
      for (Value result : op->getResults())
        if (!results_.contains(result) && isOpen(result.getType()))
          return openSize(op);
    if (auto kernel = dyn_cast<graph::KernelOp>(op)) {
      made.isPure = true;
      made.cost = cost_(kernel);
      for (Value result : kernel.getResults()) {
        if (results_.contains(result))
          continue; // the caller's memory, where it stays
        auto type = cast<RankedTensorType>(result.getType());
        if (isOpen(type))
          return openSize(op);
        recorded_.values[result] = uint32_t(recorded_.tape.bytes.size());
        made.writes.push_back(uint32_t(recorded_.tape.bytes.size()));
        int64_t bytes = type.getNumElements() * byteSize(graph::dataType(type.getElementType()));
        recorded_.tape.bytes.push_back(int64_t(llvm::alignTo(bytes, kAlignment)));
      }
    }
    recorded_.tape.operators.push_back(std::move(made));
    recorded_.operators.push_back(op);
    return {};
  }

  static bool isOpen(Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && !shaped.hasStaticShape();
  }
  static Status openSize(Operation *op) {
    return unsupported(
        "memory can be planned to a budget only where all sizes are fixed; '" +
        graph::describe(op->getLoc()) +
        "' computes one that the run tells; fix them (--shape), or leave out memory");
  }

  static constexpr int64_t kAlignment = 64;

  func::FuncOp function_;
  const KernelCost &cost_;
  RecordedFunction recorded_;
  llvm::DenseSet<Value> results_;
};

class CopyInserter {
public:
  CopyInserter(func::FuncOp function, const RecordedFunction &recorded)
      : function_(function), recorded_(recorded), builder_(function.getContext()) {}

  void run(const Replay &replay) {
    for (size_t i = 0; i < replay.steps.size();) {
      size_t own = i;
      while (replay.steps[own].isCopy)
        ++own;
      Operation *op = recorded_.operators[replay.steps[own].number];
      builder_.setInsertionPoint(op);
      for (; i < own; ++i)
        copy(recorded_.operators[replay.steps[i].number]);
      if (!newest_.empty())
        readNewest(op);
      i = own + 1;
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function_.getBody().front())))
      if (isa<graph::ReshapeOp>(op) && op.use_empty())
        op.erase();
  }

private:
  void copy(Operation *op) {
    Operation *made = builder_.clone(*op);
    builder_.setInsertionPoint(made);
    readNewest(made);
    builder_.setInsertionPointAfter(made);
    for (auto [old, result] : llvm::zip_equal(op->getResults(), made->getResults()))
      if (recorded_.values.contains(old))
        newest_[old] = result;
  }

  void readNewest(Operation *op) {
    for (OpOperand *operand : readsOf(op))
      if (Value value = newest(operand->get()); value != operand->get())
        operand->set(value);
  }

  /// The value as it was computed last; of a view, one of that.
  Value newest(Value value) {
    auto view = value.getDefiningOp<graph::ReshapeOp>();
    if (!view) {
      auto it = newest_.find(value);
      return it == newest_.end() ? value : it->second;
    }
    Value from = newest(view.getX());
    if (from == view.getX())
      return value;
    Value &made = views_[{value, from}];
    if (!made)
      made = builder_.create<graph::ReshapeOp>(view.getLoc(), view.getType(), from);
    return made;
  }

  func::FuncOp function_;
  const RecordedFunction &recorded_;
  OpBuilder builder_;
  llvm::DenseMap<Value, Value> newest_; // of values that were copied
  llvm::DenseMap<std::pair<Value, Value>, Value> views_;
};

} // namespace

Result<RecordedFunction> record(func::FuncOp function, const KernelCost &cost) {
  return Recorder(function, cost).run();
}

void insertCopies(func::FuncOp function, const RecordedFunction &recorded, const Replay &replay) {
  CopyInserter(function, recorded).run(replay);
}

} // namespace tensmith::vm
