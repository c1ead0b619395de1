// What rewrites decide for operators, measured by the whole model: which algorithm does a
// convolution, where channels lie, what shares a kernel.
//
// Problem: such a choice changes more kernels than one, and what lies between them, so that no
// kernel by itself says what it is worth. Method: a candidate is the model, compiled with all that
// tuning has found so far and this one choice; whoever tunes kernels tunes operators by it
// (KernelTuner.h). Invariant: a choice errs by no more than the policy allows its estimates. What
// is asked for is made by the compiler whatever it errs by, so that a candidate is refused by the
// error that it tells.
#pragma once

#include "client/Compiler.h"
#include "files/Files.h"
#include "tune/Bench.h"
#include "tune/ModelSession.h"

namespace tensmith::tune {

class DecisionBench : public Bench {
public:
  using Compile = std::function<void(const client::CompileSettings &, const std::string &out)>;

  /// `settings`: with the database whose winners hold for the rest of the model. All must outlive
  /// it.
  DecisionBench(ModelSession &session, const client::CompileSettings &settings, Compile compile);

  /// `key`: of the operator.
  std::optional<size_t> build(const std::string &key, const std::string &choices,
                              std::string &why) override;
  void drop(size_t candidate) override;
  RunOutcome run(size_t candidate) override;
  /// None: the model is no loop program.
  Features features(const std::string &, const std::string &) override { return {}; }

private:
  std::string scheduleFile(const std::string &key, const std::string &choices) const;
  std::string fileOf(size_t candidate) const {
    return folder_.path() / (std::to_string(candidate) + ".so");
  }

  ModelSession &session_;
  client::CompileSettings settings_;
  Compile compile_;
  TemporaryFolder folder_;
  size_t next_ = 0;
};

/// Of what was chosen for the operator of that key, as a module tells it: the largest error.
double errorTold(const std::string &schedules, const std::string &key);

/// The first of `choices` that the module tells otherwise; empty: none. A rewrite passes over what
/// can't be done, and a user's own schedules come behind those of a candidate.
std::string choiceNotTaken(const std::string &schedules, const std::string &key,
                           const std::string &choices);

} // namespace tensmith::tune
