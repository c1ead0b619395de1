// Bytes as sections of an object file, for the linker to place beside the code.
//
// The object is of the file's class, machine and flags that the code beside it has, so that it can
// be linked whatever CPU that is for.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tensmith::modules {

struct DataSection {
  const char *name; // begins with a dot; without it, it is the name of its symbol
  std::span<const std::byte> bytes;
};

/// What the header of a little-endian ELF file says of the CPU that it is for.
struct ElfMachine {
  uint16_t machine; // EM_X86_64
  uint32_t flags;   // of the machine's calling conventions
  uint8_t elfClass; // ELFCLASS32 or ELFCLASS64
};

/// That of an object file; Internal where it is none.
Result<ElfMachine> elfMachineOf(std::string_view object);
/// That of a triple, "x86_64-pc-linux-gnu", for a module without any code; Unsupported where its
/// files are of another kind.
Result<ElfMachine> elfMachineFor(const std::string &triple);

/// Read-only sections, mapped with the image and aligned to 64 bytes, which the linker keeps though
/// nothing refers to them.
std::string dataObject(const std::vector<DataSection> &sections, const ElfMachine &machine);

} // namespace tensmith::modules
