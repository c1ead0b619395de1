// Many graphs in processes of their own, so that a crash costs one graph and is put down to it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith::random_graphs {

struct BatchOptions {
  uint64_t first = 1;
  int64_t count = 100;
  int jobs = 2;
  int timeoutSeconds = 120;
  std::string folder = "random-graphs", device;
  std::string target = "host", runner; // see CheckOptions
  bool allOperators = false;
  bool reduce = true;
  bool checkBounds = false; // of each access of the code
  bool toFirst = false;     // no more after a failure
  int points = 0;           // of the kernels' spaces, for each graph
  int64_t openRuns = 0;     // 0: sizes as drawn; else they are open, and run at so many
  std::string breaking; // if any, graphs have a requirement whose message holds it, and break it
  std::vector<std::string>
      operators; // if any, each graph is one of these, in turn, with its operands
};

/// The graph of a seed; of no other option than these do graphs depend: `operators`, or
/// `allOperators`, and `openRuns` with `breaking`.
mlir::OwningOpRef<mlir::ModuleOp> graphOf(mlir::MLIRContext &context, const BatchOptions &options,
                                          uint64_t seed);
/// Prints what was found; true where all graphs agree.
bool runBatch(mlir::MLIRContext &context, const BatchOptions &options);

} // namespace tensmith::random_graphs
