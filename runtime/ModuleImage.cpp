// Hashes of a module's file, and the checks that need nothing but them and the header.
#include "runtime/ModuleImage.h"

#include "runtime/ElfFile.h"
#include "runtime/KernelAbi.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace tensmith::runtime {
namespace {

Status invalidModule(std::string message) {
  return {StatusCode::InvalidModule, std::move(message)};
}

bool sameHash(const uint64_t stored[2], const Hash128 &hash) {
  return stored[0] == hash.low && stored[1] == hash.high;
}

Status checkVersion(const ModuleHeader &header) {
  if (header.magic != kMagic)
    return invalidModule("not a valid module: its header does not begin as a module's does");
  if (header.formatMajor == kFormatMajor && header.formatMinor <= kFormatMinor)
    return {};
  auto version = [](unsigned major, unsigned minor) {
    return std::to_string(major) + "." + std::to_string(minor);
  };
  const char *advice = header.formatMajor >= kFormatMajor
                           ? "update the runtime, or compile the model with its own version"
                           : "compile the model again";
  return invalidModule("the module has format " + version(header.formatMajor, header.formatMinor) +
                       ", and this runtime reads " + version(kFormatMajor, kFormatMinor) + "; " +
                       advice);
}

/// A range of the file to be hashed as zeros (`zero`) or not at all.
struct Exception {
  FileRange range;
  bool zero;
};

} // namespace

ModuleHeader readHeader(std::span<const std::byte> file, const ModuleSections &sections) {
  ModuleHeader header;
  std::memcpy(&header, file.data() + sections.header.offset, sizeof(header));
  return header;
}

Hash128 hashImage(std::span<const std::byte> file, const ModuleSections &sections) {
  constexpr uint64_t hashOffset = offsetof(ModuleHeader, imageHash);
  constexpr uint64_t hashBytes = sizeof(ModuleHeader) - hashOffset;
  std::array<Exception, 2> exceptions = {{
      {{sections.header.offset + hashOffset, hashBytes}, true},
      {sections.weights, false},
  }};
  if (exceptions[1].range.offset < exceptions[0].range.offset)
    std::swap(exceptions[0], exceptions[1]);

  constexpr std::byte zeros[hashBytes] = {};
  Hasher hasher;
  uint64_t position = 0;
  for (const Exception &exception : exceptions) {
    if (exception.range.size == 0)
      continue;
    hasher.addBytes(file.subspan(position, exception.range.offset - position));
    if (exception.zero)
      hasher.addBytes(zeros);
    position = exception.range.end();
  }
  hasher.addBytes(file.subspan(position));
  return hasher.finish();
}

Hash128 hashWeights(std::span<const std::byte> file, const ModuleSections &sections) {
  return hash128(file.subspan(sections.weights.offset, sections.weights.size));
}

Status checkMachine(const ModuleSections &sections) {
  if (sections.machine == kHostMachine)
    return {};
  return invalidModule("the module is for another machine (" + machineName(sections.machine) +
                       ", this is " + machineName(kHostMachine) +
                       "); compile the model for this one");
}

Status checkImage(std::span<const std::byte> file, const ModuleSections &sections,
                  bool verifyWeights) {
  ModuleHeader header = readHeader(file, sections);
  if (Status status = checkVersion(header); !status.ok())
    return status;
  if (!sameHash(header.imageHash, hashImage(file, sections)))
    return invalidModule(
        "the module is damaged: its code, plan or signature does not have the hash "
        "that it was written with; compile the model again or fetch the file anew");
  if (header.kernelAbi != TENSMITH_KERNEL_ABI)
    return invalidModule("the module's kernels use ABI " + std::to_string(header.kernelAbi) +
                         ", and this runtime has " + std::to_string(TENSMITH_KERNEL_ABI) +
                         "; compile the model again with the compiler of this version");
  if (verifyWeights && !sameHash(header.weightsHash, hashWeights(file, sections)))
    return invalidModule(
        "the module's weights are damaged: they do not have the hash that they were "
        "written with; compile the model again or fetch the file anew");
  return {};
}

} // namespace tensmith::runtime
