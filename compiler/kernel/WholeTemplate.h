// A template that emits the kernel itself, in place of parts for the frame (KernelFrame.h): where
// one parallel loop over items is not all of it.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// A template without `parts` is one of these.
struct WholeTemplate : Template {
  /// Where it is Unsupported or ResourceExhausted, loops over the elements take its place.
  Result<EmittedKernel> (*emit)(graph::KernelOp kernel, mlir::Operation *main,
                                const Machine &machine, llvm::ArrayRef<SizedPoint> asked);
};

} // namespace tensmith::kernel
