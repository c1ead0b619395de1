// Transforms and sums of them in f32, in the order of the kernels, against plain sums in f64; of
// operands in bf16 the sums are f64 too, since what counts is their rounding. See RoundingError.h.
#include "compiler/rewrite/RoundingError.h"

#include "base/Float.h"
#include "base/Philox.h"
#include "base/ToomCook.h"

#include "mlir/IR/Builders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// An attribute of a layer: its channels' means, and behind them their deviations.
constexpr char kInputMoments[] = "graph.input_moments";

constexpr uint64_t kSeed = 2015;
constexpr int64_t kTiles = 4, kRows = 4;
constexpr int64_t kMostOutputs = 48; // channels or columns that are looked at

/// out = left * in * left^T, square: [to, to] of [from, from].
template <typename T>
std::vector<T> sandwiched(const std::vector<double> &left, int64_t to, int64_t from, const T *in) {
  std::vector<T> half(size_t(to * from)), out(size_t(to * to));
  for (int64_t i = 0; i < to; ++i)
    for (int64_t j = 0; j < from; ++j)
      for (int64_t k = 0; k < from; ++k)
        half[size_t(i * from + j)] += T(left[size_t(i * from + k)]) * in[k * from + j];
  for (int64_t i = 0; i < to; ++i)
    for (int64_t j = 0; j < to; ++j)
      for (int64_t k = 0; k < from; ++k)
        out[size_t(i * to + j)] += half[size_t(i * from + k)] * T(left[size_t(j * from + k)]);
  return out;
}

/// Largest difference and largest value.
struct Distance {
  double error = 0, largest = 0;
  void add(double found, double right) {
    double difference = std::abs(found - right);
    error = std::max(error, std::isnan(difference) ? kInfinity : difference);
    largest = std::max(largest, std::abs(right));
  }
  double relative() const { return error == 0 || error == kInfinity ? error : error / largest; }
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
};

float toBfloat(float value) {
  const FloatFormat &format = *floatFormat(DataType::BF16);
  return float(decode(format, encode(format, value, /*saturate=*/false)));
}

} // namespace

float InputMoments::drawn(int64_t channel, uint64_t seed, uint64_t index) const {
  double normal = normalAt(seed, index);
  return float(means.empty() ? normal
                             : means[size_t(channel)] + deviations[size_t(channel)] * normal);
}

InputMoments inputMoments(Operation *layer) {
  auto kept = layer->getAttrOfType<DenseF64ArrayAttr>(kInputMoments);
  if (!kept)
    return {};
  ArrayRef<double> numbers = kept;
  size_t channels = numbers.size() / 2;
  return {numbers.take_front(channels).vec(), numbers.drop_front(channels).vec()};
}

void setInputMoments(Operation *layer, const InputMoments &moments) {
  SmallVector<double> numbers(moments.means.begin(), moments.means.end());
  llvm::append_range(numbers, moments.deviations);
  layer->setAttr(kInputMoments, Builder(layer).getDenseF64ArrayAttr(numbers));
}

void dropInputMoments(Operation *layer) { layer->removeAttr(kInputMoments); }

double errorOfWinograd(const HostTensor &weights, int64_t outputs, const InputMoments &moments) {
  ToomCook tile = toomCook(outputs, weights.shape().back());
  int64_t taps = tile.taps, size = tile.size, planes = size * size, filter = taps * taps;
  int64_t channels = weights.size() / std::max<int64_t>(weights.shape()[0] * filter, 1);
  int64_t frames = channels / std::max<int64_t>(weights.shape()[1], 1); // of each channel
  auto kernels = weights.as<float>();
  int64_t step = (weights.shape()[0] + kMostOutputs - 1) / kMostOutputs;
  std::vector<float> image(size_t(kTiles * channels * planes)), turned(image.size());
  for (int64_t t = 0; t < kTiles * channels; ++t) {
    float *own = image.data() + t * planes;
    for (int64_t i = 0; i < planes; ++i)
      own[i] = moments.drawn(t % channels / frames, kSeed, uint64_t(t * planes + i));
    std::ranges::copy(sandwiched(tile.input, size, size, own), turned.begin() + t * planes);
  }
  Distance distance;
  std::vector<float> sums(size_t(kTiles * planes));
  for (int64_t m = 0; m < weights.shape()[0]; m += step) {
    std::ranges::fill(sums, 0.0f);
    for (int64_t c = 0; c < channels; ++c) {
      std::vector<double> kernel(size_t(filter), 0.0);
      for (int64_t i = 0; i < filter; ++i)
        kernel[size_t(i)] = kernels[size_t((m * channels + c) * filter + i)];
      std::vector<double> u = sandwiched(tile.weights, size, taps, kernel.data());
      for (int64_t t = 0; t < kTiles; ++t)
        for (int64_t p = 0; p < planes; ++p) {
          float &sum = sums[size_t(t * planes + p)];
          sum = std::fma(turned[size_t((t * channels + c) * planes + p)], float(u[size_t(p)]), sum);
        }
    }
    for (int64_t t = 0; t < kTiles; ++t) {
      auto found = sandwiched(tile.output, outputs, size, sums.data() + t * planes);
      for (int64_t y = 0; y < outputs; ++y)
        for (int64_t x = 0; x < outputs; ++x) {
          double right = 0;
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t i = 0; i < taps; ++i)
              for (int64_t j = 0; j < taps; ++j)
                right += double(kernels[size_t(((m * channels + c) * taps + i) * taps + j)]) *
                         image[size_t((t * channels + c) * planes + (y + i) * size + x + j)];
          distance.add(found[size_t(y * outputs + x)], right);
        }
    }
  }
  return distance.relative();
}

