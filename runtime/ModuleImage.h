// A module's file as bytes: where its three sections lie, and the hashes that vouch for it.
//
// The reader checks them before any code is mapped; a writer stores what hashImage says of its
// finished file. The format is that of ModuleFormat.h. Everything
// here takes hostile bytes: each offset and size of the ELF file is checked against the file before
// it is used.
#pragma once

#include "base/Hash.h"
#include "base/Status.h"
#include "runtime/ModuleFormat.h"

#include <span>

namespace tensmith::runtime {

/// A range of the file; in bounds once `findSections` has given it.
struct FileRange {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t end() const { return offset + size; }
};

struct ModuleSections {
  uint16_t machine = 0; // ELF's e_machine
  FileRange header;
  FileRange plan;
  FileRange weights; // empty where the module has none
};

/// Reads a little-endian shared object for x86-64, AArch64, 32-bit Arm or RISC-V. Errors:
/// InvalidModule.
Result<ModuleSections> findSections(std::span<const std::byte> file);

/// The hash of everything outside the weights' contents, with the header's two hashes as zeros.
Hash128 hashImage(std::span<const std::byte> file, const ModuleSections &sections);
Hash128 hashWeights(std::span<const std::byte> file, const ModuleSections &sections);

/// The header as it stands in the file.
ModuleHeader readHeader(std::span<const std::byte> file, const ModuleSections &sections);

/// Magic, version, kernel ABI and the hash of the image; of the weights too if asked. Reads nothing
/// of the plan.
Status checkImage(std::span<const std::byte> file, const ModuleSections &sections,
                  bool verifyWeights);
/// Whether its code is for this kind of machine.
Status checkMachine(const ModuleSections &sections);

} // namespace tensmith::runtime
