// A measurer that a test says the times of.
#pragma once

#include "compiler/pipeline/Measure.h"

#include <functional>

namespace tensmith::pipeline {

class FunctionMeasurer : public Measurer {
public:
  using Seconds = std::function<Result<double>(const std::string &module)>;
  explicit FunctionMeasurer(Seconds seconds) : seconds_(std::move(seconds)) {}

  std::vector<Measurement> measure(std::span<const Candidate> candidates) override {
    std::vector<Measurement> all;
    for (const Candidate &candidate : candidates) {
      auto seconds = seconds_(candidate.module);
      all.push_back(
          seconds.ok()
              ? Measurement{Measurement::Outcome::Timed, *seconds}
              : Measurement{Measurement::Outcome::Refused, 0, {}, seconds.status().message()});
    }
    return all;
  }

private:
  Seconds seconds_;
};

inline std::shared_ptr<Measurer> measuredBy(FunctionMeasurer::Seconds seconds) {
  return std::make_shared<FunctionMeasurer>(std::move(seconds));
}

} // namespace tensmith::pipeline
