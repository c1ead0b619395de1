// The iterations of a loop that all do the same to other memory.
//
// An iteration by the general way checks its arguments, makes tensors of its results and hands both
// over, which costs as much as a small kernel. Where the body is kernels and views alone, and what
// it carries keeps its type and shape, all that changes from one iteration to the next is where the
// carried values lie. So each has two places, which take turns as source and target, what is
// scanned is written to its row of the result, and an iteration is the calls of its kernels.
#pragma once

#include "runtime/Interpreter.h"

namespace tensmith::runtime {

/// What a loop has come to.
struct LoopState {
  std::vector<Passed> arguments;               // iteration, condition, carried, captured
  std::vector<std::vector<TensorRef>> scanned; // of each, a row for each iteration
  std::vector<TensorRef> stacked;              // the same, in one, once that is done
  int64_t iteration = 0;                       // the next
  bool holds = true;                           // the condition
};

/// Whether iterations after the first, which has gone the general way in this frame, may go on so.
bool isSteady(const Run &run, const Frame &body, const LoopState &state);

/// Does the rest of the iterations, up to `trips` in all, and stacks what was scanned. Errors:
/// those of the kernels, ResourceExhausted.
Status finishSteadily(Run &run, Frame &body, const Step &loop, int64_t trips, LoopState &state);

} // namespace tensmith::runtime
