// Compiled kernels of eager operators, kept by structure: the operator, its attributes, element
// types, and which dimensions are 1. Sizes are open, so that a structure is compiled once.
//
// A kernel is a module that the compiler makes of a graph of one operator (tensmith/builder.h). It
// is made on one of the process's threads while evaluations go on; where its bits may differ from
// the evaluation's, whoever asks waits for it, so that results do not depend on time. Modules are
// kept on disk by the module cache, which a process asks before it loads the compiler.
//
// Of a device's tensors all kernels are compiled, whatever their sizes: its memory is where they
// are.
//
// Without the compiler's library all is evaluated. TENSMITH_EAGER_KERNELS=off does so anyway.
#pragma once

#include "eager/Operators.h"

#include <condition_variable>
#include <mutex>
#include <unordered_map>

namespace tensmith::eager {

class Kernels {
public:
  /// Reads the environment when it is first called, which the Python package does at its import: so
  /// kernels do not hang on what a program has set before its first operation.
  static Kernels &ofProcess();

  /// Runs the operator's kernel on dense operands, into `set` where that is not empty and else into
  /// new arrays, which it gives. Nothing where there is no kernel, or it is not worth it for these
  /// sizes.
  std::optional<Result<std::vector<Array>>> run(const Operator &op, const Attributes &attributes,
                                                std::span<const Array> operands,
                                                std::span<const reference::ResultType> types,
                                                std::span<const Array> set);
  /// Until nothing is compiled any more.
  void finish();
  /// Around a fork: nothing is compiled, and nothing begins to be until it is over.
  void beforeFork();
  void afterFork(bool isChild);
  /// Whether the calling thread makes a kernel, for which the compiler may fork.
  static bool isMaking();
  struct Statistics {
    int64_t compiled = 0, loaded = 0, failed = 0, runs = 0;
  };
  Statistics statistics();

private:
  Kernels();
  struct Kernel;
  std::shared_ptr<Kernel> find(const Operator &op, const Attributes &attributes,
                               std::span<const Array> operands, const Device *device);
  void make(Kernel &kernel);

  std::mutex mutex_;
  std::condition_variable made_;
  std::unordered_map<std::string, std::shared_ptr<Kernel>> kernels_;
  int making_ = 0;
  bool off_ = false;
  Statistics statistics_;
};

} // namespace tensmith::eager
