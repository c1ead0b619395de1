// A model's kernels, each to be made and timed by any of its points, as autotuning does.
//
// A kernel's operators are copied out of the graph just as its key is taken, before its operands
// are laid out, and become a model of their own: so a candidate is compiled by the pipeline's last
// rewrites and by nothing but them, and has the kernel of that key, its constants packed by its own
// point. What the pipeline times by itself (MeasuredChoice.h) goes through the same measurer.
//
// Invariant: what is timed has the key that was asked for, or it is an error.
#pragma once

#include "compiler/kernel/Schedule.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/LoopFeatures.h"
#include "compiler/pipeline/Measure.h"
#include "compiler/targets/Target.h"

#include "llvm/Support/JSON.h"

#include <map>
#include <memory>

namespace tensmith::pipeline {

class TuningSession {
public:
  struct Kernel {
    kernel::Key key;
    llvm::json::Object offered;  // as spaces are told (Schedules::spacesJson)
    int64_t uses = 0;            // how often the model's plan has it
    double flops = 0, bytes = 0; // of one call, where sizes are known
    std::string untunable = {};  // why it can't be timed by itself; empty: it can
    std::string estimated = {};  // the choices that estimates make: an entry's members
    mlir::OwningOpRef<mlir::ModuleOp> graph;
  };

  /// What a rewrite decides for an operator, which is tuned by the time of the whole model.
  struct Decision {
    kernel::Key key;
    llvm::json::Object offered; // as spaces are told
    std::string estimated;      // an entry's members
  };

  /// A candidate's code, ready to run.
  struct Built {
    const Kernel *kernel;
    Candidate candidate;
  };

  /// `module` is changed, and must live for as long as this.
  static Result<std::unique_ptr<TuningSession>> open(mlir::ModuleOp module,
                                                     const CompileOptions &options);

  const std::vector<Kernel> &kernels() const { return kernels_; }
  /// What all keys depend on beside the graph: machine and precision.
  const std::string &conditions() const { return conditions_; }
  /// As JSON: {"machine", "kernels": [{"key", "kernel", "nodes", "template", "points", "choices",
  /// "uses", "flops", "bytes", "estimated", "untunable"}], "decisions": [{"key", "kernel", "nodes",
  /// "choices", "estimated"}], "most_error"}.
  std::string json() const;

  /// Of the kernel's code by these choices (an entry's members, as in schedule files), before it is
  /// machine code. InvalidArgument where there is no such kernel, or a choice of it is none.
  Result<std::vector<double>> features(const kernel::Key &key, const std::string &choices);
  /// Its loops, likewise.
  Result<std::vector<LoopNode>> loops(const kernel::Key &key, const std::string &choices);
  Result<Built> build(const kernel::Key &key, const std::string &choices);

  /// One process's runs, against the reference's results or, where that would take long, those of
  /// the first candidate of the kernel that ran.
  Measurement measure(const Built &built, Measurer &measurer);

private:
  explicit TuningSession(const CompileOptions &options) : options_(options) {}

  Status collect(mlir::ModuleOp module);
  void collectDecisions(llvm::json::Array &offers, const kernel::Schedules &choices);
  void checkAlone(Kernel &kernel);
  const Kernel *find(const kernel::Key &key) const;
  /// Compiles a copy of the kernel's graph by the choices; `codeEmitted` is told of its code.
  using Emitted = std::function<void(const kernel::EmittedKernel &)>;
  Result<std::string> compile(const Kernel &kernel, const std::string &choices, bool withCode,
                              const Emitted &codeEmitted);

  struct Run { // of a kernel: the same for all its candidates
    std::vector<Candidate::Input> inputs;
    std::vector<HostTensor> expected;
  };
  Run &runOf(const Kernel &kernel);

  CompileOptions options_;
  std::string conditions_;
  std::vector<Kernel> kernels_;
  /// Those whose alternatives are as exact as the policy allows, or tell what they err by. Who does
  /// an operator is none of them: that is the policy's (`libraries`).
  std::vector<Decision> decisions_;
  std::map<kernel::Key, Run> runs_;
  std::unique_ptr<targets::Target> target_;

  struct Last { // that was built: its features are mostly asked for next
    kernel::Key key;
    std::string choices;
    std::vector<double> features;
  } last_;
};

} // namespace tensmith::pipeline
