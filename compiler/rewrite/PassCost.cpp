// Products and what is copied for them, against transforms and the products of their planes; see
// PassCost.h.
#include "compiler/rewrite/PassCost.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/FourierCost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tensmith::rewrite {
namespace {

double productOf(llvm::ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

double bytes(double numbers) { return numbers * sizeof(float); }

} // namespace

double PassCost::product(double batch, double rows, double depth, double columns) const {
  double lanes = double(machine_.lanes(sizeof(float)));
  double vectors = std::ceil(columns / lanes) * lanes;
  double arithmetic = kernel::cyclesOf(kernel::Products{batch, rows, depth, vectors}, machine_);
  // A right operand that is no panel as it lies is read, packed and read again.
  bool isPanel =
      columns == vectors && columns <= double(kernel::panelWidth(machine_, sizeof(float)));
  double right = (isPanel ? 1 : 3) * depth * vectors;
  double traffic = batch * bytes(rows * depth + right + rows * columns);
  return arithmetic + kernel::cyclesOf(kernel::Traffic{traffic}, machine_);
}

double PassCost::plain(PassKind kind) const {
  double group = double(sizes_.group), in = double(sizes_.in) / group,
         out = double(sizes_.out) / group, taps = productOf(sizes_.kernel);
  double positions = double(sizes_.images) * productOf(sizes_.output);
  double pixels = double(sizes_.images) * productOf(sizes_.input);
  // Rows of few channels are copied from under the window.
  auto copies = [&](double rows, double channels) {
    return channels < double(kernel::kFewChannels)
               ? kernel::cyclesOf(kernel::Traffic{2 * bytes(rows * taps * channels * group)},
                                  machine_)
               : 0;
  };
  if (kind == PassKind::Output)
    return product(group, positions, taps * in, out) + copies(positions, in);
  if (kind == PassKind::Image)
    return product(group, pixels, taps * out, in) + copies(pixels, out);
  // Patches are stored.
  double patches = 2 * bytes(positions * taps * in * group);
  return product(group, out, positions, taps * in) +
         kernel::cyclesOf(kernel::Traffic{patches}, machine_);
}

double PassCost::transforms(double count, int64_t channels, double cycles,
                            const FourierTile &tile) const {
  FourierTransforms transforms(machine_, tile);
  int64_t group = sizes_.group;
  double vectors =
      double(group * llvm::divideCeil(channels / group, machine_.lanes(sizeof(float))));
  double planes = double(tile.planes(kFourierThirds)) * count * double(channels);
  return count * vectors * (cycles + transforms.pages()) +
         kernel::cyclesOf(kernel::Traffic{bytes(planes)}, machine_);
}

static double rowsOf(const FourierTile &tile, int64_t rows) {
  return tile.isLine ? double(tile.rows) : double(std::min(tile.rows, rows));
}

double PassCost::ofImage(const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  return transforms(tiles(tile), sizes_.in, own.forward(rowsOf(tile, sizes_.input[0])), tile);
}

double PassCost::ofOutputs(const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  double rows = rowsOf(tile, std::min(tile.down, sizes_.output[0]));
  return transforms(tiles(tile), sizes_.out, own.forward(rows), tile);
}

/// Weights lie as `images` of so many channels, or are stored so.
double PassCost::ofWeights(int64_t images, int64_t channels, const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  double numbers = double(sizes_.in / sizes_.group) * double(sizes_.out) * productOf(sizes_.kernel);
  return kernel::cyclesOf(kernel::Traffic{2 * bytes(numbers)}, machine_) +
         transforms(double(images), channels, own.forward(rowsOf(tile, sizes_.kernel[0])), tile);
}

double PassCost::own(PassKind kind, const FourierTile &tile) const {
  FourierTransforms transform(machine_, tile);
  double batch = double(tile.planes(kFourierThirds) * sizes_.group), count = tiles(tile);
  int64_t in = sizes_.in / sizes_.group, out = sizes_.out / sizes_.group;
  if (kind == PassKind::Weights)
    return product(batch, double(in), count, double(out)) + ofWeights(in, sizes_.out, tile);
  if (kind == PassKind::Image)
    return product(batch, count, double(out), double(in)) + ofWeights(out, sizes_.in, tile) +
           transforms(count, sizes_.in, transform.inverse(rowsOf(tile, tile.rows)), tile);
  double rows = rowsOf(tile, std::min(tile.down, sizes_.output[0]));
  return product(batch, count, double(in), double(out)) + ofWeights(in, sizes_.out, tile) +
         transforms(count, sizes_.out, transform.inverse(rows), tile);
}

} // namespace tensmith::rewrite
