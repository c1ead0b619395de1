// All that the pipeline knows of a machine: what its kernels' templates size their code by, how
// that code becomes machine code, and what a module says of the machine that it is for.
//
// Each kind of machine is a folder beside this file, whose class implements this one, or a plug-in.
// The registry (Registry.cpp) finds the kind that a name belongs to, and is the only file that
// includes all of them.
#pragma once

#include "base/Status.h"
#include "base/Table.h"
#include "cache/Store.h"
#include "compiler/kernel/Template.h"
#include "compiler/module/ModuleWriter.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensmith::targets {

/// A kernel as templates emit it.
struct KernelSource {
  std::string label; // of the nodes it came from: for messages alone
  std::string text;  // the module, as MLIR's bytecode or text; its entry is @tensmith_kernel
};

struct CodeOptions {
  int threads = 0;        // 0: as many as the process has CPUs
  std::string dumpFolder; // of what kernels become on the way; empty: none
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

class Target {
public:
  virtual ~Target() = default;

  /// With what was measured of the machine, where it was.
  virtual const kernel::Machine &machine() const = 0;

  virtual const std::string &triple() const = 0; // "x86_64-pc-linux-gnu"
  virtual const std::string &cpu() const = 0;    // "znver4"
  /// By which measured limits estimates count; empty: by none.
  virtual const std::string &limits() const = 0;
  /// Those whose instructions may be in kernels' code: a module's reader checks for them.
  virtual std::vector<std::string> codeFeatures(bool usesMatrixUnit) const = 0;

  /// All kernels of a model. The first source's error, in the order given, where one doesn't
  /// compile.
  virtual Result<CompiledKernels> compile(std::span<const KernelSource> sources,
                                          const CodeOptions &options) const = 0;
};

/// The templates of CPUs, in order of preference. Machines of other targets that compute with
/// vectors may name them, too, and plug-ins add to them.
Table<kernel::Template> &vectorTemplates();

/// A kind of machine: its name is what stands before the colon in the names of its machines.
struct TargetKind {
  std::string_view name; // "cpu"
  /// The whole name, as it was given; InvalidArgument where there is no such machine.
  Result<std::unique_ptr<Target>> (*open)(std::string_view name);
  /// The dialects that kernels' code is in; null: none beside the CPUs'.
  void (*registerDialects)(mlir::DialectRegistry &) = nullptr;
};
Table<TargetKind> &targetKinds();
/// InvalidArgument where machines of the kind couldn't be named, or its name is that of CPUs.
Status checkKind(const TargetKind &kind);

/// "host", or a machine's name with features added or taken away: "x86-64-v3", "znver4,-avx512f";
/// or one of a kind, as "KIND:NAME". InvalidArgument where there is none of that name.
Result<std::unique_ptr<Target>> openTarget(std::string_view name);

/// The dialects that kernels' code is in, of all targets.
void registerDialects(mlir::DialectRegistry &registry);

/// Instructions of an architecture of CPUs. Of two that do the same the first counts, and families
/// that were added count behind those before them.
struct IntrinsicFamily {
  std::string_view name;
  std::string_view architecture; // what triples begin with: "aarch64"
  llvm::ArrayRef<kernel::Intrinsic> rows;
};
Table<IntrinsicFamily> &intrinsicFamilies();

} // namespace tensmith::targets
