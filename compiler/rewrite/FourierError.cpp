// Tiles of random pixels through the transforms in f32, in the order of the kernels, against plain
// sums in f64. See RoundingError.h.
#include "compiler/rewrite/RoundingError.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::rewrite {
namespace {

constexpr uint64_t kSeed = 1965;
constexpr int64_t kMostOutputs = 4, kMostPixels = 64; // that are looked at

template <typename T> struct Numeric {
  using Number = T;
  T add(T a, T b) const { return a + b; }
  T sub(T a, T b) const { return a - b; }
  T negate(T a) const { return -a; }
  T scale(double factor, T a) const { return T(factor) * a; }
  T scaleAdd(double factor, T a, T b) const { return std::fma(T(factor), a, b); }
};

/// The frequencies of a tile that are kept, column by column.
template <typename T> struct Frequencies {
  std::vector<T> re, im;
};

template <typename T> class TileTransform {
public:
  explicit TileTransform(const FourierTile &tile) : tile_(tile) {}

  Frequencies<T> forward(const std::vector<T> &pixels) {
    std::vector<typename Transform::Complexes> rows;
    for (int64_t row = 0; row < tile_.rows; ++row) {
      auto first = pixels.begin() + row * tile_.columns;
      rows.push_back(transform_.forward({first, first + tile_.columns}));
    }
    Frequencies<T> result;
    for (int64_t column = 0; column < tile_.halfColumns(); ++column)
      for (const auto &number : ofColumn(rows, size_t(column))) {
        result.re.push_back(number.re);
        result.im.push_back(number.im.value_or(0));
      }
    return result;
  }

  std::vector<T> inverse(const Frequencies<T> &frequencies) {
    std::vector<typename Transform::Complexes> rows(
        size_t(tile_.rows), typename Transform::Complexes(size_t(tile_.halfColumns())));
    size_t at = 0;
    for (int64_t column = 0; column < tile_.halfColumns(); ++column) {
      typename Transform::Complexes kept;
      for (int64_t row = 0; row < tile_.keptRows(column); ++row, ++at)
        kept.push_back({frequencies.re[at],
                        tile_.isReal(row, column) ? std::optional<T>() : frequencies.im[at]});
      bool isReal = tile_.isRealColumn(column);
      std::vector<T> reals;
      if (isReal)
        reals = transform_.inverse(kept, tile_.rows);
      else
        kept = transform_.transform(kept, 1);
      for (size_t row = 0; row < rows.size(); ++row)
        rows[row][size_t(column)] =
            isReal ? typename Transform::Complex{reals[row], {}} : kept[row];
    }
    std::vector<T> pixels;
    for (const auto &row : rows)
      for (T pixel : transform_.inverse(row, tile_.columns))
        pixels.push_back(pixel);
    return pixels;
  }

private:
  using Transform = Fourier<Numeric<T>>;

  typename Transform::Complexes ofColumn(const std::vector<typename Transform::Complexes> &rows,
                                         size_t column) {
    typename Transform::Numbers reals;
    typename Transform::Complexes numbers;
    for (const auto &row : rows) {
      reals.push_back(row[column].re);
      numbers.push_back(row[column]);
    }
    return tile_.isRealColumn(int64_t(column)) ? transform_.forward(reals)
                                               : transform_.transform(numbers, -1);
  }

  const FourierTile &tile_;
  Transform transform_;
};

/// A layer whose weights are looked at, on random pixels of one tile.
class Trial {
public:
  Trial(const HostTensor &weights, const FourierTile &tile, std::span<const int64_t> dilations,
        const InputMoments &moments)
      : tile_(tile), moments_(moments), channels_(weights.shape()[1]),
        across_(weights.shape().back()), down_(tile.isLine ? 1 : weights.shape()[2]),
        stepDown_(tile.isLine ? 1 : dilations[0]), stepAcross_(dilations.back()),
        weights_(weights.as<float>()), narrow_(tile), wide_(tile) {}

  /// Before outputs of the group are added: its channels of the input.
  void draw(int64_t group) {
    spectra_.clear();
    pixels_.clear();
    for (int64_t channel = 0; channel < channels_; ++channel) {
      std::vector<float> pixels;
      for (int64_t at = 0; at < tile_.numbers(); ++at)
        pixels.push_back(moments_.drawn(group * channels_ + channel, kSeed,
                                        uint64_t(channel * tile_.numbers() + at)));
      spectra_.push_back(narrow_.forward(pixels));
      pixels_.push_back(std::move(pixels));
    }
  }

