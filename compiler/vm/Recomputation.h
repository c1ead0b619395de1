// Which values of a function are computed again, so that its memory keeps to a budget.
//
// Chosen among kernels, in the order in which they will run, behind all rewrites: what is computed
// again is the same kernel on the same operands, and so has the same bits, random numbers (which
// are functions of the step and the element) included. Nothing that follows merges equal kernels.
// What updates a state stands on the way back or gives a result, and is never copied.
#pragma once

#include "compiler/graph/Graph.h"
#include "compiler/vm/Replay.h"

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <optional>

namespace tensmith::vm {

using KernelCost = std::function<double(graph::KernelOp)>;

/// The function's operators as a tape; views are none, they are what they look at.
struct RecordedFunction {
  Tape tape;
  std::vector<mlir::Operation *> operators;
  llvm::DenseMap<mlir::Value, uint32_t> values; // of the arena
};

/// Unsupported where a size is not known: then no budget can be planned for.
Result<RecordedFunction> record(mlir::func::FuncOp function, const KernelCost &cost);
/// Puts the copies of the replay into the function.
void insertCopies(mlir::func::FuncOp function, const RecordedFunction &recorded,
                  const Replay &replay);

enum class RecomputationPlan {
  Cost,      // the least work that meets the budget
  Segments,  // O(sqrt(n)): one level of cuts, all between computed once more
  Recursive, // O(log(n)): one cut at each level
};

struct RecomputationRequest {
  RecomputationPlan plan = RecomputationPlan::Cost;
  /// Bytes of the arena; none: as few as the plan can.
  std::optional<int64_t> bytes;
};

struct Recomputation {
  std::optional<Keeping> keeping; // null: nothing is computed again
  int64_t arenaBytes = 0;         // as measured
  int64_t copies = 0;
  double work = 0; // of the copies, as a part of the whole function's
};

/// The bytes of the arena that the function has once the replay is put into it.
using MeasureArena = std::function<Result<int64_t>(const Replay &)>;

/// ResourceExhausted, with `least` set, where the bytes can't be met.
Result<Recomputation> chooseRecomputation(const Tape &tape, const RecomputationRequest &request,
                                          const MeasureArena &measure, int64_t &least);

} // namespace tensmith::vm
