// What the three passes of a convolution of stride 1 in training take, plain and by Fourier
// transforms: for FourierPasses.cpp.
#pragma once

#include "base/Fourier.h"
#include "compiler/kernel/CostModel.h"

#include "llvm/ADT/SmallVector.h"

namespace tensmith::rewrite {

/// Bytes of an image's spectra from which on they are not kept from the way there to the way back,
/// but made again (RepeatElementwise.cpp).
inline constexpr int64_t kMostKeptSpectra = 8 << 20;

/// What a pass gives: the convolution, or the gradient of its image or of its weights.
enum class PassKind : uint8_t { Output, Image, Weights };

struct PassSizes {
  int64_t images = 1, in = 1, out = 1, group = 1;
  llvm::SmallVector<int64_t> input, output;  // along the image's dimensions
  llvm::SmallVector<int64_t> window, kernel; // with what lies between its taps, and without
};

/// In cycles of one core.
class PassCost {
public:
  PassCost(const kernel::Machine &machine, const PassSizes &sizes)
      : machine_(machine), sizes_(sizes) {}

  double plain(PassKind kind) const;

  // By transforms: those that passes share, and what else a pass takes, with transforms of its
  // weights and of its result.
  double ofImage(const FourierTile &tile) const;
  double ofOutputs(const FourierTile &tile) const;
  double own(PassKind kind, const FourierTile &tile) const;

private:
  double wholeVectors(double columns) const;
  double turned(double numbers) const;
  double productsOfPlanes(double batch, double rows, double depth, double columns) const;
  double plainConvolution(double rows, double depth, double columns) const;
  double plainWeightsGradient(double positions, double taps, double in, double out) const;
  double ofWeights(int64_t images, int64_t channels, const FourierTile &tile) const;
  double transforms(double count, int64_t channels, double cycles, const FourierTile &tile) const;
  double tiles(const FourierTile &tile) const {
    return double(sizes_.images * tile.tilesOf(sizes_.output));
  }
  const kernel::Machine &machine_;
  const PassSizes &sizes_;
};

} // namespace tensmith::rewrite
