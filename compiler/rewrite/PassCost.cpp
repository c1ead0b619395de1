// Products and what is copied for them, against transforms and the products of their planes; see
// PassCost.h.
#include "compiler/rewrite/PassCost.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/FourierCost.h"

#include <algorithm>
#include <limits>
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
  double arithmetic = kernel::cyclesOf({batch, rows, depth, vectors}, machine_,
                                       std::numeric_limits<double>::infinity());
  // The right operand is read, packed and read again.
  double traffic = batch * bytes(rows * depth + 3 * depth * vectors + rows * columns);
  return arithmetic + kernel::cyclesOfTraffic(traffic, machine_);
}

double PassCost::plain(PassKind kind) const {
  double group = double(sizes_.group), in = double(sizes_.in) / group,
         out = double(sizes_.out) / group, taps = productOf(sizes_.kernel);
  double positions = double(sizes_.images) * productOf(sizes_.output);
  double pixels = double(sizes_.images) * productOf(sizes_.input);
  // Rows of few channels are copied from under the window.
  auto copies = [&](double rows, double channels) {
    return channels < double(kernel::kFewChannels)
               ? kernel::cyclesOfTraffic(2 * bytes(rows * taps * channels * group), machine_)
               : 0;
  };
  if (kind == PassKind::Output)
    return product(group, positions, taps * in, out) + copies(positions, in);
  if (kind == PassKind::Image)
    return product(group, pixels, taps * out, in) + copies(pixels, out);
  // Patches are stored.
  double patches = 2 * bytes(positions * taps * in * group);
  return product(group, out, positions, taps * in) + kernel::cyclesOfTraffic(patches, machine_);
}

double PassCost::transforms(double count, int64_t channels, double cycles,
                            const FourierTile &tile) const {
  FourierTransforms transforms(machine_, tile);
  int64_t group = sizes_.group;
  double vectors =
      double(group * llvm::divideCeil(channels / group, machine_.lanes(sizeof(float))));
  double planes = double(tile.planes(kFourierThirds)) * count * double(channels);
  return count * vectors * (cycles + transforms.pages()) +
         kernel::cyclesOfTraffic(bytes(planes), machine_);
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

double PassCost::ofWeights(const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  double count = double(sizes_.in / sizes_.group);
  double turned = kernel::cyclesOfTraffic(
      2 * bytes(count * double(sizes_.out) * productOf(sizes_.kernel)), machine_);
  return turned + transforms(count, sizes_.out, own.forward(rowsOf(tile, sizes_.kernel[0])), tile);
}

double PassCost::products(PassKind kind, const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  double batch = double(tile.planes(kFourierThirds) * sizes_.group);
  double in = double(sizes_.in / sizes_.group), out = double(sizes_.out / sizes_.group);
  double count = tiles(tile);
  if (kind == PassKind::Output) {
    double rows = rowsOf(tile, std::min(tile.down, sizes_.output[0]));
    return product(batch, count, in, out) + transforms(count, sizes_.out, own.inverse(rows), tile);
  }
  if (kind == PassKind::Image)
    return product(batch, count, out, in) +
           transforms(count, sizes_.in, own.inverse(rowsOf(tile, tile.rows)), tile);
  double turned = kernel::cyclesOfTraffic(
      2 * bytes(in * double(sizes_.out) * productOf(sizes_.kernel)), machine_);
  return product(batch, in, count, out) + turned +
         transforms(in, sizes_.out, own.inverse(rowsOf(tile, sizes_.kernel[0])), tile);
}

} // namespace tensmith::rewrite
