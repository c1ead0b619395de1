// The layouts of images: the attribute `layout` of operators with windows says which one an
// operator reads and writes, a machine which one its templates take. As permutations, they are for
// `graph.transpose`.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace tensmith::graph {

inline constexpr llvm::StringLiteral kLayout = "layout";
inline constexpr llvm::StringLiteral kChannelsFirst = "channels_first"; // [N, C, spatial...]
inline constexpr llvm::StringLiteral kChannelsLast = "channels_last";   // [N, spatial..., C]

/// Whether an operator with a window has images of that layout; false of others.
inline bool isChannelsLast(mlir::Operation *op) {
  auto layout = op->getAttrOfType<mlir::StringAttr>(kLayout);
  return layout && layout.getValue() == kChannelsLast;
}

/// From [N, C, spatial...] to [N, spatial..., C].
inline llvm::SmallVector<int64_t> toChannelsLast(int64_t rank) {
  llvm::SmallVector<int64_t> permutation{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    permutation.push_back(dim);
  permutation.push_back(1);
  return permutation;
}

/// And back.
inline llvm::SmallVector<int64_t> toChannelsFirst(int64_t rank) {
  llvm::SmallVector<int64_t> permutation{0, rank - 1};
  for (int64_t dim = 1; dim + 1 < rank; ++dim)
    permutation.push_back(dim);
  return permutation;
}

} // namespace tensmith::graph
