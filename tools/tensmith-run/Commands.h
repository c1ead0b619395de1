// What tensmith-run does, once its command line is read. Failures are thrown (files/Failure.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::cli {

struct RunSettings {
  std::string file, outputFolder;
  std::vector<std::string> inputs, shapes;
  int threads = 0, repeat = 0;
  double seconds = 0; // of runs, at least
  uint64_t seed = 0;
  bool verify = false;
};

/// Each prints JSON.
void run(const RunSettings &settings);
void describeSignature(const RunSettings &settings);
void describeMachine();

} // namespace tensmith::cli
