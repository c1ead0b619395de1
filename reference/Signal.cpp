// Reference evaluation of windows and transforms of signals: dft, stft, window, mel_weight_matrix.
//
// The transform halves even lengths (Cooley and Tukey, 1965) and sums what is left directly; angles
// are taken from one table of the whole length's roots of unity, so that errors don't build up.
#include "reference/Workspace.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace tensmith::reference {

namespace {

using Complex = std::complex<double>;

// ---- dft
// ------------------------------------------------------------------------------------------------

/// Transforms of one length, forwards or backwards (not scaled).
class Transform {
public:
  Transform(Workspace &workspace, int64_t length, bool inverse)
      : length_(length), roots_(complexBuffer(workspace, length)),
        input_(complexBuffer(workspace, length)), output_(complexBuffer(workspace, length)),
        scratch_(complexBuffer(workspace, length)) {
    for (int64_t i = 0; i < int64_t(roots_.size()); ++i)
      roots_[size_t(i)] =
          std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * double(i) / double(length));
  }
  std::span<Complex> input() { return input_; }
  std::span<const Complex> run() {
    recurse(input_.data(), 1, output_.data(), scratch_.data(), length_);
    return output_;
  }

private:
  static std::span<Complex> complexBuffer(Workspace &workspace, int64_t length) {
    std::span<double> pairs = workspace.zeros<double>({length, 2});
    return {reinterpret_cast<Complex *>(pairs.data()), pairs.size() / 2};
  }

  void recurse(const Complex *x, int64_t stride, Complex *y, Complex *scratch, int64_t n) {
    if (n % 2 != 0 || n == 0)
      return sumDirectly(x, stride, y, n);
    const int64_t half = n / 2;
    recurse(x, 2 * stride, scratch, y, half);
    recurse(x + stride, 2 * stride, scratch + half, y + half, half);
    for (int64_t k = 0; k < half; ++k) {
      const Complex even = scratch[k];
      const Complex odd = scratch[half + k] * roots_[size_t(k * (length_ / n))];
      y[k] = even + odd;
      y[half + k] = even - odd;
    }
  }

  void sumDirectly(const Complex *x, int64_t stride, Complex *y, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
      Complex sum = 0;
      for (int64_t i = 0, turn = 0; i < n; ++i, turn = (turn + k) % n)
        sum += x[i * stride] * roots_[size_t(turn * (length_ / n))];
      y[k] = sum;
    }
  }

  int64_t length_;
  std::span<Complex> roots_, input_, output_, scratch_;
};

struct Dft {
  int64_t length = 0;      // of the transform
  int64_t in = 0, out = 0; // elements along the axis that are read and written
  int64_t inner = 1;       // complex elements between neighbours along the axis
  int64_t parts = 1;       // 1: real operand, 2: complex
  int64_t resultParts = 2;
  bool inverse = false, onesided = false;
};

/// Fills the transform's input from a line of the operand; the missing half of a one-sided spectrum
/// is the conjugate of the other.
void readLine(const Dft &dft, const double *x, std::span<Complex> line) {
  const int64_t available = dft.inverse && dft.onesided ? std::min(dft.in, dft.length / 2 + 1)
                                                        : std::min(dft.in, dft.length);
  std::ranges::fill(line, Complex());
  for (int64_t i = 0; i < available; ++i) {
    const double *at = x + i * dft.inner * dft.parts;
    line[size_t(i)] = Complex(at[0], dft.parts == 2 ? at[1] : 0);
  }
  if (dft.inverse && dft.onesided)
    for (int64_t i = dft.length / 2 + 1; i < dft.length; ++i)
      line[size_t(i)] = std::conj(line[size_t(dft.length - i)]);
}

void writeLine(const Dft &dft, std::span<const Complex> line, double *y) {
  const double scale = dft.inverse ? 1 / double(dft.length) : 1;
  for (int64_t i = 0; i < dft.out; ++i) {
    double *at = y + i * dft.inner * dft.resultParts;
    at[0] = line[size_t(i)].real() * scale;
    if (dft.resultParts == 2)
      at[1] = line[size_t(i)].imag() * scale;
  }
}

int64_t axisOf(Workspace &workspace, const Invocation &invocation, int64_t rank) {
  int64_t axis = invocation.present(2) ? workspace.integer(2, "axis") : -2;
  axis = axis < 0 ? axis + rank : axis;
  workspace.require(axis >= 0 && axis < rank - 1, "axis", "must name a dimension before the last");
  return axis;
}

