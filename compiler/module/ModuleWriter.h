// Kernels, plan and weights to a module, the file of runtime/ModuleFormat.h.
//
// The weights are streamed from where they are into the file. The file appears under its name
// complete or not at all: it is written beside and renamed.
#pragma once

#include "base/Status.h"
#include "compiler/module/DebugInfo.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tensmith::modules {

/// The machine code of a kernel.
struct KernelObject {
  std::string symbol; // what the object exports: k_<hash>
  std::string bytes;  // an ELF file
};

struct WeightPart {
  int64_t offset; // from the weights' beginning; what no part covers is zero
  std::span<const std::byte> bytes;
};

struct ModuleParts {
  std::string name = "module"; // the shared object's own, "resnet50.so"
  std::vector<KernelObject> objects;
  std::span<const std::byte> plan;
  std::vector<WeightPart> weights; // in order of their offsets, without overlaps
  int64_t weightsBytes = 0;        // in all
  std::string triple;              // of a module without kernels; empty: the process's
  /// For symbols of objects: the nodes' names, by which debuggers and profilers call the kernel.
  std::map<std::string, std::string> labels;
  /// And the nodes themselves, of all kernels that have the code; empty: no debug information.
  std::map<std::string, std::vector<SourceNode>> nodes;
};

/// IoError where the file can't be written ("no space left on device"); then none is left behind,
/// and one that was there before is as it was.
Status writeModule(const ModuleParts &parts, const std::string &path);

/// The same file's bytes.
Result<std::string> moduleBytes(const ModuleParts &parts);

} // namespace tensmith::modules
