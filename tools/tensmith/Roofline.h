// What limits a kernel: the roofline model, with a roof for each level of memory.
//
// A call takes at least the time of its operations at the machine's peak, and of its bytes at the
// bandwidth of where they come from. Of that a profile says nothing, so it is inferred from sizes:
// what a call shares with its neighbours comes from the nearest level that holds all of it; weights
// come from the nearest level that holds all weights that are used before they are needed again. A
// cache that holds both by luck makes the limit too strict, one that was swept makes it too
// generous: shares are to be read in tenths. After Williams, Waterman and Patterson, "Roofline",
// 2009.
#pragma once

#include "tools/tensmith/Report.h"

#include <string>
#include <vector>

namespace tensmith::cli {

class Roofline {
public:
  /// `limits`: of the machine, as ts_measure_machine gives them. `weightsBytes`: of the module.
  Roofline(const Json &limits, int threads, double weightsBytes);

  /// Adds to each kernel of a run, an object with calls, seconds, flops, bytes, constant_bytes and
  /// type: limit_seconds (at least that long, by the model), limit_share (of the time that it
  /// takes), and waits_for: "flops", the name of a level of memory, "overhead" (calls and sharing
  /// out are most of it) or "latency" (neither operations nor bytes explain it). Null where nothing
  /// is known; of an operator that the reference evaluator does "reference", and no limit.
  void annotate(Json &kernels) const;

  struct Level {
    std::string name;
    double capacity; // of all that the threads have of it; infinite for the memory
    double bandwidth;
  };
  const std::vector<Level> &levels() const { return levels_; }
  /// Operations in a second; those of f32 for a type that was not measured.
  double peak(const std::string &type) const;

private:
  const Level &levelFor(double bytes) const;
  void annotate(Json &kernel, double repeatedWeights) const;

  std::vector<Level> levels_;
  std::vector<std::pair<std::string, double>> peaks_;
  double callSeconds_ = 0, handOverSeconds_ = 0, weightsBytes_ = 0;
};

} // namespace tensmith::cli
