// Angles of rotations; see Rotations.h.
#include "generation/Rotations.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numbers>

namespace tensmith::generation {
namespace {

/// A number for each pair, all above 0; none where the file has no such tensor.
std::vector<double> divisorsOf(const GgufFile &file, const char *name, int64_t pairs) {
  const GgufTensor *tensor = file.find(name);
  if (!tensor)
    return {};
  if (!tensor->format || tensor->format->plain != DataType::F32 ||
      tensor->bytes.size() != size_t(pairs) * 4)
    fail(file.name(), fmt::format("'{}' is not {} numbers of f32", name, pairs));
  std::vector<float> values(static_cast<size_t>(pairs));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  if (!std::ranges::all_of(values, [](float value) { return value > 0 && std::isfinite(value); }))
    fail(file.name(), fmt::format("'{}' has a divisor that is not above 0", name));
  return {values.begin(), values.end()};
}

struct Yarn {
  double factor, original, fast, slow;
};

/// The pair, a fraction, whose wave the original context holds so often.
double pairOf(const Architecture &a, const Yarn &yarn, double waves) {
  return double(a.rotated) * std::log(yarn.original / (waves * 2 * std::numbers::pi)) /
         (2 * std::log(a.rotationBase));
}

std::vector<double> divisorsOf(const Architecture &a, const Yarn &yarn) {
  double low = std::max(std::floor(pairOf(a, yarn, yarn.fast)), 0.0);
  double high = std::min(std::ceil(pairOf(a, yarn, yarn.slow)), double(a.rotated) - 1);
  std::vector<double> divisors;
  for (int64_t pair = 0; pair < a.rotated / 2; ++pair) {
    double slowness = std::clamp((double(pair) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
    divisors.push_back(1 / (slowness / yarn.factor + 1 - slowness));
  }
  return divisors;
}

void readYarn(Architecture &a, const GgufFile &file, const std::string &prefix) {
  Yarn yarn{file.real(prefix + "rope.scaling.factor", 0),
            double(file.integer(prefix + "rope.scaling.original_context_length", a.context)),
            file.real(prefix + "rope.scaling.yarn_beta_fast", 32),
            file.real(prefix + "rope.scaling.yarn_beta_slow", 1)};
  bool isGood = std::isfinite(yarn.factor) && yarn.factor >= 1 && yarn.original >= 1 &&
                yarn.slow > 0 && yarn.fast > yarn.slow && std::isfinite(yarn.fast) &&
                a.rotationBase > 1;
  if (!isGood)
    fail(file.name(), "scales rotations by yarn without a factor of at least 1, an original "
                      "context, a base above 1, and betas in order");
  a.frequencyFactors = divisorsOf(a, yarn);
  a.rotationMagnitude *= 1 + 0.1 * std::log(yarn.factor);
}

} // namespace

void readRotations(Architecture &a, const GgufFile &file, const std::string &prefix) {
  a.rotationBase = file.real(prefix + "rope.freq_base", 10000);
  a.rotationMagnitude = file.real(prefix + "rope.scaling.attn_factor", 1);
  if (!(a.rotationMagnitude > 0 && std::isfinite(a.rotationMagnitude)))
    fail(file.name(), "has a factor of attention that is not above 0");
  a.frequencyFactors = divisorsOf(file, "rope_freqs.weight", a.rotated / 2);
  std::string kind = file.text(prefix + "rope.scaling.type", "none");
  if (kind == "linear") {
    double factor = file.real(prefix + "rope.scaling.factor", 1);
    if (!(factor > 0) || !std::isfinite(factor))
      fail(file.name(), fmt::format("divides rotations by {}, which is not above 0", factor));
    a.rotationScale = 1 / factor;
  } else if (kind == "yarn")
    readYarn(a, file, prefix);
  else if (kind != "none" && kind != "longrope")
    fail(file.name(),
         "has rotations scaled by '" + kind + "'; none, linear, yarn and longrope are read");
  std::vector<double> shorter = divisorsOf(file, "rope_factors_short.weight", a.rotated / 2);
  a.longFactors = divisorsOf(file, "rope_factors_long.weight", a.rotated / 2);
  if (shorter.empty() != a.longFactors.empty() || (kind == "longrope" && shorter.empty()))
    fail(file.name(), "scales rotations by longrope, and has not both 'rope_factors_short.weight' "
                      "and 'rope_factors_long.weight'");
  if (!shorter.empty())
    a.frequencyFactors = std::move(shorter);
  a.originalContext = file.integer(prefix + "rope.scaling.original_context_length", a.context);
}

void chooseRotations(Architecture &a, int64_t context) {
  if (!a.longFactors.empty() && context > a.originalContext)
    a.frequencyFactors = a.longFactors;
}

void rotations(const Architecture &of, bool windowed, int64_t first, int64_t count, float *cosines,
               float *sines) {
  // A window with a base of its own is no longer than what the model was trained on: nothing there
  // is stretched.
  bool isPlain = windowed && of.windowBase;
  double base = isPlain ? of.windowBase : of.rotationBase;
  double scale = isPlain ? 1 : of.rotationScale, magnitude = isPlain ? 1 : of.rotationMagnitude;
  int64_t pairs = of.rotated / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    double frequency = std::pow(base, -2.0 * double(pair) / double(of.rotated)) * scale;
    if (!isPlain && !of.frequencyFactors.empty())
      frequency /= of.frequencyFactors[size_t(pair)];
    for (int64_t i = 0; i < count; ++i) {
      double angle = double(first + i) * frequency;
      cosines[i * pairs + pair] = float(std::cos(angle) * magnitude);
      sines[i * pairs + pair] = float(std::sin(angle) * magnitude);
    }
  }
}

} // namespace tensmith::generation
