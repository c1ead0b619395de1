// Reference evaluation of the three parts of a Winograd convolution, on channels-last images:
// patches of the input, weights and products are carried into and out of the domain in which a
// convolution is a product for each of size * size frequencies (base/ToomCook.h). Of integers with
// the matrices of whole numbers, whose factor comes off at the end.
#include "base/ToomCook.h"
#include "reference/Workspace.h"

#include <cmath>

namespace tensmith::reference {
namespace {

ToomCook matricesOf(Workspace &workspace, const Invocation &invocation, DataType type) {
  int64_t outputs = invocation.attributes.integer("outputs");
  int64_t taps = invocation.attributes.integer("taps");
  if (!isFloat(type) && hasWholeToomCook(outputs, taps))
    return wholeToomCook(outputs, taps);
  if (isFloat(type) && hasToomCook(outputs, taps))
    return toomCook(outputs, taps);
  workspace.rejectAttribute("outputs", "is not a size that has a transform");
  return {};
}

/// matrix [rows, columns] * x * transposed matrix, x [columns, columns] with the strides
/// `step * columns` and `step`; into y, dense.
void sandwich(const std::vector<double> &matrix, int64_t rows, int64_t columns, const double *x,
              int64_t step, double *y) {
  std::vector<double> half(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t k = 0; k < columns; ++k)
        half[size_t(i * columns + j)] +=
            matrix[size_t(i * columns + k)] * x[(k * columns + j) * step];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < rows; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < columns; ++k)
        sum += half[size_t(i * columns + k)] * matrix[size_t(j * columns + k)];
      y[i * rows + j] = sum;
    }
}

/// Of a number times factor^2 that may have wrapped around 2^32, the number.
double unscaled(double value, const Unscaling &off) {
  constexpr double kWrap = 4294967296;
  uint32_t low = uint32_t(int64_t(std::fmod(value, kWrap)));
  return double(int32_t(low * off.inverse) >> off.twos);
}

/// Tiles of `outputs` along each dimension of an image of `height` x `width` outputs.
struct Tiles {
  int64_t height, width, outputs;
  int64_t down() const { return (height + outputs - 1) / outputs; }
  int64_t across() const { return (width + outputs - 1) / outputs; }
};

