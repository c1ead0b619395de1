// All kernels of a model to objects: on all cores, each structure once, and only those that the
// cache doesn't have.
//
// A kernel's key is the hash of its text, of what the machine's code depends on, and of this
// compiler; its symbol is derived from the key. So an object serves every model that has the
// kernel, and the names of a model's nodes have no part in it.
#pragma once

#include "base/Status.h"
#include "cache/Store.h"
#include "compiler/module/ModuleWriter.h"
#include "compiler/targets/cpu/machine/Machine.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tensmith::targets::cpu {

struct KernelSource {
  std::string label; // of the nodes it came from: for messages alone
  std::string
      text; // the module, as MLIR's bytecode or text; its entry is @tensmith_kernel (Codegen.h)
};

struct KernelCompilerOptions {
  int threads = 0;        // 0: as many as the process has CPUs
  std::string dumpFolder; // of what kernels become on the way (Codegen.h); empty: none
  std::string cacheFolder = cache::defaultFolder(); // empty: no cache
  int64_t cacheLimitBytes = cache::defaultLimit();
  /// Called when a kernel is done, one call at a time, from any thread.
  std::function<void(int64_t done, int64_t total)> progress;
  std::function<void(const std::string &)> warn;
};

struct CompiledKernels {
  std::vector<std::string> symbols;           // for each source
  std::vector<modules::KernelObject> objects; // each once, ordered by symbol
  int64_t fromCache = 0;
};

/// The first source's error, in the order given, where one doesn't compile.
Result<CompiledKernels> compileKernels(std::span<const KernelSource> sources,
                                       const Machine &machine,
                                       const KernelCompilerOptions &options);

} // namespace tensmith::targets::cpu
