// The parameters that convolutions and pooling share.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

struct Window {
  Ints kernel, strides, dilations;
  Ints pads; ///< all lows, then all highs
  /// The elements between a window's first and its last: an expression where only the run tells the
  /// weights' shape. There `kernel` is 1.
  SmallVector<AffineExpr> spans;
  /// Of a dimension whose padding only the run tells, since it depends on sizes: how much there is
  /// in front and behind, i64 scalars whose sum is `spans`. Null elsewhere, where `pads` tell.
  SmallVector<Value> lows, highs;

  bool isPadded(size_t dim) const { return bool(lows[dim]); }
  bool isPadded() const {
    return llvm::any_of(lows, [](Value low) { return bool(low); });
  }
  /// The elements from a window's first to its last.
  int64_t reach(size_t dim) const { return (kernel[dim] - 1) * dilations[dim] + 1; }

  SmallVector<NamedAttribute> attributes(NodeImport &n) const {
    return {n.integers("strides", strides), n.integers("pads", pads),
            n.integers("dilations", dilations)};
  }
};

/// From the node's attributes; automatic padding is resolved for the operand x. Fails with an
/// error. `weights`: what says the window where the attribute is absent.
FailureOr<Window> windowOf(NodeImport &n, Value x, Value weights = {});

/// The sizes of a window of weights, 1 for those that only the run tells.
Ints kernelOf(NodeImport &n, Value weights);

/// x with the padding that only the run tells, of `filling` (null: zero); the window's `pads` add
/// the rest. Null after an error.
Value paddedFor(NodeImport &n, const Window &window, Value x, Value filling = {});

/// The elements of x from `start` on along the axis, so many as `size` says: scalars of i64, of
/// which the latter's contents are known.
Value cropped(NodeImport &n, Value x, int64_t axis, Value start, Value size);

/// x with `lows` before and `highs` behind it (i64 scalars, null for 0; negative ones crop), whose
/// sizes are known to be `sizes` then.
Value padTo(NodeImport &n, Value x, ArrayRef<Value> lows, ArrayRef<Value> highs,
            ArrayRef<AffineExpr> sizes, Value filling = {});

} // namespace tensmith::onnx_import
