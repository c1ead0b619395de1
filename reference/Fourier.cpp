// Reference evaluation of the parts of a convolution by Fourier transforms (base/Fourier.h), on
// channels-last images: the transforms as plain sums over rows, then columns.
#include "base/Fourier.h"
#include "reference/Transforms.h"
#include "reference/Workspace.h"

#include <array>
#include <cmath>
#include <new>
#include <tuple>
#include <utility>

namespace tensmith::reference {
namespace {

/// The half that is kept of the spectrum of a tile of real numbers.
class Spectrum {
public:
  explicit Spectrum(const FourierTile &tile)
      : tile_(tile), re_(size_t(tile.rows * tile.halfColumns())), im_(re_),
        ofRows_(roots(tile.rows)), ofColumns_(roots(tile.columns)) {}

  void forward(const std::vector<double> &pixels) {
    std::vector<double> re(re_.size()), im(re_.size());
    int64_t half = tile_.halfColumns();
    for (int64_t row = 0; row < tile_.rows; ++row)
      for (int64_t j = 0; j < tile_.columns; ++j)
        if (double pixel = pixels[size_t(row * tile_.columns + j)]; pixel != 0)
          for (int64_t c = 0; c < half; ++c) {
            Root root = ofColumns_[size_t(c * j % tile_.columns)];
            re[size_t(row * half + c)] += pixel * root.re;
            im[size_t(row * half + c)] -= pixel * root.im;
          }
    turnColumns(re, im, re_, im_, -1);
  }

  void inverse(std::vector<double> &pixels) {
    std::vector<double> re(re_.size()), im(re_.size());
    int64_t half = tile_.halfColumns();
    for (int64_t c = 0; c < half; ++c)
      for (int64_t k = tile_.keptRows(c); k < tile_.rows; ++k) {
        re_[size_t(k * half + c)] = re_[size_t((tile_.rows - k) * half + c)];
        im_[size_t(k * half + c)] = -im_[size_t((tile_.rows - k) * half + c)];
      }
    turnColumns(re_, im_, re, im, 1);
    for (int64_t row = 0; row < tile_.rows; ++row)
      for (int64_t j = 0; j < tile_.columns; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < half; ++c) {
          Root root = ofColumns_[size_t(c * j % tile_.columns)];
          double part = re[size_t(row * half + c)] * root.re - im[size_t(row * half + c)] * root.im;
          sum += tile_.isRealColumn(c) ? part : 2 * part;
        }
        pixels[size_t(row * tile_.columns + j)] = sum;
      }
  }

  /// visit(re, im, plane, whether it is real), for each frequency.
  template <typename Visit> void forEach(int64_t parts, Visit visit) {
    int64_t plane = 0;
    for (int64_t c = 0; c < tile_.halfColumns(); ++c)
      for (int64_t k = 0; k < tile_.keptRows(c); ++k) {
        size_t at = size_t(k * tile_.halfColumns() + c);
        visit(re_[at], im_[at], plane, tile_.isReal(k, c));
        plane += tile_.isReal(k, c) ? 1 : parts;
      }
  }

private:
  struct Root {
    double re, im;
  };

  static std::vector<Root> roots(int64_t size) {
    std::vector<Root> all;
    for (int64_t k = 0; k < size; ++k) {
      double angle = 2 * std::numbers::pi * double(k) / double(size);
      all.push_back({std::cos(angle), std::sin(angle)});
    }
    return all;
  }

  void turnColumns(const std::vector<double> &re, const std::vector<double> &im,
                   std::vector<double> &toRe, std::vector<double> &toIm, int sign) {
    int64_t half = tile_.halfColumns();
    std::fill(toRe.begin(), toRe.end(), 0);
    std::fill(toIm.begin(), toIm.end(), 0);
    for (int64_t row = 0; row < tile_.rows; ++row)
      for (int64_t k = 0; k < tile_.rows; ++k) {
        Root root = ofRows_[size_t(row * k % tile_.rows)];
        for (int64_t c = 0; c < half; ++c) {
          double a = re[size_t(row * half + c)], b = im[size_t(row * half + c)];
          toRe[size_t(k * half + c)] += a * root.re - sign * b * root.im;
          toIm[size_t(k * half + c)] += b * root.re + sign * a * root.im;
        }
      }
  }

