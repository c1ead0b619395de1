// Tiles of Fourier transforms that a convolution may be cut into, and what the transforms of one
// take: for the rewrites that choose between ways to compute it (Fourier.cpp, FourierPasses.cpp).
#pragma once

#include "base/Fourier.h"
#include "compiler/kernel/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace tensmith::rewrite {

/// The transform's rows and columns for so many pixels along a dimension of an image, or of a line,
/// and a window, with what lies between its taps. Along a window of one there is nothing to
/// transform. Nothing where there is no such tile, or its code would be too much.
std::optional<FourierTile> fourierTile(llvm::ArrayRef<int64_t> window, int64_t size);

/// Sizes that are tried for a window.
llvm::SmallVector<int64_t> fourierSizes(llvm::ArrayRef<int64_t> window);

/// Cycles of one core for a tile of a vector of channels.
class FourierTransforms {
public:
  FourierTransforms(const kernel::Machine &machine, const FourierTile &tile);

  /// Pixels of so many of the tile's rows to its frequencies, the other rows being zeros.
  double forward(double rows) const;
  /// Frequencies to so many rows of pixels.
  double inverse(double rows) const { return forward(rows); }
  /// To write the frequencies of so many tiles to planes, or to read them, of channels in groups.
  double planes(double tiles, int64_t channels, int64_t group) const;

private:
  const kernel::Machine &machine_;
  FourierTile tile_;
  double ofRow_ = 0, ofColumns_ = 0; // operations
};

} // namespace tensmith::rewrite