Outcome evaluateDft(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.floatOperand(0, "x");
  workspace.require(x.rank() >= 2 && (x.shape().back() == 1 || x.shape().back() == 2), "x",
                    "must end in a dimension of 1 (real) or 2 (complex)");
  const int64_t axis = axisOf(workspace, invocation, x.rank());
  if (!workspace.ok())
    return workspace.status();
  Dft dft;
  dft.inverse = invocation.attributes.integer("inverse") != 0;
  dft.onesided = invocation.attributes.integer("onesided") != 0;
  dft.parts = x.shape().back();
  dft.resultParts = dft.inverse && dft.onesided ? 1 : 2;
  dft.in = x.shape()[size_t(axis)];
  dft.inner = extent(x.shape(), size_t(axis) + 1, x.shape().size() - 1);
  dft.length = invocation.present(1)         ? workspace.integer(1, "dft_length")
               : dft.inverse && dft.onesided ? 2 * (dft.in - 1)
                                             : dft.in;
  workspace.require(dft.length > 0 && dft.length <= kLargestExtent, "dft_length",
                    "must be positive, and so must what it defaults to");
  dft.out = dft.onesided && !dft.inverse ? dft.length / 2 + 1 : dft.length;
  Shape shape = x.shape();
  shape[size_t(axis)] = dft.out;
  shape.back() = dft.resultParts;
  std::span<double> values = workspace.widen<double>(x), y = workspace.zeros<double>(shape);
  if (!workspace.ok())
    return workspace.status();
  Transform transform(workspace, dft.length, dft.inverse);
  if (!workspace.ok())
    return workspace.status();
  const int64_t lines = int64_t(y.size()) / (dft.out * dft.resultParts);
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t outer = line / dft.inner, inner = line % dft.inner;
    readLine(dft, values.data() + (outer * dft.in * dft.inner + inner) * dft.parts,
             transform.input());
    writeLine(dft, transform.run(),
              y.data() + (outer * dft.out * dft.inner + inner) * dft.resultParts);
  }
  return workspace.finish(workspace.narrow<double>(y, x.type(), shape));
}

// ---- stft
// -----------------------------------------------------------------------------------------------

int64_t frameLength(Workspace &workspace, const Invocation &invocation, int64_t signal) {
  int64_t length = invocation.present(2) ? workspace.operand(2, "window").size() : signal;
  if (invocation.present(3))
    length = workspace.integer(3, "frame_length");
  workspace.require(length > 0 && length <= kLargestExtent, "frame_length", "must be positive");
  if (invocation.present(2) && workspace.ok())
    workspace.expectShape(workspace.floatOperand(2, "window"), "window", Shape{length});
  return length;
}

Outcome evaluateStft(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &signal = workspace.floatOperand(0, "signal", 3);
  workspace.require(signal.rank() == 3 && (signal.shape()[2] == 1 || signal.shape()[2] == 2),
                    "signal", "must end in a dimension of 1 (real) or 2 (complex)");
  const int64_t hop = workspace.integer(1, "frame_step");
  workspace.require(hop > 0, "frame_step", "must be positive");
  if (!workspace.ok())
    return workspace.status();
  const int64_t batch = signal.shape()[0], samples = signal.shape()[1], parts = signal.shape()[2];
  const int64_t length = frameLength(workspace, invocation, samples);
  workspace.require(length <= samples, "signal", "is shorter than a frame");
  if (!workspace.ok())
    return workspace.status();
  const int64_t frames = (samples - length) / hop + 1;
  const int64_t bins = invocation.attributes.integer("onesided", 1) ? length / 2 + 1 : length;
  const Shape shape{batch, frames, bins, 2};
  std::span<double> x = workspace.widen<double>(signal), y = workspace.zeros<double>(shape), window;
  if (workspace.ok() && invocation.present(2))
    window = workspace.widen<double>(invocation.operands[2]);
  if (!workspace.ok())
    return workspace.status();
  Transform transform(workspace, length, false);
  if (!workspace.ok())
    return workspace.status();
  double *next = y.data();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t frame = 0; frame < frames; ++frame) {
      for (int64_t i = 0; i < length; ++i) {
        const double *at = x.data() + (b * samples + frame * hop + i) * parts;
        const double weight = window.empty() ? 1 : window[size_t(i)];
        transform.input()[size_t(i)] = Complex(at[0], parts == 2 ? at[1] : 0) * weight;
      }
      std::span<const Complex> spectrum = transform.run();
      for (int64_t i = 0; i < bins; ++i) {
        *next++ = spectrum[size_t(i)].real();
        *next++ = spectrum[size_t(i)].imag();
      }
    }
  return workspace.finish(workspace.narrow<double>(y, signal.type(), shape));
}

