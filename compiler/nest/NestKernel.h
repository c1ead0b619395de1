// A scheduled nest as a kernel's module (runtime/KernelAbi.h).
//
//   tensmith_kernel(call)           loads operands and parameters, calls the inner function
//   tensmith_kernel.inner(call, operands..., locals..., parameters...)   the whole nest
//   tensmith_kernel.bodyN(closure, begin, end)    a parallel loop's iterations: unpacks, and calls
//   tensmith_kernel.innerN(call, operands..., locals..., variables..., begin, end)
//
// The operands are the nest's inputs, then its outputs, in the order of its tensors, and its sizes
// are the parameters, or those that parameters are computed from. Local tensors are scratch memory
// of the calling thread, in one request; those of which iterations of a parallel loop have an
// instance each (Instances.h) are requested by its body. Pointers don't alias one another.
#pragma once

#include "compiler/kernel/EmittedKernel.h"
#include "compiler/kernel/IndexMath.h"
#include "compiler/nest/Schedule.h"

#include "mlir/IR/MLIRContext.h"

namespace tensmith::nest {

struct CodeLimits {
  size_t accumulators = 64; // that a loop may keep in registers
};

/// How the call's sizes give the nest's parameters, and what else is asked of the kernel.
struct KernelSizes {
  std::vector<std::string> names; // of the sizes that the call has
  /// The value of the parameter of that number.
  std::function<mlir::Value(kernel::IndexMath &, const kernel::SizeValues &, size_t)> parameter;
  std::optional<int64_t> grain = {}; // iterations of parallel loops that are worth a thread
  bool checksBounds = false;
  int64_t nearBytes = 0; // NestCode.h
};

/// Unsupported where an operation has no code for its type, ResourceExhausted where isl's limit was
/// reached.
Result<kernel::EmittedKernel> emitNest(Schedule &schedule, mlir::MLIRContext &context,
                                       CodeLimits limits = {}, const KernelSizes *sizes = nullptr);
/// The loops as they are emitted, for people.
Result<std::string> loopText(Schedule &schedule, CodeLimits limits = {});

} // namespace tensmith::nest
