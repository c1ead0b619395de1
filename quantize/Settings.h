// What a user asks of the quantiser, as JSON: the command line, TOML files and Python's dicts all
// become that.
//
//   {"weights": 8, "activations": {"bits": 8, "type": "uint"}, "rounding": "gptq",
//    "rules": [{"nodes": ["block.0*"], "weights": {"bits": 4, "per": 32}},
//              {"operators": ["Gemm"], "keep": true}]}
//
// What a layer gets is the operator's default, changed by the settings, then by each rule that fits
// its node, in order. docs/quantisation.md has all keys.
#pragma once

#include "base/Status.h"
#include "quantize/Histogram.h"

#include <optional>
#include <string>
#include <string_view>

namespace tensmith::quantize {

/// Changes to a format; what is absent stays.
struct FormatChange {
  std::optional<Storage> storage;
  std::optional<int> bits;
  std::optional<bool> isSigned, isSymmetric, hasPowerOfTwoScale;
  std::optional<Granularity> granularity;
  int64_t group = 0;

  void apply(Format &format) const;
};

struct Rule {
  std::vector<std::string> nodes, operators; ///< patterns with "*"; none: any
  FormatChange weights, activations;
  bool keeps = false; ///< in float

  bool fits(std::string_view node, std::string_view op) const;
  std::string text() const; ///< for messages
};

enum class Rounding : uint8_t { Nearest, Gptq };

struct Settings {
  FormatChange weights, activations;
  std::vector<Rule> rules;
  RangeSettings ranges;
  bool bestWeightRange = false; ///< weights' ranges by the least mean square, too
  Rounding rounding = Rounding::Nearest;
  bool correctsBias = false, equalises = false, awq = false;
  double smoothing = 0;     ///< SmoothQuant's exponent; 0: none
  bool forTraining = false; ///< weights stay floats, and are rounded in the model
  bool measuresSensitivity = false;
  std::optional<double> accuracy; ///< percent that may be lost
  std::optional<int64_t> size;    ///< bytes of weights that the model may have
  int64_t batch = 32;             ///< samples at a time, where the model leaves that open
};

/// InvalidArgument, with the key and what it may be, where the text is none of that.
Result<Settings> parseSettings(std::string_view json);

/// "*" stands for any characters.
bool fitsPattern(std::string_view pattern, std::string_view text);

} // namespace tensmith::quantize
