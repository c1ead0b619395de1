// Elements by their places in memory: of what is computed from whole tensors that lie in the same
// order, whatever shapes they are seen as, and from scalars. No index is needed for them.
#pragma once

#include "compiler/kernel/ElementEmitter.h"

namespace tensmith::kernel {

int64_t elementsOf(mlir::Value value);

class FlatElements {
public:
  /// Values of so many elements are whole.
  FlatElements(ElementEmitter &emitter, int64_t elements)
      : emitter_(emitter), elements_(elements) {}

  /// Whether the value is such a tensor of f32, where `given`, which may be null, is one.
  static bool areKnown(mlir::Value value, int64_t elements, mlir::Value given = {});

  /// What is at the place that is asked for.
  void define(mlir::Value value, mlir::Value vector) { known_[value] = vector; }

  /// As many elements as lanes from `place` on; all of one object are asked for at one place.
  mlir::Value at(mlir::Value value, mlir::Value place, int64_t lanes, mlir::Value mask);

private:
  mlir::Value scalar(mlir::Value value, int64_t lanes);

  ElementEmitter &emitter_;
  int64_t elements_;
  llvm::SmallDenseMap<mlir::Value, mlir::Value> known_;
};

} // namespace tensmith::kernel