double errorOfStrassen(const HostTensor &weights, const InputMoments &moments) {
  int64_t depth = weights.shape()[0], columns = weights.shape()[1], half = (depth + 1) / 2;
  auto numbers = weights.as<float>();
  int64_t pairs = columns / 2, step = std::max<int64_t>(2 * pairs / kMostOutputs, 1);
  // Two rows, of which one stands in each half of the matrix, and what they are added up to.
  auto row = [&](int64_t i, int64_t k) {
    return k < depth ? moments.drawn(k, kSeed, uint64_t(i * depth + k)) : 0.0F;
  };
  auto weight = [&](int64_t k, int64_t column) {
    return k < depth ? numbers[size_t(k * columns + column)] : 0.0F;
  };
  Distance distance;
  for (int64_t pair = 0; pair < pairs; pair += step) {
    int64_t left = pair, right = pair + (columns + 1) / 2;
    std::array<float, 7> p{};
    std::array<double, 4> plain{};
    for (int64_t k = 0; k < half; ++k) {
      float a11 = row(0, k), a12 = row(0, k + half), a21 = row(1, k), a22 = row(1, k + half);
      float b11 = weight(k, left), b12 = weight(k, right);
      float b21 = weight(k + half, left), b22 = weight(k + half, right);
      float s1 = a21 + a22, s2 = s1 - a11, t1 = b12 - b11, t2 = b22 - t1;
      std::array<float, 7> a{a11, a12, a12 - s2, a22, s1, s2, a11 - a21};
      std::array<float, 7> b{b11, b21, b22, t2 - b21, t1, t2, b22 - b12};
      for (size_t i = 0; i < p.size(); ++i)
        p[i] += a[i] * b[i];
      plain[0] += double(a11) * b11 + double(a12) * b21;
      plain[1] += double(a11) * b12 + double(a12) * b22;
      plain[2] += double(a21) * b11 + double(a22) * b21;
      plain[3] += double(a21) * b12 + double(a22) * b22;
    }
    float u2 = p[0] + p[5], u3 = u2 + p[6];
    distance.add(p[0] + p[1], plain[0]);
    distance.add(u2 + p[4] + p[2], plain[1]);
    distance.add(u3 - p[3], plain[2]);
    distance.add(u3 + p[4], plain[3]);
  }
  return distance.relative();
}

double errorOfBfloat(const HostTensor &weights, bool outputsFirst, bool roundsWeights,
                     bool roundsRows, const InputMoments &moments) {
  int64_t outputs = weights.shape()[outputsFirst ? 0 : size_t(weights.rank() - 1)];
  int64_t inputs = weights.size() / std::max<int64_t>(outputs, 1);
  auto numbers = weights.as<float>();
  int64_t step = std::max<int64_t>((outputs + kMostOutputs - 1) / kMostOutputs, 1);
  Distance distance;
  // Of a convolution's inputs each channel has its taps; a group of outputs has channels of its
  // own.
  int64_t channels = outputsFirst ? weights.shape()[1] : inputs;
  int64_t taps = inputs / std::max<int64_t>(channels, 1);
  int64_t groups = std::max<int64_t>(moments.channels() / std::max<int64_t>(channels, 1), 1);
  std::vector<float> rows(size_t(kRows * inputs)), roundedRows(rows.size());
  auto draw = [&](int64_t group) {
    for (int64_t i = 0; i < kRows * inputs; ++i) {
      float number = moments.drawn(group * channels + i % inputs / taps, kSeed, uint64_t(i));
      rows[size_t(i)] = number;
      roundedRows[size_t(i)] = roundsRows ? toBfloat(number) : number;
    }
  };
  int64_t drawn = -1;
  for (int64_t output = 0; output < outputs; output += step) {
    if (int64_t group = output * groups / outputs; group != drawn)
      draw(drawn = group);
    std::array<double, kRows> found{}, right{};
    for (int64_t i = 0; i < inputs; ++i) {
      float weight = numbers[size_t(outputsFirst ? output * inputs + i : i * outputs + output)];
      float rounded = roundsWeights ? toBfloat(weight) : weight;
      for (int64_t row = 0; row < kRows; ++row) {
        right[size_t(row)] += double(rows[size_t(row * inputs + i)]) * weight;
        found[size_t(row)] += double(roundedRows[size_t(row * inputs + i)]) * rounded;
      }
    }
    for (int64_t row = 0; row < kRows; ++row)
      distance.add(found[size_t(row)], right[size_t(row)]);
  }
  return distance.relative();
}

} // namespace tensmith::rewrite
