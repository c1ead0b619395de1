// The frame that every template fills: entry, parallel body and inner function of a kernel's
// module.
//
//   tensmith_kernel(call)           loads the sizes, counts the work items, calls parallel_for
//   tensmith_kernel.body(call, begin, end)   loads operands and sizes, calls the inner function
//   tensmith_kernel.inner(call, operands..., sizes..., begin, end)   the template's loop over items
//
// A kernel of several points has an inner function for each, and both of the others choose by
// sizes.
//
// The inner function has its operands as arguments that don't alias, which is what lets LLVM
// vectorise the loops in it.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/ElementEmitter.h"
#include "compiler/kernel/EmittedKernel.h"

namespace tensmith::kernel {

namespace choice {
/// Of all kernels: work items that are worth a thread.
inline constexpr Choice grain{"grain", 1, kAny};
} // namespace choice

/// The number of independent work items, how many of them are worth a thread, and the choices that
/// they come of.
struct WorkItems {
  mlir::Value count;
  mlir::Value grain;
  Point point = {};
};

/// A template's parts. `items` is emitted into the entry, `body` into the inner function, for items
/// [begin, end).
struct KernelParts {
  std::function<WorkItems(IndexMath &, const SizeValues &)> items;
  std::function<void(ElementEmitter &, mlir::ValueRange results, mlir::Value begin,
                     mlir::Value end)>
      body;
  std::string summary;
  bool usesMatrixUnit = false;
  std::optional<int64_t> grain = {}; // in place of that of `items`
};

/// The parts by one point, and the sizes that this was measured at: of several, each run takes that
/// whose sizes' product is nearest to its own, by ratio.
struct Variant {
  KernelParts parts;
  llvm::SmallVector<int64_t, 2> sizes;
};

/// A grain such that a range of items takes at least some tens of microseconds: `work` scalar
/// operations for each item.
mlir::Value grainOf(IndexMath &math, mlir::Value work);

/// Builds the module around the template. The emitter given to `body` has the region's arguments
/// defined as buffers, and `results` are pointers to the kernel's results. `checksBounds`: it says
/// where operands, results and scratch end.
Result<EmittedKernel> emitFrame(graph::KernelOp kernel, llvm::ArrayRef<Variant> variants,
                                bool checksBounds = false);

/// for (iv = begin; iv < end; iv += step) body(iv)
void emitFor(IndexMath &math, mlir::Value begin, mlir::Value end, mlir::Value step,
             llvm::function_ref<void(mlir::Value)> body);
/// The same with carried values; returns the last ones.
llvm::SmallVector<mlir::Value> emitReduction(
    IndexMath &math, mlir::Value begin, mlir::Value end, mlir::Value step, mlir::ValueRange initial,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
/// if (condition) then() else otherwise(); `otherwise` may be null.
void emitIf(IndexMath &math, mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);

/// Elements from one row of the kernel's results, their last dimension, to the next.
mlir::Value pitchOf(ElementEmitter &emitter, graph::KernelOp kernel);

/// What the kernel yields at a position, which is in the row of that number.
void storeResults(ElementEmitter &emitter, graph::KernelOp kernel, mlir::ValueRange results,
                  const Position &at, mlir::Value row);

/// Memory of the calling thread, from the runtime; a body asks once. Where there is none the error
/// is reported and `end` becomes `begin`, so that nothing is computed.
mlir::Value emitScratch(ElementEmitter &emitter, mlir::Value bytes, mlir::Value begin,
                        mlir::Value &end);

/// The symbols that a kernel's types are over, sorted.
std::vector<mlir::StringAttr> kernelSymbols(graph::KernelOp kernel);

} // namespace tensmith::kernel