Outcome evaluateInput(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x", 4);
  ToomCook matrices = matricesOf(workspace, invocation, x.type());
  std::vector<int64_t> pads = invocation.attributes.integers("pads");
  if (pads.size() != 4)
    workspace.rejectAttribute("pads", "must be four");
  std::span<double> image = workspace.widen<double>(x);
  if (!workspace.ok())
    return workspace.status();
  int64_t n = x.shape()[0], h = x.shape()[1], w = x.shape()[2], c = x.shape()[3];
  Tiles tiles{h + pads[0] + pads[2] - matrices.taps + 1, w + pads[1] + pads[3] - matrices.taps + 1,
              matrices.outputs};
  workspace.require(tiles.height >= 0 && tiles.width >= 0, "x",
                    "has no outputs, but less than none");
  if (!workspace.ok())
    return workspace.status();
  int64_t size = matrices.size, count = n * tiles.down() * tiles.across();
  Shape shape{size * size, count, c};
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  std::vector<double> patch(size_t(size * size)), turned(size_t(size * size));
  for (int64_t tile = 0; tile < count; ++tile) {
    int64_t column = tile % tiles.across(), row = tile / tiles.across() % tiles.down();
    int64_t top = row * tiles.outputs - pads[0], left = column * tiles.outputs - pads[1];
    const double *from = image.data() + tile / (tiles.across() * tiles.down()) * h * w * c;
    for (int64_t channel = 0; channel < c; ++channel) {
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j) {
          bool inside = top + i >= 0 && top + i < h && left + j >= 0 && left + j < w;
          patch[size_t(i * size + j)] = inside ? from[((top + i) * w + left + j) * c + channel] : 0;
        }
      sandwich(matrices.input, size, size, patch.data(), 1, turned.data());
      for (int64_t k = 0; k < size * size; ++k)
        y[size_t((k * count + tile) * c + channel)] = turned[size_t(k)];
    }
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

Outcome evaluateWeights(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &w = workspace.anyOperand(0, "w", 4);
  ToomCook matrices = matricesOf(workspace, invocation, w.type());
  std::span<double> weights = workspace.widen<double>(w);
  if (workspace.ok())
    workspace.expectShape(w, "w", Shape{w.shape()[0], w.shape()[1], matrices.taps, matrices.taps});
  if (!workspace.ok())
    return workspace.status();
  int64_t m = w.shape()[0], c = w.shape()[1], taps = matrices.taps;
  int64_t frequencies = matrices.size * matrices.size;
  Shape shape{frequencies, c, m};
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  std::vector<double> turned(size_t(frequencies), 0);
  for (int64_t out = 0; out < m; ++out)
    for (int64_t in = 0; in < c; ++in) {
      sandwich(matrices.weights, matrices.size, taps, weights.data() + (out * c + in) * taps * taps,
               1, turned.data());
      for (int64_t k = 0; k < frequencies; ++k)
        y[size_t((k * c + in) * m + out)] = turned[size_t(k)];
    }
  return workspace.finish(workspace.narrow<double>(y, w.type(), shape));
}

Outcome evaluateOutput(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x", 3);
  ToomCook matrices = matricesOf(workspace, invocation, x.type());
  std::vector<int64_t> image = invocation.attributes.integers("image");
  // Of an image whose size only the run knows it is the result's.
  const std::optional<Shape> known =
      invocation.results.empty() ? std::nullopt : invocation.results[0].shape;
  bool isKnown = known && known->size() == 4;
  for (size_t dim = 0; dim < image.size(); ++dim) {
    if (image[dim] == 0 || (image[dim] < 0 && !isKnown))
      workspace.rejectAttribute("image", "must be a height and a width");
    image[dim] = image[dim] < 0 && isKnown ? (*known)[1 + dim] : image[dim];
  }
  if (image.size() != 2)
    workspace.rejectAttribute("image", "must be a height and a width");
  std::span<double> products = workspace.widen<double>(x);
  std::span<double> bias;
  if (invocation.present(1))
    bias = workspace.widen<double>(workspace.floatOperand(1, "bias", 1));
  if (!workspace.ok())
    return workspace.status();
  Tiles tiles{image[0], image[1], matrices.outputs};
  int64_t size = matrices.size, count = x.shape()[1], m = x.shape()[2];
  int64_t ofImage = tiles.down() * tiles.across();
  workspace.require(x.shape()[0] == size * size, "x", "must have a plane for each frequency");
  workspace.require(ofImage ? count % ofImage == 0 : count == 0, "x",
                    "must have the tiles of whole images");
  workspace.require(bias.empty() || int64_t(bias.size()) == m, "bias",
                    "must have one for each channel");
  // Images without a tile are as many as the result has.
  Shape shape{ofImage ? count / ofImage : (*known)[0], image[0], image[1], m};
  std::span<double> y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  std::vector<double> turned(size_t(tiles.outputs * tiles.outputs));
  const Unscaling off = unscaling(matrices.factor);
  for (int64_t tile = 0; tile < count; ++tile) {
    int64_t top = tile / tiles.across() % tiles.down() * tiles.outputs;
    int64_t left = tile % tiles.across() * tiles.outputs;
    double *to = y.data() + tile / ofImage * image[0] * image[1] * m;
    for (int64_t channel = 0; channel < m; ++channel) {
      sandwich(matrices.output, tiles.outputs, size, products.data() + tile * m + channel,
               count * m, turned.data());
      if (!isFloat(x.type()))
        for (double &value : turned)
          value = unscaled(value, off);
      for (int64_t i = 0; i < std::min(tiles.outputs, image[0] - top); ++i)
        for (int64_t j = 0; j < std::min(tiles.outputs, image[1] - left); ++j)
          to[((top + i) * image[1] + left + j) * m + channel] =
              turned[size_t(i * tiles.outputs + j)] + (bias.empty() ? 0 : bias[size_t(channel)]);
    }
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

constexpr Entry kEntries[] = {{"winograd_input", evaluateInput},
                              {"winograd_weights", evaluateWeights},
                              {"winograd_output", evaluateOutput}};

} // namespace

std::span<const Entry> winogradEntries() { return kEntries; }

} // namespace tensmith::reference
