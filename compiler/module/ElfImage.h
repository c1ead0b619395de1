// What a linked image still lacks to be a module: the weights' section, and kernels under the names
// of their nodes.
//
// lld is not given the weights, since hundreds of megabytes would pass through it for nothing.
// Instead the tables at the end of its image (section headers and the names in the symbol table),
// which nothing loads, are written anew, with sections of debug information (DebugInfo.h); the
// weights follow the image in the file, page-aligned, as
// a section without an address.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>

namespace tensmith::modules {

struct ModuleParts;

inline constexpr int64_t kWeightsAlignment = 4096;

struct ElfImage {
  std::string bytes;         // the whole file up to the weights
  int64_t headerOffset = 0;  // of the contents of .tensmith.header
  int64_t weightsOffset = 0; // == bytes.size(), a multiple of kWeightsAlignment
};

/// Finishes what the linker gave. Of the parts it takes what debuggers and profilers are to call an
/// exported symbol and the functions named after it (`SYMBOL.body`); the dynamic symbols keep their
/// names.
Result<ElfImage> finishImage(std::string linked, int64_t weightsBytes, const ModuleParts &parts);

} // namespace tensmith::modules
