// Whether the compiled graph agrees with the reference, at every size and on one and two threads.
#pragma once

#include "base/Precision.h"
#include "tests/random/Evaluation.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::random_graphs {

enum class Verdict : uint8_t {
  Agrees,
  Differs,      // a result is another than the reference's
  NotCompiled,  // the compiler refused what the reference evaluates
  NotRun,       // the runtime did
  NotEvaluated, // the reference refused what the shape functions took; nothing was compared
  NotEmulated,  // the emulator of another machine failed (Board.h); nothing was compared
  NotRefused,   // the compiled code computed something where the reference refuses
  Crashed,      // the process died
  Hung,
};
llvm::StringRef nameOf(Verdict verdict);

struct Report {
  Verdict verdict = Verdict::Agrees;
  std::string message;
  int64_t elements = 0; // compared
  int64_t loose = 0;    // of them, floats whose tolerance was more than 1 % of them
};

struct CheckOptions {
  std::string cacheFolder;
  std::string device; // that runs the kernels, or several with commas between; empty: the host
  bool fuse = true;
  std::string dumpFolder;
  Precision precision = Precision::Fast;
  bool checkBounds = false;    // of each access of the code
  bool byReference = false;    // the plan alone: each operator is evaluated
  std::string target = "host"; // what the code is for
  int points = 0;              // of the kernels' spaces, drawn; the default one is run in any case
  uint64_t seed = 1;           // that points and devices are drawn by
  std::string runner;          // the program that runs it there (Board.h); empty: this process
};

/// The module is left as it is.
Report check(mlir::ModuleOp module, const CheckOptions &options);

} // namespace tensmith::random_graphs
