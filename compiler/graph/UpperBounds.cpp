// Symbols with bounds; see UpperBounds.h.
#include "compiler/graph/UpperBounds.h"

using namespace mlir;

namespace tensmith::graph {

thread_local UpperBounds *UpperBounds::listening_ = nullptr;

UpperBounds::UpperBounds() : outer_(listening_) { listening_ = this; }

UpperBounds::~UpperBounds() { listening_ = outer_; }

AffineExpr freshAtMost(Inference &infer, StringRef hint, AffineExpr most) {
  AffineExpr size = infer.fresh(hint);
  if (UpperBounds *listener = UpperBounds::listening_)
    listener->bounds_[size] = infer.shapes.simplify(most);
  return size;
}

} // namespace tensmith::graph
