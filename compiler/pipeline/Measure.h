// One way to time candidates: modules that do the same by different choices.
//
// A candidate runs in a process of its own, so that whatever it does is a measurement: a crash, a
// hang, memory without end and a wrong result are told of it, and the next is measured. What runs
// it is a command, `tensmith-measure` beside this library or any that takes the same words: behind
// an emulator, or ssh to a board.
#pragma once

#include "base/HostTensor.h"
#include "base/Status.h"
#include "cache/Store.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensmith::pipeline {

struct Candidate {
  std::string module; // its bytes
  struct Input {
    std::string name;
    HostTensor value;
  };
  std::vector<Input> inputs;
  /// The reference's results; empty: they aren't compared.
  std::vector<HostTensor> expected;
  double tolerance = 0;      // of floats, against the largest element of each result
  bool wantsResults = false; // those of `Measurement`, where there is nothing to compare
};

struct Measurement {
  enum class Outcome : uint8_t {
    Timed,
    Wrong,       // a result is another than expected
    Refused,     // the runtime, or the machine, doesn't take it
    Crashed,     // its process died
    TimedOut,    // it took longer than it may
    OutOfMemory, // it wanted more than it may have
    NotStarted,  // the command can't be run: nothing is known of the candidate
  };
  Outcome outcome = Outcome::NotStarted;
  double seconds = 0;                   // of the fastest run, where it was timed
  std::vector<HostTensor> results = {}; // where it was timed, if they are wanted or compared
  std::string why = {};                 // it wasn't, in words
};
std::string_view nameOf(Measurement::Outcome outcome);

class Measurer {
public:
  virtual ~Measurer() = default;
  /// For each candidate, in their order, one after the other.
  virtual std::vector<Measurement> measure(std::span<const Candidate> candidates) = 0;
  Measurement measure(const Candidate &candidate) {
    return std::move(measure(std::span(&candidate, 1)).front());
  }
};

struct CommandLimits {
  double seconds = 30;                    // of a candidate, loading and all runs
  int64_t memoryBytes = int64_t(4) << 30; // of its process, beside its inputs
  double repeatSeconds = 0.05;            // of the runs that are counted, at least
  int threads = 0;                        // 0: as many as CPUs; the process is bound to so many
};

/// Runs `command MODULE --input NAME=FILE ... --out FOLDER --seconds S`, as tensmith-run does.
std::unique_ptr<Measurer> commandMeasurer(std::vector<std::string> command,
                                          const CommandLimits &limits = {});
/// The same with `tensmith-measure` from the folder of this library or program.
std::unique_ptr<Measurer> measurerHere(const CommandLimits &limits = {});

/// The seconds that the candidate takes by this measurer, or took when it was last timed here: kept
/// in the store by the module's bytes, which name the machine that it is for, this processor and
/// the number of CPUs. Unsupported, with the reason, where it can't be timed.
Result<double> secondsOf(const Candidate &candidate, Measurer &measurer, cache::Store &store);

/// Of a function of tensors of constant shapes: small numbers around zero, none of them subnormal;
/// zeros of types other than f32.
std::vector<Candidate::Input> drawnInputs(mlir::func::FuncOp function);
/// The results of the function on these by the reference; none where that would take more than
/// about a second.
std::vector<HostTensor> quickReference(mlir::func::FuncOp function,
                                       std::span<const Candidate::Input> inputs);

} // namespace tensmith::pipeline
