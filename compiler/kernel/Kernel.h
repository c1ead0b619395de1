// From a graph.kernel region to a module of vector code: the entry to the kernel layer.
//
// The emitted module has one exported function, `tensmith_kernel`, of the contract in
// runtime/KernelAbi.h, whatever the region is called: regions of the same structure give the same
// text, which is how they come to be compiled once. The template that the region was matched with
// (`matchTemplate`) emits it: the first of the machine's table that takes it; that of loops
// over the results' elements takes all that the others refuse.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/EmittedKernel.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

/// Emits the region, by the points in `asked` where there are any: of several each is for the sizes
/// near those that it was measured at. Unsupported where an operator
/// in it has no kernel code for its types.
Result<EmittedKernel> emitKernel(graph::KernelOp kernel, const Machine &machine,
                                 llvm::ArrayRef<SizedPoint> asked = {});
/// All points of the kernel.
Space spaceOf(graph::KernelOp kernel, const Machine &machine);
/// Whether its template can store the result's rows at a pitch (`graph.kernel`), and is the same
/// then.
bool storesAtPitch(graph::KernelOp kernel, const Machine &machine);
/// Whether most of its time goes into products, be it a library that does them.
bool multiplies(graph::KernelOp kernel, const Machine &machine);
/// The operator that a kernel's schedule goes by: its template's root, or what gives the first
/// result.
mlir::Operation *scheduledOperator(graph::KernelOp kernel, const Machine &machine);

} // namespace tensmith::kernel
