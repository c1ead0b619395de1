// What an operator needs in order to say, element by element, how its result is computed
// (Indexed::emitElement).
//
// Element types inside kernels: f32 and f64 are themselves; f16 and bf16 arrive as f32 and the
// caller rounds the result to storage, so emitters use the *values'* float types, never the
// tensors'; integers are signless of their width (the tensor's type tells the sign: ui8 or i8);
// booleans are i1; 8-bit and smaller floats and 4-bit integers are moved as i8 and computed with by
// `cast` alone.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tensmith::graph {

class ElementContext {
public:
  ElementContext(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}
  virtual ~ElementContext() = default;

  /// The element of operand `number` at `indices`, which must be within its bounds whenever the
  /// code is executed, also under a select: what may not be is asked for by `read`.
  virtual mlir::Value operand(unsigned number, mlir::ValueRange indices) = 0;
  /// That element where its indices along the dimensions `guarded` are within them, `otherwise`
  /// where one isn't; where `otherwise` is null, any element, which the caller replaces (of
  /// dimensions that may be empty it must be given). As code it is a read of clamped indices and a
  /// select: straight-line code, which the vectoriser takes. Only where a dimension may be empty,
  /// of which no index is within bounds, it is a branch.
  virtual mlir::Value read(unsigned number, mlir::ValueRange indices,
                           llvm::ArrayRef<unsigned> guarded, mlir::Value otherwise);

  /// Sizes as `index` values (constants where static).
  virtual mlir::Value operandSize(unsigned number, unsigned dim) = 0;
  virtual mlir::Value resultSize(unsigned number, unsigned dim) = 0;

  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange indices,
                                                                     mlir::ValueRange carried)>;
  /// A sequential loop nest over `extents` (small constant ones may be unrolled), carrying values;
  /// returns the last ones.
  virtual llvm::SmallVector<mlir::Value> loop(mlir::ValueRange extents, mlir::ValueRange initial,
                                              LoopBody body) = 0;

  /// What joins the elements of a reduction.
  enum class Join : uint8_t { Sum, Product, Largest, Smallest };
  /// At these indices an element, or two whose product is one.
  using Term = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange indices)>;
  using Combine = llvm::function_ref<mlir::Value(mlir::Value carried, mlir::ValueRange term)>;
  /// All terms of a nest over `extents`, joined, from the join's neutral element on. As code it is
  /// a `loop` that begins with `initial`, and `combine` is one step of it.
  virtual mlir::Value reduce(Join join, mlir::ValueRange extents, mlir::Value initial, Term term,
                             Combine combine);

  /// Whether statements of a nest are made of the code, and no loops (compiler/nest/RegionNest.h):
  /// then bounds and conditions are better told than avoided.
  virtual bool isForNest() const { return false; }

  /// Elements along the last dimension that are computed side by side: what `operand` and `loop`
  /// give are vectors of so many, where they are more than one.
  virtual int64_t lanes() const { return 1; }

  /// Ends the run with an error at this operator (index out of range) where `condition` (i1) is
  /// false. `{}` in the message stands for `detail`, an index.
  virtual void check(mlir::Value condition, llvm::StringRef message, mlir::Value detail = {}) = 0;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// The type that an element has inside kernels (see above); null where it has none (strings,
/// complex).
mlir::Type kernelElementType(mlir::Type element);
/// Whether integers of the type compare and divide as unsigned.
bool isUnsigned(mlir::Type element);

} // namespace tensmith::graph
