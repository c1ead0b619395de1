// The way back of one loop, and whom it hands its cotangents to.
//
// A loop is gone back through whole (ReverseLoop.cpp), or in parts (LoopParts.h), of which each is
// a loop with the same body that begins at a later iteration.
#pragma once

#include "compiler/autodiff/Activity.h"
#include "compiler/autodiff/Differentiate.h"

namespace tensmith::autodiff {

class Procedures;
class Reverse;

/// Iterations of a loop that is always kept whole, where their number is known; and of one that has
/// loops inside.
inline constexpr int64_t kShortLoop = 64, kShortLoopOfLoops = 4;

/// Whether it runs so often at most, whatever happens.
bool isShortLoop(graph::LoopOp loop);

/// Which names of sizes stand for the same size in each iteration: those that values around the
/// loop have.
class SizesAround {
public:
  explicit SizesAround(graph::LoopOp loop);

  bool has(mlir::StringAttr name) const { return names_.contains(name); }
  /// Whether the value has another size in each iteration.
  bool varies(mlir::Value value) const;
  /// The value's type with names of its own for sizes that vary.
  mlir::Type typeOfState(graph::ShapeContext &shapes, mlir::Value value) const;

private:
  llvm::DenseSet<mlir::StringAttr> names_;
};

/// Takes what a way back gives, in an order that is the same for each part of a loop.
class LoopCotangents {
public:
  virtual ~LoopCotangents() = default;

  /// Of what the loop carried at first.
  virtual mlir::LogicalResult giveCarried(unsigned number, mlir::Value cotangent) = 0;
  /// What a sum over the iterations begins with, for a value from outside of the loop; sums are
  /// given in the order in which they began.
  virtual mlir::Value beginSum(mlir::Value of) = 0;
  virtual mlir::LogicalResult giveSum(mlir::Value of, mlir::Value sum) = 0;
  /// What the rows have got that the iterations read of a tensor, in their order.
  virtual mlir::LogicalResult giveRows(mlir::Value of, mlir::Value rows) = 0;
};

/// A loop, or a part of one that begins at iteration `offset`: `position` in its body is an
/// iteration of the whole loop. Both are null of a whole loop.
struct LoopPart {
  graph::LoopOp loop;
  mlir::Value position, offset;
};

/// The way back through the part, built where the code's builder stands. `given` are cotangents:
/// of what the part carries last, and of the rows that the whole loop scans out; null where zero.
mlir::LogicalResult reversePart(const graph::GradientCode &code, Activity &activity, LoopPart part,
                                llvm::ArrayRef<mlir::Value> given, LoopCotangents &cotangents,
                                Procedures *procedures);

/// Hands cotangents of rows to what they were read from.
mlir::LogicalResult addRows(const graph::GradientCode &code, Reverse &reverse, mlir::Value of,
                            mlir::Value rows);

} // namespace tensmith::autodiff
