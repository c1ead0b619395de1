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

/// What is multiplied in whole vectors of columns.
double PassCost::wholeVectors(double columns) const {
  double lanes = double(machine_.lanes(sizeof(float)));
  return std::ceil(columns / lanes) * lanes;
}

/// One for each plane and group, of operands that the run computes.
double PassCost::productsOfPlanes(double batch, double rows, double depth, double columns) const {
  double vectors = wholeVectors(columns);
  kernel::Products products{batch, rows, depth, vectors};
  products.ofPlanes = true;
  // A right operand that is no panel as it lies is packed.
  bool isPanel =
      columns == vectors && columns <= double(kernel::panelWidth(machine_, sizeof(float)));
  auto traffic = [&](double numbers, bool packed) {
    return kernel::cyclesOf(kernel::PlaneTraffic{bytes(batch * numbers), packed}, machine_);
  };
  return kernel::cyclesOf(products, machine_) + traffic(rows * depth, false) +
         traffic(depth * vectors, !isPanel) + traffic(rows * columns, false);
}

/// To bring numbers into another order: vectors of what lies a step apart.
double PassCost::turned(double numbers) const {
  double lanes = double(machine_.lanes(sizeof(float)));
  return kernel::cyclesOf(kernel::Windows{numbers / lanes, kernel::Windows::Access::Apart},
                          machine_);
}

/// Rows of an image by its window's taps times weights, which are brought into the product's order.
double PassCost::plainConvolution(double rows, double depth, double columns) const {
  auto group = double(sizes_.group);
  double vectors = wholeVectors(columns);
  return kernel::cyclesOf(kernel::Products{group, rows, depth, vectors}, machine_) +
         turned(group * depth * vectors);
}

/// The cotangent's channels times patches, which are stored, and so is what they give.
double PassCost::plainWeightsGradient(double positions, double taps, double in, double out) const {
  auto group = double(sizes_.group);
  double elements = positions * taps * in * group;
  double patches =
      sizes_.in == 1
          ? kernel::cyclesOf(kernel::Windows{elements / double(machine_.lanes(sizeof(float)))},
                             machine_)
          : kernel::cyclesOf(kernel::RunCopies{elements / in, elements}, machine_);
  return kernel::cyclesOf(kernel::Products{group, out, positions, wholeVectors(taps * in)},
                          machine_) +
         patches + turned(positions * out * group) + 2 * turned(taps * in * out * group);
}

double PassCost::plain(PassKind kind) const {
  double group = double(sizes_.group), in = double(sizes_.in) / group,
         out = double(sizes_.out) / group, taps = productOf(sizes_.kernel);
  double positions = double(sizes_.images) * productOf(sizes_.output);
  double pixels = double(sizes_.images) * productOf(sizes_.input);
  if (kind == PassKind::Output)
    return plainConvolution(positions, taps * in, out);
  if (kind == PassKind::Image)
    return plainConvolution(pixels, taps * out, in);
  return plainWeightsGradient(positions, taps, in, out);
}

double PassCost::transforms(double count, int64_t channels, double cycles,
                            const FourierTile &tile) const {
  int64_t group = sizes_.group;
  double vectors =
      double(group * llvm::divideCeil(channels / group, machine_.lanes(sizeof(float))));
  return count * vectors * cycles +
         FourierTransforms(machine_, tile).planes(count, channels, group);
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

/// Weights lie as `images` of so many channels.
double PassCost::ofWeights(int64_t images, int64_t channels, const FourierTile &tile) const {
  FourierTransforms own(machine_, tile);
  return transforms(double(images), channels, own.forward(rowsOf(tile, sizes_.kernel[0])), tile);
}

double PassCost::own(PassKind kind, const FourierTile &tile) const {
  FourierTransforms transform(machine_, tile);
  double batch = double(tile.planes(kFourierThirds) * sizes_.group), count = tiles(tile);
  int64_t in = sizes_.in / sizes_.group, out = sizes_.out / sizes_.group;
  if (kind == PassKind::Weights)
    return productsOfPlanes(batch, double(in), count, double(out)) +
           ofWeights(in, sizes_.out, tile);
  if (kind == PassKind::Image)
    return productsOfPlanes(batch, count, double(out), double(in)) +
           ofWeights(out, sizes_.in, tile) +
           transforms(count, sizes_.in, transform.inverse(rowsOf(tile, tile.rows)), tile);
  double rows = rowsOf(tile, std::min(tile.down, sizes_.output[0]));
  return productsOfPlanes(batch, count, double(in), double(out)) + ofWeights(in, sizes_.out, tile) +
         transforms(count, sizes_.out, transform.inverse(rows), tile);
}

} // namespace tensmith::rewrite