  /// The largest difference of an output channel, and the largest output.
  void add(int64_t output, bool byElement, double &error, double &largest) {
    std::vector<float> found = narrow_.inverse(byElement ? product(output) : sums(output));
    int64_t step = std::max<int64_t>(tile_.down * tile_.across / kMostPixels, 1);
    for (int64_t at = 0; at < tile_.down * tile_.across; at += step) {
      int64_t i = at / tile_.across, j = at % tile_.across;
      double right = plain(output, i, j), pixel = found[size_t(tile_.place(i, j))];
      double difference = std::abs(pixel - right);
      error = std::max(error, std::isfinite(difference) ? difference : kInfinity);
      largest = std::max(largest, std::abs(right));
    }
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

private:
  double weight(int64_t output, int64_t channel, int64_t i, int64_t j) const {
    return weights_[size_t(((output * channels_ + channel) * down_ + i) * across_ + j)];
  }

  /// Conjugated and scaled; rounded where they are used.
  Frequencies<double> spectrum(int64_t output, int64_t channel) {
    std::vector<double> taps(size_t(tile_.numbers()), 0.0);
    for (int64_t i = 0; i < down_; ++i)
      for (int64_t j = 0; j < across_; ++j)
        taps[size_t(tile_.place(i * stepDown_, j * stepAcross_))] =
            weight(output, channel, i, j) / double(tile_.numbers());
    Frequencies<double> made = wide_.forward(taps);
    for (double &im : made.im)
      im = -im;
    return made;
  }

  Frequencies<float> product(int64_t output) {
    Frequencies<double> w = spectrum(output, 0);
    Frequencies<float> made = spectra_[0];
    for (size_t k = 0; k < w.re.size(); ++k) {
      float a = made.re[k], b = made.im[k], c = float(w.re[k]), d = float(w.im[k]);
      made.re[k] = std::fma(a, c, -(b * d));
      made.im[k] = std::fma(a, d, b * c);
    }
    return made;
  }

  /// By Gauss's three products, each summed up over the channels.
  Frequencies<float> sums(int64_t output) {
    size_t count = spectra_[0].re.size();
    std::vector<float> p0(count), p1(count), p2(count);
    for (int64_t channel = 0; channel < channels_; ++channel) {
      Frequencies<double> w = spectrum(output, channel);
      const Frequencies<float> &x = spectra_[size_t(channel)];
      for (size_t k = 0; k < count; ++k) {
        p0[k] = std::fma(x.re[k] + x.im[k], float(w.re[k]), p0[k]);
        p1[k] = std::fma(x.re[k], float(w.im[k] - w.re[k]), p1[k]);
        p2[k] = std::fma(x.im[k], float(w.re[k] + w.im[k]), p2[k]);
      }
    }
    Frequencies<float> made{p0, p0};
    for (size_t k = 0; k < count; ++k) {
      made.re[k] -= p2[k];
      made.im[k] += p1[k];
    }
    return made;
  }

  double plain(int64_t output, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t channel = 0; channel < channels_; ++channel)
      for (int64_t u = 0; u < down_; ++u)
        for (int64_t v = 0; v < across_; ++v)
          sum +=
              weight(output, channel, u, v) *
              pixels_[size_t(channel)][size_t(tile_.place(i + u * stepDown_, j + v * stepAcross_))];
    return sum;
  }

  const FourierTile &tile_;
  const InputMoments &moments_;
  int64_t channels_, across_, down_, stepDown_, stepAcross_;
  std::span<const float> weights_;
  TileTransform<float> narrow_;
  TileTransform<double> wide_;
  std::vector<std::vector<float>> pixels_; // by channel
  std::vector<Frequencies<float>> spectra_;
};

} // namespace

double errorOfFourier(const HostTensor &weights, const FourierTile &tile,
                      std::span<const int64_t> dilations, bool depthwise,
                      const InputMoments &moments) {
  Trial trial(weights, tile, dilations, moments);
  int64_t outputs = weights.shape()[0], channels = std::max<int64_t>(weights.shape()[1], 1);
  int64_t groups = std::max<int64_t>(moments.channels() / channels, 1), drawn = -1;
  int64_t step = std::max<int64_t>((outputs + kMostOutputs - 1) / kMostOutputs, 1);
  double error = 0, largest = 0;
  for (int64_t output = 0; output < outputs; output += step) {
    if (int64_t group = output * groups / outputs; group != drawn)
      trial.draw(drawn = group);
    trial.add(output, depthwise, error, largest);
  }
  bool allFinite =
      std::ranges::all_of(weights.as<float>(), [](float w) { return std::isfinite(w); });
  if (!allFinite)
    return Trial::kInfinity;
  return error == 0 || error == Trial::kInfinity ? error : error / largest;
}

} // namespace tensmith::rewrite
