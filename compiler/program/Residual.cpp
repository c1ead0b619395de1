// Tables with a log each, whose end is undone; see Residual.h.
#include "compiler/program/Residual.h"

#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::program {

unsigned Residual::Equality::getHashValue(const Operation *op) {
  return unsigned(OperationEquivalence::computeHash(
      const_cast<Operation *>(op), OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations));
}

bool Residual::Equality::isEqual(const Operation *a, const Operation *b) {
  if (a == b || a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() ||
      b == getEmptyKey())
    return a == b;
  return OperationEquivalence::isEquivalentTo(const_cast<Operation *>(a),
                                              const_cast<Operation *>(b),
                                              OperationEquivalence::IgnoreLocations);
}

void Residual::begin(Block *block) {
  ops_.clear(); // some of them may be gone
  opLog_.clear();
  forgetCalls(0);
  cells_.clear();
  cellLog_.clear();
  builder_.setInsertionPointToEnd(block);
}

Operation *Residual::insert(Operation *op) {
  bool shared = op->getNumRegions() == 0 && isMemoryEffectFree(op);
  if (shared) {
    if (auto found = ops_.find(op); found != ops_.end()) {
      op->destroy();
      return found->second;
    }
  }
  builder_.insert(op);
  ++size_;
  if (shared) {
    ops_[op] = op;
    opLog_.push_back(op);
  }
  return op;
}

Value Residual::findCall(const CallKey &key) const {
  auto found = calls_.find(key);
  return found == calls_.end() ? Value() : found->second;
}

void Residual::noteCall(CallKey key, Value result) {
  if (auto [place, isNew] = calls_.try_emplace(std::move(key), result); isNew)
    callLog_.push_back(place);
}

// ---- references ----

void Residual::set(Value reference, Cell cell) {
  auto found = cells_.find(reference);
  cellLog_.push_back(
      {reference, found == cells_.end() ? std::nullopt : std::optional<Cell>(found->second)});
  cells_[reference] = cell;
}

void Residual::noteReference(Value reference, Value content) { set(reference, {content, false}); }

Value Residual::contentOf(Value reference) const {
  auto found = cells_.find(reference);
  return found == cells_.end() ? Value() : found->second.content;
}

void Residual::noteWrite(Value reference, Value content) {
  auto found = cells_.find(reference);
  if (found == cells_.end()) { // whichever it is, it is one of those that have escaped
    escape(content);
    return forgetEscaped();
  }
  bool escaped = found->second.escaped;
  set(reference, {content, escaped});
  if (escaped)
    escape(content);
}

void Residual::noteRead(Value reference, Value content) {
  if (auto found = cells_.find(reference); found != cells_.end())
    set(reference, {content, found->second.escaped});
}

void Residual::escape(Value value) {
  if (cells_.empty() || isa<RankedTensorType>(value.getType()))
    return;
  SmallVector<Value> waiting = {value};
  llvm::SmallDenseSet<Value> seen;
  while (!waiting.empty()) {
    Value next = waiting.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto found = cells_.find(next); found != cells_.end()) {
      Cell cell = found->second;
      if (!cell.escaped)
        set(next, {cell.content, true});
      if (cell.content)
        waiting.push_back(cell.content);
    } else if (isa_and_nonnull<ConstructOp, ClosureOp>(next.getDefiningOp())) {
      llvm::append_range(waiting, next.getDefiningOp()->getOperands());
    }
  }
}

void Residual::forgetEscaped() {
  SmallVector<Value> escaped;
  for (auto &[reference, cell] : cells_)
    if (cell.escaped && cell.content)
      escaped.push_back(reference);
  for (Value reference : escaped)
    set(reference, {Value(), true});
}

// ---- branches ----

Residual::Branches Residual::beginBranches() const {
  return {callLog_.size(), opLog_.size(), cellLog_.size(), {}, {}};
}

/// Back to what was before the branch, but for what is written.
void Residual::endBranch(Branches &branches) {
  auto &contents = branches.contents.emplace_back();
  for (size_t i = branches.cells; i < cellLog_.size(); ++i) {
    Value reference = cellLog_[i].first;
    const Cell &cell = cells_.find(reference)->second;
    contents[reference] = cell.content;
    if (cell.escaped)
      branches.escaped.push_back(reference);
  }
  undoCells(branches.cells);
  forgetOps(branches.ops);
  forgetCalls(branches.calls);
}

void Residual::endBranches(const Branches &branches) {
  for (Value reference : branches.escaped)
    escape(reference);
  llvm::SetVector<Value> changed;
  for (const auto &contents : branches.contents)
    for (auto &[reference, content] : contents)
      if (cells_.contains(reference)) // the others are the branch's own
        changed.insert(reference);
  for (Value reference : changed) {
    Value before = contentOf(reference);
    SmallVector<Value> after;
    for (const auto &contents : branches.contents) {
      auto found = contents.find(reference);
      after.push_back(found == contents.end() ? before : found->second);
    }
    // What a match of one case writes may be a value of that case alone.
    bool same = llvm::all_equal(after) &&
                (!after[0] ||
                 after[0].getParentRegion()->isAncestor(builder_.getInsertionBlock()->getParent()));
    for (Value content : after)
      if (content && !same)
        escape(content);
    set(reference, {same ? after[0] : Value(), cells_.lookup(reference).escaped});
  }
}

// ---- the way back ----

Residual::Mark Residual::mark() {
  Block *block = builder_.getInsertionBlock();
  return {block,         block->empty() ? nullptr : &block->back(),
          size_,         callLog_.size(),
          opLog_.size(), cellLog_.size()};
}

void Residual::rollBack(const Mark &mark) {
  undoCells(mark.cells);
  forgetCalls(mark.calls);
  forgetOps(mark.ops);
  while (!mark.block->empty() && &mark.block->back() != mark.last)
    mark.block->back().erase();
  size_ = mark.size;
  builder_.setInsertionPointToEnd(mark.block);
}

void Residual::forgetOps(size_t count) {
  for (; opLog_.size() > count; opLog_.pop_back())
    ops_.erase(opLog_.back());
}

void Residual::forgetCalls(size_t count) {
  for (; callLog_.size() > count; callLog_.pop_back())
    calls_.erase(callLog_.back());
}

void Residual::undoCells(size_t count) {
  for (; cellLog_.size() > count; cellLog_.pop_back()) {
    auto &[reference, before] = cellLog_.back();
    if (before)
      cells_[reference] = *before;
    else
      cells_.erase(reference);
  }
}

} // namespace tensmith::program
