// Derivatives of a graph function, as more of the same graph.
//
// before: main(x, w) -> (loss)      after, reverse: main(x, w) -> (loss, gradient.w)
//                                   after, forward: main(x, w, tangent.w) -> (loss, tangent.loss)
//
// What results is an ordinary graph, so that it is optimised as any and can be differentiated
// again: the forward derivative of a gradient is a product with the Hessian.
#pragma once

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace tensmith::autodiff {

enum class Mode : uint8_t { Reverse, Forward };

/// What of a recursion or a loop is kept for the way back. The rest is computed again.
enum class Checkpointing : uint8_t {
  None,      // what each iteration used
  Segments,  // O(sqrt n): states between segments, which are run again one by one
  Recursive, // O(log n): states in the middle of what is gone back through
};

/// Of a module: a derivative in it keeps some states of a recursion or a loop, and runs again from
/// those.
inline constexpr char kCheckpointed[] = "graph.checkpointed";

/// Arguments and results are named by their attribute `graph.name`, or else "input0" and
/// "output0", by number.
struct Derivative {
  Mode mode = Mode::Reverse;
  /// Results. Reverse: exactly one; one of a single element has the cotangent 1, any other takes
  /// its cotangent as one more argument, "cotangent.<name>". Forward: all of floats where empty.
  std::vector<std::string> of;
  /// Arguments. Forward: each has one more argument, "tangent.<name>".
  std::vector<std::string> withRespectTo;
  /// Reverse: a cotangent is taken though the result has one element.
  bool takesCotangent = false;
  /// The function's own results keep their bits, whatever is made of its operators for the
  /// derivative: what the policy `exact` asks for.
  bool keepsBits = false;
  /// Reverse: of recursion by tail calls (Checkpoints.h) and loops (LoopParts.h).
  Checkpointing checkpointing = Checkpointing::None;
};

/// The function with the results "gradient.<argument>" or "tangent.<result>" after its own. Where
/// there is a result of that name, as there is of the second derivative by one argument,
/// "gradient.<result>.<argument>" or "tangent.<result>.<argument>...". An argument for cotangents
/// or tangents that an earlier derivative has added serves this one too. A failure leaves it as
/// anything.
Status differentiate(mlir::func::FuncOp function, const Derivative &derivative);

} // namespace tensmith::autodiff