  const FourierTile &tile_;
  std::vector<double> re_, im_; // [rows, halfColumns]
  std::vector<Root> ofRows_, ofColumns_;
};

/// The image, its tiles, and what is between them.
struct Layout {
  FourierTile tile;
  int64_t images = 0, height = 1, width = 0; // of the outputs
  int64_t channels = 0, group = 1;

  std::array<int64_t, 2> outputs() const { return {height, width}; }
  int64_t tiles() const { return images * tile.tilesOf(outputs()); }
  /// In planes [plane * group, tiles, channels / group].
  int64_t offset(int64_t plane, int64_t at, int64_t channel) const {
    int64_t each = channels / group;
    return ((plane * group + channel / each) * tiles() + at) * each + channel % each;
  }
};

FourierTile tileOf(Workspace &workspace, const Invocation &invocation,
                   const std::vector<int64_t> &window) {
  auto tile = FourierTile::of(invocation.attributes.integers("tile"), window);
  if (!tile)
    workspace.rejectAttribute("tile", "is none for the window");
  return tile.value_or(FourierTile());
}

int64_t groupOf(Workspace &workspace, const Invocation &invocation, int64_t channels) {
  int64_t group = invocation.attributes.integer("group", 1);
  if (group >= 1 && channels % group == 0)
    return group;
  workspace.rejectAttribute("group", "does not divide the channels");
  return 1;
}

/// x [images, (height,) width, channels] under the tiles, padded with zeros.
class Patches {
public:
  /// `ofOutputs`: x are the outputs themselves, of which a tile has those it computes, and zeros
  /// behind them.
  Patches(Workspace &workspace, const Invocation &invocation, bool ofOutputs = false) {
    const HostTensor &x = workspace.anyOperand(0, "x");
    std::vector<int64_t> window = invocation.attributes.integers("window");
    size_t dims = window.size();
    std::vector<int64_t> pads(2 * dims, 0);
    if (!ofOutputs)
      pads = invocation.attributes.integers("pads");
    layout.tile = tileOf(workspace, invocation, window);
    rows_ = ofOutputs ? layout.tile.down : layout.tile.height;
    columns_ = ofOutputs ? layout.tile.across : layout.tile.width;
    if (ofOutputs)
      window.assign(dims, 1);
    workspace.require(size_t(x.rank()) == dims + 2, "x", "has not the window's dimensions");
    bool fits = pads.size() == 2 * dims;
    for (int64_t pad : pads)
      fits = fits && pad >= 0 && pad <= kLargestExtent;
    if (!fits)
      workspace.rejectAttribute("pads", "must be two for each dimension");
    pixels_ = workspace.widen<double>(x);
    if (!workspace.ok())
      return;
    layout.images = x.shape()[0];
    layout.channels = x.shape()[dims + 1];
    width_ = x.shape()[dims];
    left_ = pads[dims - 1];
    layout.width = width_ + left_ + pads[2 * dims - 1] - window[dims - 1] + 1;
    if (dims == 2) {
      height_ = x.shape()[1];
      above_ = pads[0];
      layout.height = height_ + above_ + pads[2] - window[0] + 1;
    }
    workspace.require(layout.height > 0 && layout.width > 0, "x", "is smaller than the window");
  }

  void take(int64_t at, int64_t channel, std::vector<double> &patch) const {
    int64_t across = layout.tile.tilesAcross(layout.outputs());
    int64_t down = layout.tile.tilesDown(layout.outputs());
    int64_t left = at % across * layout.tile.across - left_;
    int64_t top = at / across % down * layout.tile.down - above_;
    int64_t image = at / (across * down);
    for (int64_t i = 0; i < layout.tile.height; ++i)
      for (int64_t j = 0; j < layout.tile.width; ++j) {
        int64_t y = top + i, x = left + j;
        bool inside = i < rows_ && j < columns_ && y >= 0 && y < height_ && x >= 0 && x < width_;
        int64_t from = ((image * height_ + y) * width_ + x) * layout.channels + channel;
        patch[size_t(layout.tile.place(i, j))] = inside ? pixels_[size_t(from)] : 0;
      }
  }

