// From parts to the file; see ModuleWriter.h.
#include "compiler/module/ModuleWriter.h"

#include "base/Hash.h"
#include "compiler/module/DataObject.h"
#include "compiler/module/ElfImage.h"
#include "compiler/module/Linker.h"
#include "compiler/module/OutputFile.h"
#include "runtime/KernelAbi.h"
#include "runtime/ModuleFormat.h"
#include "runtime/ModuleImage.h"

#include "llvm/TargetParser/Host.h"

#include <cstring>

namespace tensmith::modules {
namespace {

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status checkWeights(const ModuleParts &parts) {
  int64_t end = 0;
  for (const WeightPart &part : parts.weights) {
    int64_t size = int64_t(part.bytes.size());
    if (part.offset < end || size > parts.weightsBytes - part.offset)
      return {StatusCode::Internal, "the weights' parts overlap or exceed their section"};
    end = part.offset + size;
  }
  return {};
}

/// Calls `take` with all the weights' bytes from first to last, zeros where no part is.
Status streamWeights(const ModuleParts &parts,
                     llvm::function_ref<Status(std::span<const std::byte>)> take) {
  static constexpr std::byte kZeros[4096] = {};
  int64_t at = 0;
  auto fill = [&](int64_t until) {
    Status status;
    while (status.ok() && at < until) {
      size_t count = size_t(std::min<int64_t>(until - at, sizeof kZeros));
      status = take({kZeros, count});
      at += int64_t(count);
    }
    return status;
  };
  for (const WeightPart &part : parts.weights) {
    if (Status status = fill(part.offset); !status.ok())
      return status;
    if (Status status = take(part.bytes); !status.ok())
      return status;
    at += int64_t(part.bytes.size());
  }
  return fill(parts.weightsBytes);
}

/// Kernels, header and plan as one image, its hashes still zero.
Result<ElfImage> linkImage(const ModuleParts &parts) {
  if (Status status = checkWeights(parts); !status.ok())
    return status;
  runtime::ModuleHeader header{
      runtime::kMagic, runtime::kFormatMajor, runtime::kFormatMinor, TENSMITH_KERNEL_ABI, {}, {}};
  auto machine =
      parts.objects.empty()
          ? elfMachineFor(parts.triple.empty() ? llvm::sys::getProcessTriple() : parts.triple)
          : elfMachineOf(parts.objects[0].bytes);
  if (!machine)
    return machine.status();
  std::string data = dataObject({{runtime::kHeaderSection, std::as_bytes(std::span(&header, 1))},
                                 {runtime::kPlanSection, parts.plan}},
                                *machine);
  std::vector<std::span<const char>> objects;
  for (const KernelObject &object : parts.objects)
    objects.push_back(object.bytes);
  objects.push_back(data);
  auto linked = linkShared(objects, parts.name);
  if (!linked)
    return linked.status();
  return finishImage(std::move(*linked), parts.weightsBytes, parts);
}

/// Sets the header's hashes: of the image with both taken as zero, and of the weights.
void sealImage(ElfImage &image, const Hash128 &weights) {
  runtime::ModuleHeader header;
  char *at = image.bytes.data() + image.headerOffset;
  std::memcpy(&header, at, sizeof header);
  runtime::ModuleSections sections; // without the weights, which lie behind these bytes
  sections.header = {uint64_t(image.headerOffset), sizeof header};
  Hash128 hash = runtime::hashImage(bytesOf(image.bytes), sections);
  header.imageHash[0] = hash.low;
  header.imageHash[1] = hash.high;
  header.weightsHash[0] = weights.low;
  header.weightsHash[1] = weights.high;
  std::memcpy(at, &header, sizeof header);
}

} // namespace

Status writeModule(const ModuleParts &parts, const std::string &path) {
  auto image = linkImage(parts);
  if (!image)
    return image.status();
  OutputFile file;
  if (Status status = file.open(path, image->weightsOffset + parts.weightsBytes); !status.ok())
    return status;
  Hasher hasher;
  int64_t offset = image->weightsOffset;
  Status status = streamWeights(parts, [&](std::span<const std::byte> bytes) {
    hasher.addBytes(bytes);
    Status written = file.write(offset, bytes);
    offset += int64_t(bytes.size());
    return written;
  });
  if (!status.ok())
    return status;
  sealImage(*image, hasher.finish());
  status = file.write(0, bytesOf(image->bytes));
  return status.ok() ? file.commit() : status;
}

Result<std::string> moduleBytes(const ModuleParts &parts) {
  auto image = linkImage(parts);
  if (!image)
    return image.status();
  std::string weights;
  weights.reserve(size_t(parts.weightsBytes));
  Hasher hasher;
  Status status = streamWeights(parts, [&](std::span<const std::byte> bytes) {
    hasher.addBytes(bytes);
    weights.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return Status();
  });
  if (!status.ok())
    return status;
  sealImage(*image, hasher.finish());
  return std::move(image->bytes) + weights;
}

} // namespace tensmith::modules
