// Bytes as sections of an object file, for the linker to place beside the code.
#pragma once

#include "base/Status.h"
#include "compiler/target/cpu/Machine.h"

#include <span>
#include <string>
#include <vector>

namespace tensmith::target::cpu {

struct DataSection {
  const char *name;
  std::span<const std::byte> bytes;
};

/// Read-only sections, mapped with the image and aligned to 64 bytes, which the linker keeps though
/// nothing refers to them.
Result<std::string> dataObject(const std::vector<DataSection> &sections, const Machine &machine);

} // namespace tensmith::target::cpu
