// The space of one kernel's points, as a search sees it: names, values, conditions, and the moves
// between points.
//
// It is read from what the compiler tells of a kernel (ts_tuning_describe), so that nothing here
// depends on the compiler's code. A point is a configuration: for each dimension the number of its
// value, or kAbsent where an earlier choice has a value with which this one does not exist
// (base/MixedRadix.h).
#pragma once

#include "base/Factorisations.h"
#include "base/MixedRadix.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tensmith::tune {

using Json = nlohmann::ordered_json;

using tensmith::kAbsent;
using Configuration = Digits;

/// The same numbers on every machine, for one seed.
class Random {
public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// Uniform below `most`, which is at least 1.
  uint64_t below(uint64_t most) { return most <= 1 ? 0 : engine_() % most; }
  double uniform() { return double(engine_() >> 11) * 0x1p-53; }

private:
  std::mt19937_64 engine_;
};

class SearchSpace {
public:
  struct Dimension {
    std::string name;
    std::vector<std::string> values; // as JSON has them
    std::vector<double> numbers;     // of values; of a word its place
    /// Where the values are factorisations of a size; and of each those that are one prime factor
    /// away.
    std::vector<Factors> factors = {};
    std::vector<std::vector<int32_t>> moves = {};
  };

  /// Of "choices" in a description: [{"choice", "values", "factors": {"of": size, "parts": number},
  /// "where": {choice: [value, ...]}}]. Throws Failure where it is none.
  static SearchSpace fromJson(const Json &choices, const std::string &what);

  const std::vector<Dimension> &dimensions() const { return dimensions_; }
  /// At most 2^63.
  uint64_t size() const { return radix_.size(); }
  Configuration at(uint64_t number) const { return radix_.at(number); }
  Configuration random(Random &random) const { return at(random.below(size())); }
  bool contains(const Configuration &configuration) const { return radix_.contains(configuration); }
  /// Those that differ in one choice, by the next lower or higher value, or by one prime factor
  /// that has moved.
  std::vector<Configuration> neighbours(const Configuration &configuration) const;
  /// The choice, which exists there, takes that value.
  Configuration changed(Configuration configuration, size_t dimension, int32_t value) const {
    configuration[dimension] = value;
    return radix_.completed(std::move(configuration));
  }
  /// Without choices that don't exist in it, and first values for those that do and were absent.
  Configuration completed(Configuration configuration) const {
    return radix_.completed(std::move(configuration));
  }
  /// One choice, drawn, takes another value, drawn.
  Configuration mutated(const Configuration &configuration, Random &random) const;
  /// Each choice as one of the parents makes it.
  Configuration crossover(std::span<const Configuration *const> parents, Random &random) const;

  /// As a schedule file has it, sorted by name: "\"grain\":4,\"tile_rows\":6".
  std::string text(const Configuration &configuration) const;
  /// The other way round; choices of which it says nothing have their first values. Empty where it
  /// says something that the space doesn't have.
  Configuration parse(const std::string &text) const;

  /// What another space's text says, with each value the nearest that there is here, and first
  /// values for the rest. Empty where it says nothing of this space.
  Configuration nearest(const std::string &text) const;

  /// A number for each dimension, log2(1 + value), of factorisations one for each factor; -1 where
  /// it is absent: they tell points of this space apart, and mean nothing in another.
  std::vector<double> knobs(const Configuration &configuration) const;
  /// The dimension of each knob.
  std::vector<size_t> dimensionsOfKnobs() const;

private:
  std::vector<Dimension> dimensions_;
  MixedRadix radix_; // a digit for each
};

} // namespace tensmith::tune
