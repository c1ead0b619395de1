// The code that a partial evaluator leaves, while it is written: equal operators once, what
// references are known to refer to, and a way back to any earlier state.
//
// What is known of a value is told by the operator that made it, since operators that build are
// always written, and dropped in the end where nothing needs them (DeadCode.h). So are writes to
// references, whose order is thus that of the text.
#pragma once

#include "mlir/IR/Builders.h"

#include <map>
#include <optional>

namespace tensmith::program {

class Residual {
public:
  explicit Residual(mlir::MLIRContext *context) : builder_(context) {}

  void begin(mlir::Block *block);
  mlir::OpBuilder &builder() { return builder_; }
  /// Operators that were written and not taken back.
  int64_t size() const { return size_; }

  /// Puts the operator at the end, or deletes it where an equal one is there.
  mlir::Operation *insert(mlir::Operation *op);

  /// Results of calls without effects.
  using CallKey = std::vector<const void *>;
  mlir::Value findCall(const CallKey &key) const;
  void noteCall(CallKey key, mlir::Value result);

  // ---- references ----
  void noteReference(mlir::Value reference, mlir::Value content);
  /// Null where it isn't known.
  mlir::Value contentOf(mlir::Value reference) const;
  void noteWrite(mlir::Value reference, mlir::Value content);
  void noteRead(mlir::Value reference, mlir::Value content);
  /// Nothing is known any more of who has the references that can be got at from the value.
  void escape(mlir::Value value);
  /// Something happens to all references that have escaped.
  void forgetEscaped();

  // ---- regions, of which the run chooses one ----
  struct Branches {
    size_t calls, ops, cells;
    std::vector<llvm::DenseMap<mlir::Value, mlir::Value>> contents; // behind each branch
    llvm::SmallVector<mlir::Value> escaped;
  };
  Branches beginBranches() const;
  void endBranch(Branches &branches);
  void endBranches(const Branches &branches);

  /// A state to go back to.
  struct Mark {
    mlir::Block *block;
    mlir::Operation *last;
    int64_t size;
    size_t calls, ops, cells;
  };
  Mark mark();
  void rollBack(const Mark &mark);

private:
  struct Cell {
    mlir::Value content; // null: unknown
    bool escaped = false;
  };
  struct Equality : llvm::DenseMapInfo<mlir::Operation *> {
    static unsigned getHashValue(const mlir::Operation *op);
    static bool isEqual(const mlir::Operation *a, const mlir::Operation *b);
  };
  void set(mlir::Value reference, Cell cell);
  void forgetOps(size_t count);
  void forgetCalls(size_t count);
  void undoCells(size_t count);

  mlir::OpBuilder builder_;
  int64_t size_ = 0;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *, Equality> ops_;
  std::vector<mlir::Operation *> opLog_;
  std::map<CallKey, mlir::Value> calls_;
  std::vector<std::map<CallKey, mlir::Value>::iterator> callLog_;
  llvm::DenseMap<mlir::Value, Cell> cells_;
  std::vector<std::pair<mlir::Value, std::optional<Cell>>> cellLog_; // what was there before
};

} // namespace tensmith::program
