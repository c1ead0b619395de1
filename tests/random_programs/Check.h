// A batch of programs, compiled as one, with all optimisations and without, and both compared with
// the evaluator of the language, one by one.
//
// Integers, booleans and constructors must be equal. A float may be off by eight times as far as
// noise in every float operation moves it (three runs with noise of 2^-21 of the largest element),
// and by 2e-6 of itself or of 1 besides.
#pragma once

#include "mlir/IR/MLIRContext.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::random_programs {

enum class Verdict : uint8_t { Agrees, Differs, NotTyped, NotCompiled, NotRun, Endless, Crashed };
const char *nameOf(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::Crashed;
  std::string message;
  int64_t elements = 0, loose = 0; // compared; of those, to less than 1 %
};

struct CheckOptions {
  std::string cacheFolder;
  bool byReference = false;
  std::string device = {}; // that runs the kernels; empty: the host
};

/// The program of a seed as text, with a main.
std::string textOf(uint64_t seed);
std::vector<Finding> check(mlir::MLIRContext &context, const std::vector<uint64_t> &seeds,
                           const CheckOptions &options);

} // namespace tensmith::random_programs