  Layout layout;

private:
  std::span<double> pixels_;
  int64_t height_ = 1, width_ = 0, above_ = 0, left_ = 0;
  int64_t rows_ = 1, columns_ = 1; // of a tile, that are of x
};

/// y [images, (height,) width, channels], and a bias that is added to it.
struct Image {
  const Layout &layout;
  std::span<double> bias, y;

  void put(int64_t at, int64_t channel, const std::vector<double> &patch) {
    int64_t across = layout.tile.tilesAcross(layout.outputs());
    int64_t down = layout.tile.tilesDown(layout.outputs());
    int64_t left = at % across * layout.tile.across, top = at / across % down * layout.tile.down;
    int64_t image = at / (across * down);
    for (int64_t i = 0; i < std::min(layout.tile.down, layout.height - top); ++i)
      for (int64_t j = 0; j < std::min(layout.tile.across, layout.width - left); ++j)
        y[size_t(((image * layout.height + top + i) * layout.width + left + j) * layout.channels +
                 channel)] =
            patch[size_t(layout.tile.place(i, j))] + (bias.empty() ? 0 : bias[size_t(channel)]);
  }
};

Shape shapeOf(const Layout &layout) {
  if (layout.tile.isLine)
    return {layout.images, layout.width, layout.channels};
  return {layout.images, layout.height, layout.width, layout.channels};
}

std::span<double> biasOf(Workspace &workspace, const Invocation &invocation, size_t operand,
                         int64_t channels) {
  if (!invocation.present(operand))
    return {};
  std::span<double> bias = workspace.widen<double>(workspace.floatOperand(operand, "bias", 1));
  workspace.require(int64_t(bias.size()) == channels, "bias", "must have one for each channel");
  return bias;
}

/// Planes of the spectra of x's tiles; `put(re, im, isReal)` gives the three numbers of a
/// frequency.
template <typename Put> Outcome planesOf(const Invocation &invocation, bool ofOutputs, Put put) {
  Workspace workspace(invocation);
  Patches patches(workspace, invocation, ofOutputs);
  Layout &layout = patches.layout;
  layout.group = groupOf(workspace, invocation, layout.channels);
  if (!workspace.ok())
    return workspace.status();
  Shape shape{layout.tile.planes(kFourierThirds) * layout.group, layout.tiles(),
              layout.channels / layout.group};
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  Spectrum spectrum(layout.tile);
  std::vector<double> patch(size_t(layout.tile.numbers()));
  for (int64_t at = 0; at < layout.tiles(); ++at)
    for (int64_t channel = 0; channel < layout.channels; ++channel) {
      patches.take(at, channel, patch);
      spectrum.forward(patch);
      spectrum.forEach(kFourierThirds, [&](double re, double im, int64_t plane, bool isReal) {
        std::array<double, 3> numbers = put(re, im);
        if (isReal)
          numbers[0] = re;
        for (int64_t part = 0; part < (isReal ? 1 : kFourierThirds); ++part)
          y[size_t(layout.offset(plane + part, at, channel))] = numbers[size_t(part)];
      });
    }
  const HostTensor &x = invocation.operands[0];
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

Outcome evaluateInput(const Invocation &invocation) {
  return planesOf(invocation, false,
                  [](double re, double im) { return std::array{re + im, re, im}; });
}

Outcome evaluateGradient(const Invocation &invocation) {
  return planesOf(invocation, true,
                  [](double re, double im) { return std::array{re + im, im, -re}; });
}

/// The window with what lies between its taps, of so many along each dimension.
std::vector<int64_t> dilated(Workspace &workspace, const std::vector<int64_t> &kernel,
                             const std::vector<int64_t> &dilations) {
  std::vector<int64_t> window;
  if (kernel.size() != dilations.size())
    workspace.rejectAttribute("dilations", "must have one for each dimension of the window");
  for (size_t dim = 0; workspace.ok() && dim < dilations.size(); ++dim) {
    bool fits = dilations[dim] >= 1 && dilations[dim] <= kLargestExtent && kernel[dim] >= 1 &&
                kernel[dim] <= kLargestExtent;
    window.push_back(fits ? dilations[dim] * (kernel[dim] - 1) + 1 : 0);
  }
  return window;
}

/// The spectra of weights [M, C / group, kernel...], or where `outputsLast`, [C / group, kernel...,
/// M].
Outcome spectraOfWeights(const Invocation &invocation, bool pairs, bool outputsLast) {
  Workspace workspace(invocation);
  const HostTensor &w = workspace.anyOperand(0, "w");
  std::vector<int64_t> dilations = invocation.attributes.integers("dilations");
  std::span<double> weights = workspace.widen<double>(w);
  workspace.require(size_t(w.rank()) == dilations.size() + 2, "w", "has not a window");
  if (!workspace.ok())
    return workspace.status();
  auto first = w.shape().begin() + (outputsLast ? 1 : 2);
  std::vector<int64_t> kernel(first, first + int64_t(dilations.size()));
  std::vector<int64_t> window = dilated(workspace, kernel, dilations);
  if (!workspace.ok())
    return workspace.status();
  FourierTile tile = tileOf(workspace, invocation, window);
  int64_t m = outputsLast ? w.shape().back() : w.shape()[0], c = w.shape()[outputsLast ? 0 : 1];
  int64_t group = groupOf(workspace, invocation, m);
  workspace.require(!pairs || c == 1, "w", "must have one channel to each of the output");
  Shape shape{tile.planes(kFourierThirds) * group, c, m / group};
  if (pairs)
    shape = {tile.numbers(), m};
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  int64_t across = kernel.back(), down = tile.isLine ? 1 : kernel[0];
  Spectrum spectrum(tile);
  std::vector<double> patch(size_t(tile.numbers()));
  for (int64_t out = 0; out < m; ++out)
    for (int64_t in = 0; in < c; ++in) {
      std::fill(patch.begin(), patch.end(), 0);
      for (int64_t i = 0; i < down; ++i)
        for (int64_t j = 0; j < across; ++j) {
          int64_t from = outputsLast ? ((in * down + i) * across + j) * m + out
                                     : ((out * c + in) * down + i) * across + j;
          patch[size_t(tile.place(tile.isLine ? 0 : i * dilations[0], j * dilations.back()))] =
              weights[size_t(from)] / double(tile.numbers());
        }
      spectrum.forward(patch);
      spectrum.forEach(pairs ? kFourierPairs : kFourierThirds, [&](double re, double sine,
                                                                   int64_t plane, bool isReal) {
        int64_t each = m / group, of = out / each;
        auto to = [&](int64_t part) -> double & {
          if (pairs)
            return y[size_t((plane + part) * m + out)];
          return y[size_t((((plane + part) * group + of) * c + in) * each + out % each)];
        };
        double im = -sine;
        to(0) = re;
        if (!isReal)
          to(1) = pairs ? im : im - re;
        if (!isReal && !pairs)
          to(2) = re + im;
      });
    }
  return workspace.finish(workspace.narrow<double>(y, w.type(), shape));
}

Outcome evaluateWeights(const Invocation &invocation) {
  return spectraOfWeights(invocation, invocation.attributes.integer("pairs") != 0, false);
}

Outcome evaluateChangingWeights(const Invocation &invocation) {
  return spectraOfWeights(invocation, false, true);
}

/// The layout of products [plane * group, tiles, channels / group], where image says how many
/// outputs there are.
Layout layoutOfProducts(Workspace &workspace, const Invocation &invocation,
                        const std::vector<int64_t> &window, const std::vector<int64_t> &outputs) {
  const HostTensor &x = workspace.anyOperand(0, "x", 3);
  Layout layout{tileOf(workspace, invocation, window)};
  bool fits = outputs.size() == window.size();
  for (int64_t size : outputs)
    fits = fits && size >= 1 && size <= kLargestExtent;
  if (!fits)
    workspace.rejectAttribute("window", "does not fit into the image");
  if (!workspace.ok())
    return layout;
  layout.group = invocation.attributes.integer("group", 1);
  workspace.require(layout.group >= 1 && layout.group <= kLargestExtent &&
                        x.shape()[0] == layout.tile.planes(kFourierThirds) * layout.group,
                    "x", "must have a plane for each number and group");
  layout.height = layout.tile.isLine ? 1 : outputs[0];
  layout.width = outputs.back();
  int64_t ofImage = layout.tile.tilesOf(outputs);
  workspace.require(x.shape()[1] % ofImage == 0, "x", "must have the tiles of whole images");
  layout.images = x.shape()[1] / ofImage;
  layout.channels = workspace.ok() ? x.shape()[2] * layout.group : 0;
  return layout;
}

using Patch = std::vector<double>;
using Thirds = std::array<double, kFourierThirds>;

/// visit(tile, channel, patch): the inverse transform of what the products of thirds stand for.
/// value(thirds): a frequency's real and imaginary part; a real one is its first product.
template <typename Value, typename Visit>
void forEachPatch(const Layout &layout, std::span<const double> products, Value value,
                  Visit visit) {
  Spectrum spectrum(layout.tile);
  Patch patch(size_t(layout.tile.numbers()));
  for (int64_t at = 0; at < layout.tiles(); ++at)
    for (int64_t channel = 0; channel < layout.channels; ++channel) {
      spectrum.forEach(kFourierThirds, [&](double &re, double &im, int64_t plane, bool isReal) {
        auto from = [&](int64_t part) {
          return products[size_t(layout.offset(plane + part, at, channel))];
        };
        std::tie(re, im) =
            isReal ? std::pair(from(0), 0.0) : value(Thirds{from(0), from(1), from(2)});
      });
      spectrum.inverse(patch);
      visit(at, channel, patch);
    }
}

Outcome evaluateOutput(const Invocation &invocation) {
  Workspace workspace(invocation);
  Layout layout = layoutOfProducts(workspace, invocation, invocation.attributes.integers("window"),
                                   invocation.attributes.integers("image"));
  if (!workspace.ok())
    return workspace.status();
  const HostTensor &x = invocation.operands[0];
  std::span<double> products = workspace.widen<double>(x);
  Image result{layout, biasOf(workspace, invocation, 1, layout.channels), {}};
  Shape shape = shapeOf(layout);
  result.y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  auto value = [](const Thirds &p) { return std::pair(p[0] - p[2], p[0] + p[1]); };
  forEachPatch(layout, products, value, [&](int64_t at, int64_t channel, const Patch &patch) {
    result.put(at, channel, patch);
  });
  return workspace.finish(workspace.narrow<double>(result.y, x.type(), shape));
}

Outcome evaluateImageGradient(const Invocation &invocation) {
  Workspace workspace(invocation);
  std::vector<int64_t> window = invocation.attributes.integers("window");
  std::vector<int64_t> image = invocation.attributes.integers("image"), outputs;
  std::vector<int64_t> pads = invocation.attributes.integers("pads");
  size_t dims = window.size();
  bool fits = pads.size() == 2 * dims && image.size() == dims;
  for (size_t dim = 0; fits && dim < dims; ++dim) {
    for (int64_t number : {pads[dim], pads[dim + dims], image[dim], window[dim]})
      fits = fits && number >= 0 && number <= kLargestExtent;
    outputs.push_back(image[dim] + pads[dim] + pads[dim + dims] - window[dim] + 1);
  }
  if (!fits)
    workspace.rejectAttribute("pads", "must be two for each dimension of the image");
  Layout layout = layoutOfProducts(workspace, invocation, window, outputs);
  if (!workspace.ok())
    return workspace.status();
  std::span<double> products = workspace.widen<double>(invocation.operands[0]);
  int64_t height = layout.tile.isLine ? 1 : image[0], width = image.back();
  Shape shape{layout.images};
  shape.insert(shape.end(), image.begin(), image.end());
  shape.push_back(layout.channels);
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  int64_t across = layout.tile.tilesAcross(outputs), down = layout.tile.tilesDown(outputs);
  auto value = [](const Thirds &p) { return std::pair(p[0] + p[1], p[0] + p[2]); };
  forEachPatch(layout, products, value, [&](int64_t at, int64_t channel, const Patch &patch) {
    int64_t left = at % across * layout.tile.across - pads[dims - 1];
    int64_t top = at / across % down * layout.tile.down - (dims == 2 ? pads[0] : 0);
    for (int64_t i = 0; i < layout.tile.height; ++i)
      for (int64_t j = 0; j < layout.tile.width; ++j) {
        int64_t row = top + i, column = left + j;
        if (row >= 0 && row < height && column >= 0 && column < width)
          y[size_t(((at / (across * down) * height + row) * width + column) * layout.channels +
                   channel)] += patch[size_t(layout.tile.place(i, j))];
      }
  });
  return workspace.finish(workspace.narrow<double>(y, invocation.operands[0].type(), shape));
}

Outcome evaluateWeightsGradient(const Invocation &invocation) {
  Workspace workspace(invocation);
  std::vector<int64_t> kernel = invocation.attributes.integers("kernel");
  std::vector<int64_t> dilations = invocation.attributes.integers("dilations");
  std::vector<int64_t> window = dilated(workspace, kernel, dilations);
  Layout layout =
      layoutOfProducts(workspace, invocation, window, std::vector<int64_t>(window.size(), 1));
  if (!workspace.ok())
    return workspace.status();
  std::span<double> products = workspace.widen<double>(invocation.operands[0]);
  Shape shape{layout.images};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  shape.push_back(layout.channels);
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  int64_t down = layout.tile.isLine ? 1 : kernel[0], across = kernel.back();
  auto value = [](const Thirds &p) { return std::pair(p[0] - p[1] + p[2], -p[1] - p[2]); };
  forEachPatch(layout, products, value, [&](int64_t at, int64_t channel, const Patch &patch) {
    for (int64_t i = 0; i < down; ++i)
      for (int64_t j = 0; j < across; ++j)
        y[size_t(((at * down + i) * across + j) * layout.channels + channel)] =
            patch[size_t(layout.tile.place(i * dilations[0], j * dilations.back()))] /
            double(layout.tile.numbers());
  });
  return workspace.finish(workspace.narrow<double>(y, invocation.operands[0].type(), shape));
}

Outcome evaluateConv(const Invocation &invocation) {
  Workspace workspace(invocation);
  Patches patches(workspace, invocation);
  const Layout &layout = patches.layout;
  const HostTensor &w = workspace.anyOperand(1, "w", 2);
  std::span<double> weights = workspace.widen<double>(w);
  if (workspace.ok())
    workspace.expectShape(w, "w", Shape{layout.tile.numbers(), layout.channels});
  Image result{layout, biasOf(workspace, invocation, 2, layout.channels), {}};
  if (!workspace.ok())
    return workspace.status();
  Shape shape = shapeOf(layout);
  result.y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  Spectrum spectrum(layout.tile);
  std::vector<double> patch(size_t(layout.tile.numbers()));
  for (int64_t at = 0; at < layout.tiles(); ++at)
    for (int64_t channel = 0; channel < layout.channels; ++channel) {
      patches.take(at, channel, patch);
      spectrum.forward(patch);
      spectrum.forEach(kFourierPairs, [&](double &re, double &im, int64_t plane, bool isReal) {
        double a = weights[size_t(plane * layout.channels + channel)];
        double b = isReal ? 0 : weights[size_t((plane + 1) * layout.channels + channel)];
        double real = re * a - im * b;
        im = re * b + im * a;
        re = real;
      });
      spectrum.inverse(patch);
      result.put(at, channel, patch);
    }
  const HostTensor &x = invocation.operands[0];
  return workspace.finish(workspace.narrow<double>(result.y, x.type(), shape));
}

constexpr Entry kEntries[] = {{"fourier_input", evaluateInput},
                              {"fourier_weights", evaluateWeights},
                              {"fourier_output", evaluateOutput},
                              {"fourier_conv", evaluateConv},
                              {"fourier_changing_weights", evaluateChangingWeights},
                              {"fourier_gradient", evaluateGradient},
                              {"fourier_image_gradient", evaluateImageGradient},
                              {"fourier_weights_gradient", evaluateWeightsGradient}};

} // namespace

std::span<const Entry> fourierEntries() { return kEntries; }

Result<std::vector<HostTensor>> evaluateAll(const Invocation &invocation) try {
  for (const Entry &entry : kEntries)
    if (entry.name == invocation.name)
      return entry.evaluate(invocation);
  return evaluate(invocation);
} catch (const std::bad_alloc &) {
  return Status(StatusCode::ResourceExhausted, std::string(invocation.name) + ": no memory");
}

} // namespace tensmith::reference