// ---- window, mel_weight_matrix
// --------------------------------------------------------------------------

DataType resultType(Workspace &workspace, const Invocation &invocation) {
  const int64_t number = invocation.attributes.integer("to", int64_t(DataType::F32));
  const DataType type = dataTypeFromOnnx(number).value_or(DataType::Undefined);
  if (!isFloat(type) && !isInteger(type))
    workspace.rejectAttribute("to", "must be a type of numbers");
  return type;
}

double windowAt(const std::string &kind, double turn) {
  const double angle = 2 * std::numbers::pi * turn;
  if (kind == "hann")
    return 0.5 - 0.5 * std::cos(angle);
  if (kind == "hamming")
    return 25.0 / 46 - 21.0 / 46 * std::cos(angle);
  return 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle);
}

Outcome evaluateWindow(const Invocation &invocation) {
  Workspace workspace(invocation);
  const int64_t size = workspace.integer(0, "size");
  const std::string kind = invocation.attributes.string("kind");
  const DataType type = resultType(workspace, invocation);
  if (kind != "hann" && kind != "hamming" && kind != "blackman")
    workspace.rejectAttribute("kind", "is '" + kind + "', but must be hann, hamming or blackman");
  workspace.require(size >= 0, "size", "is negative");
  std::span<double> y = workspace.zeros<double>({size});
  const bool periodic = invocation.attributes.integer("periodic", 1) != 0;
  const double period = double(periodic ? size : size - 1);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = period > 0 ? windowAt(kind, double(i) / period) : 1;
  return workspace.finish(workspace.narrow<double>(y, type, {size}));
}

/// Mel band edges as bins of the spectrum: `bands` + 2 of them.
std::vector<int64_t> bandEdges(Workspace &workspace, int64_t bands, int64_t dftLength,
                               int64_t sampleRate, double low, double high) {
  auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  const double step = (mel(high) - mel(low)) / double(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * std::expm1((mel(low) + double(i) * step) / 2595 * std::log(10.0));
    const double bin = std::floor(double(dftLength + 1) * hertz / double(sampleRate));
    if (!(bin >= 0 && bin <= double(dftLength / 2))) {
      workspace.reject("upper_edge_hertz", "or 'lower_edge_hertz' lies outside of the spectrum");
      return edges;
    }
    edges.push_back(int64_t(bin));
  }
  return edges;
}

Outcome evaluateMelWeightMatrix(const Invocation &invocation) {
  Workspace workspace(invocation);
  const int64_t bands = workspace.integer(0, "num_mel_bins");
  const int64_t length = workspace.integer(1, "dft_length");
  const int64_t rate = workspace.integer(2, "sample_rate");
  const double low = workspace.real(3, "lower_edge_hertz");
  const double high = workspace.real(4, "upper_edge_hertz");
  const DataType type = resultType(workspace, invocation);
  constexpr int64_t kMostBands = 1 << 20;
  workspace.require(bands >= 0 && bands <= kMostBands, "num_mel_bins", "is out of range");
  workspace.require(length > 0 && length <= kLargestExtent, "dft_length", "is out of range");
  workspace.require(rate > 0, "sample_rate", "must be positive");
  if (!workspace.ok())
    return workspace.status();
  const Shape shape{length / 2 + 1, bands};
  const std::vector<int64_t> edges = bandEdges(workspace, bands, length, rate, low, high);
  std::span<double> y = workspace.zeros<double>(shape);
  for (int64_t band = 0; workspace.ok() && band < bands; ++band) {
    const int64_t left = edges[size_t(band)], centre = edges[size_t(band + 1)];
    const int64_t right = edges[size_t(band + 2)];
    auto at = [&](int64_t bin) -> double & { return y[size_t(bin * bands + band)]; };
    if (left == centre)
      at(centre) = 1;
    for (int64_t bin = left; left != centre && bin <= centre; ++bin)
      at(bin) = double(bin - left) / double(centre - left);
    for (int64_t bin = centre; bin < right; ++bin)
      at(bin) = double(right - bin) / double(right - centre);
  }
  return workspace.finish(workspace.narrow<double>(y, type, shape));
}

constexpr Entry kEntries[] = {{"dft", evaluateDft},
                              {"stft", evaluateStft},
                              {"window", evaluateWindow},
                              {"mel_weight_matrix", evaluateMelWeightMatrix}};

} // namespace

std::span<const Entry> signalEntries() { return kEntries; }

} // namespace tensmith::reference
