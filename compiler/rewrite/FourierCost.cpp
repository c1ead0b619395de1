// Operations of the transforms, counted by running them on nothing, and what memory takes; see
// FourierCost.h.
#include "compiler/rewrite/FourierCost.h"

#include <algorithm>
#include <array>

namespace tensmith::rewrite {
namespace {

/// Pixels along a dimension of an image. Transforms beyond the usual size are much code, and
/// taken for windows alone of which the others would leave few outputs.
constexpr int64_t kSizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr int64_t kUsualSize = 32;
/// Of a longer line, the factors of the tile: rows are odd, columns powers of two.
constexpr int64_t kRowsOfLine[] = {15, 21, 27, 35, 45, 63, 75, 81, 105, 125};
constexpr int64_t kColumnsOfLine[] = {16, 32, 64, 128};
/// A butterfly of a prime is straight code that grows with its square.
constexpr int64_t kLargestPrime = 13;

bool hasSmallFactors(int64_t size) {
  for (int64_t factor = 2; factor <= kLargestPrime; ++factor)
    while (size % factor == 0)
      size /= factor;
  return size == 1;
}

/// Counts what a transform does.
struct Counting {
  struct Number {};
  int64_t *count;

  Number did() const { return ++*count, Number(); }
  Number add(Number, Number) const { return did(); }
  Number sub(Number, Number) const { return did(); }
  Number negate(Number) const { return Number(); } // becomes part of what follows
  Number scale(double factor, Number) const { return factor == 0 ? Number() : did(); }
  Number scaleAdd(double, Number, Number) const { return did(); }
};

/// Operations of transforms of so many numbers.
struct Operations {
  explicit Operations(int64_t size) {
    using Transform = Fourier<Counting>;
    Transform ofReal(Counting{&real}), ofComplex(Counting{&complex});
    ofReal.forward(Transform::Numbers(size_t(size)));
    ofComplex.transform(Transform::Complexes(size_t(size), {{}, Counting::Number()}), -1);
  }
  int64_t real = 0, complex = 0;
};

} // namespace

std::optional<FourierTile> fourierTile(llvm::ArrayRef<int64_t> window, int64_t size) {
  if (size < 1 || !hasSmallFactors(size))
    return std::nullopt;
  if (window.size() == 2) {
    int64_t rows = window[0] > 1 ? size : 1, columns = window[1] > 1 ? size : 1;
    return FourierTile::of(std::array{rows, columns}, window);
  }
  int64_t columns = size;
  if (size > std::end(kSizes)[-1])
    columns = std::min<int64_t>(size & -size, std::end(kColumnsOfLine)[-1]);
  return FourierTile::of(std::array{size / columns, columns}, window);
}

llvm::SmallVector<int64_t> fourierSizes(llvm::ArrayRef<int64_t> window) {
  llvm::SmallVector<int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  int64_t most = std::max(kUsualSize, 2 * *std::max_element(window.begin(), window.end()) + 2);
  llvm::erase_if(sizes, [&](int64_t size) { return size > most; });
  if (window.size() == 1)
    for (int64_t rows : kRowsOfLine)
      for (int64_t columns : kColumnsOfLine)
        sizes.push_back(rows * columns);
  std::sort(sizes.begin(), sizes.end());
  llvm::erase_if(sizes, [&](int64_t size) { return !fourierTile(window, size); });
  return sizes;
}

FourierTransforms::FourierTransforms(const kernel::Machine &machine, const FourierTile &tile)
    : machine_(machine), tile_(tile) {
  Operations ofRow(tile.columns), ofColumn(tile.rows);
  int64_t complexColumns = tile.halfColumns() - tile.realColumns();
  ofRow_ = double(ofRow.real);
  ofColumns_ = double(ofColumn.real * tile.realColumns() + ofColumn.complex * complexColumns);
}

double FourierTransforms::forward(double rows) const {
  // Pixels are copied, rows and columns are read and written.
  double accesses = 4 * rows * double(tile_.columns) + 2 * double(tile_.numbers());
  double bytes = double(tile_.numbers() * machine_.vectorBytes);
  return kernel::cyclesOf(kernel::VectorWork{rows * ofRow_ + ofColumns_, accesses, bytes},
                          machine_);
}

double FourierTransforms::planes(double tiles, int64_t channels, int64_t group) const {
  int64_t lanes = machine_.lanes(sizeof(float)), each = channels / group;
  double planes = double(tile_.planes(kFourierThirds)), plane = tiles * double(each * group);
  double vectors = planes * tiles * double(group * llvm::divideCeil(each, lanes));
  return kernel::cyclesOf(kernel::PlaneAccess{vectors, planes * plane * sizeof(float),
                                              int64_t(tiles) * each * int64_t(sizeof(float))},
                          machine_);
}

} // namespace tensmith::rewrite
