// Whoever makes candidates and runs them: the compiler's session, or what stands for it in tests.
#pragma once

#include "tune/model/CostModel.h"

#include <optional>

namespace tensmith::tune {

struct RunOutcome {
  std::string outcome; // "timed", or how it failed
  double seconds = 0;  // of the process's fastest run, where it was timed
  std::string why = {};

  bool isTimed() const { return outcome == "timed"; }
};

class Bench {
public:
  virtual ~Bench() = default;

  /// The candidate's number; nothing, with `why`, where it can't be made.
  virtual std::optional<size_t> build(const std::string &key, const std::string &choices,
                                      std::string &why) = 0;
  virtual void drop(size_t candidate) = 0;
  /// One process.
  virtual RunOutcome run(size_t candidate) = 0;
  /// Of its loop program; empty where it has none.
  virtual Features features(const std::string &key, const std::string &choices) = 0;
};

} // namespace tensmith::tune
