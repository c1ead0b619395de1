// A row that lies in memory of the thread's own, gone over in vectors: what kernels of rows and of
// attention have in common.
#pragma once

#include "compiler/graph/ElementaryFunctions.h"
#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tensmith::kernel {

/// Sweeps over the columns [0, n) in vectors, the last of them masked.
class RowSweep {
public:
  RowSweep(ElementEmitter &emitter, mlir::Value columns, int64_t lanes)
      : emitter_(emitter), math_(emitter.math), columns_(columns), lanes_(lanes) {}

  using Step = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value column, mlir::Value mask, mlir::ValueRange carried)>;

  /// Carries vectors through all columns. `step` sees a mask (null where all lanes count).
  llvm::SmallVector<mlir::Value> run(mlir::ValueRange initial, Step step) {
    return runFrom(math_.constant(0), initial, step);
  }
  /// From a column on that is a multiple of the lanes.
  llvm::SmallVector<mlir::Value> runFrom(mlir::Value first, mlir::ValueRange initial, Step step);
  mlir::Value columns() const { return columns_; }
  int64_t lanes() const { return lanes_; }

private:
  mlir::Value mask(mlir::Value column);

  ElementEmitter &emitter_;
  IndexMath &math_;
  mlir::Value columns_;
  int64_t lanes_;
};

/// A vector of f32.
mlir::Value splatReal(ElementEmitter &emitter, double value, int64_t lanes);
/// `value`, and `otherwise` in lanes that the mask, if there is one, leaves out.
mlir::Value keepLanes(const graph::ScalarCode &code, mlir::Value mask, mlir::Value value,
                      mlir::Value otherwise);
mlir::Value joinLanes(ElementEmitter &emitter, mlir::vector::CombiningKind kind, mlir::Value lanes);
/// A softmax without its last step: the buffered row x becomes exp(x - largest), and what it has to
/// be multiplied by is returned. `largest`: lanes that have the largest element among them.
mlir::Value exponentiate(ElementEmitter &emitter, RowSweep &sweep, mlir::Value buffer,
                         mlir::Value largest);

} // namespace tensmith::kernel
