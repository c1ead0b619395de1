// A row that lies in memory of the thread's own, gone over in vectors: what kernels of rows and of
// attention have in common.
#pragma once

#include "compiler/graph/ElementaryFunctions.h"
#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tensmith::kernel {

namespace choice {
/// Of rows and reductions: vectors that are gone over side by side.
inline constexpr Choice vectors{"vectors", 1, 8};
} // namespace choice

inline constexpr int64_t kSideBySide = 4; // unasked

/// Sweeps over the columns [0, n) in vectors: wide ones, then narrow ones, the last of them masked.
/// What is done to a vector is often one long dependence, longer than the instructions that a core
/// looks ahead, so that several of the machine's vectors lie side by side in a wide one.
class RowSweep {
public:
  RowSweep(ElementEmitter &emitter, mlir::Value columns, int64_t lanes, const Point &asked = {})
      : emitter_(emitter), math_(emitter.math), columns_(columns), lanes_(lanes),
        vectors_(asked[choice::vectors].value_or(kSideBySide)) {}

  /// `lanes` columns from one on; the mask is null where all of them count.
  struct Columns {
    mlir::Value first, mask;
    int64_t lanes;
  };
  using Step = llvm::function_ref<void(const Columns &)>;
  using Term = llvm::function_ref<mlir::Value(const Columns &)>;

  void each(Step step);
  /// The sum (ADD) or the largest (MAXIMUMF) of the terms of all columns, f32.
  mlir::Value reduce(mlir::vector::CombiningKind kind, Term term);

private:
  using Carry = llvm::function_ref<mlir::Value(mlir::Value, const Columns &)>;
  mlir::Value carry(mlir::Value begin, mlir::Value end, mlir::Value initial, int64_t lanes,
                    bool masked, Carry step);

  ElementEmitter &emitter_;
  IndexMath &math_;
  mlir::Value columns_;
  int64_t lanes_, vectors_;
};

/// The sum of exp(x - largest) over the buffered row x, which becomes those powers where `keep`.
mlir::Value sumExponentials(ElementEmitter &emitter, RowSweep &sweep, mlir::Value buffer,
                            mlir::Value largest, bool keep);
/// A softmax without its last step: the buffered row x becomes exp(x - largest), and what it has to
/// be multiplied by is returned.
mlir::Value exponentiate(ElementEmitter &emitter, RowSweep &sweep, mlir::Value buffer,
                         mlir::Value largest);

} // namespace tensmith::kernel
