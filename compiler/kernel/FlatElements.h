// Elements by their places in memory: of what is computed from whole tensors that lie in the same
// order, whatever shapes they are seen as, and from scalars. No index is needed for them.
#pragma once

#include "compiler/kernel/ElementEmitter.h"

namespace tensmith::kernel {

class FlatElements {
public:
  /// Values of as many elements as `like` are whole.
  FlatElements(ElementEmitter &emitter, mlir::Value like) : emitter_(emitter), like_(like) {}

  /// Whether the value is such a tensor of f32, where `given`, which may be null, is one.
  static bool areKnown(mlir::Value value, mlir::Value like, mlir::Value given = {});

  /// What is at the place that is asked for.
  void define(mlir::Value value, mlir::Value vector) { known_[value] = vector; }

  /// As many elements as lanes from `place` on; all of one object are asked for at one place.
  mlir::Value at(mlir::Value value, mlir::Value place, int64_t lanes, mlir::Value mask);

private:
  mlir::Value scalar(mlir::Value value, int64_t lanes);

  ElementEmitter &emitter_;
  mlir::Value like_;
  llvm::SmallDenseMap<mlir::Value, mlir::Value> known_;
};

} // namespace tensmith::kernel
