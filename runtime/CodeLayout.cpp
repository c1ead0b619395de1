// From an ELF file's tables to what has to be mapped, with every address and size checked; see
// CodeImage.h.
#include "runtime/CodeImage.h"
#include "runtime/ElfFile.h"

#include <algorithm>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tensmith::runtime {
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 30; // of code and its constants; weights are apart
/// Each symbol looks for its own among them.
constexpr size_t kMostSegments = 16;
constexpr Elf64_Sxword kAudit = 0x6ffffefc, kDependencyAudit = 0x6ffffefb; // glibc's
constexpr Elf64_Sxword kPackedRelative = 36; // DT_RELR, which older headers lack

/// What would have a loader run code or load other files.
bool reachesOut(Elf64_Sxword tag) {
  switch (tag) {
  case DT_NEEDED:
  case DT_INIT:
  case DT_FINI:
  case DT_INIT_ARRAY:
  case DT_FINI_ARRAY:
  case DT_PREINIT_ARRAY:
  case DT_AUXILIARY:
  case DT_FILTER:
  case kAudit:
  case kDependencyAudit:
    return true;
  default:
    return false;
  }
}

/// What a loader has to do, and this one doesn't.
bool isUnsupported(const Elf64_Dyn &entry) {
  return entry.d_tag == DT_JMPREL || entry.d_tag == DT_TEXTREL || entry.d_tag == kPackedRelative ||
         (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL));
}

/// The machine's relocation that adds the image's place.
uint32_t relativeType(uint16_t machine) {
  switch (machine) {
  case EM_X86_64:
    return R_X86_64_RELATIVE;
  case EM_AARCH64:
    return R_AARCH64_RELATIVE;
  case EM_ARM:
    return R_ARM_RELATIVE;
  default:
    return R_RISCV_RELATIVE;
  }
}

class LayoutReader {
public:
  explicit LayoutReader(const ElfFile &elf) : elf_(elf) {
    layout_.addressBytes = elf.addressBytes();
  }

  Result<CodeLayout> read() {
    auto segments = elf_.segments();
    if (!segments)
      return segments.status();
    // Each goes by what those before it have found to be sound.
    Status status = addSegments(*segments);
    if (status.ok())
      status = addConstant(*segments);
    if (status.ok())
      status = addDynamic(*segments);
    if (status.ok())
      status = addFunctions();
    return status.ok() ? Result<CodeLayout>(std::move(layout_)) : status;
  }

private:
  Status addSegment(const Elf64_Phdr &header) {
    uint64_t end, page = page_;
    if (header.p_filesz > header.p_memsz ||
        __builtin_add_overflow(header.p_vaddr, header.p_memsz, &end) ||
        __builtin_add_overflow(end, page - 1, &end))
      return damagedModule("a segment has no valid address");
    if (!within(header.p_offset, header.p_filesz, elf_.bytes().size()))
      return damagedModule("a segment lies past the end of the file; it may be truncated");
    if (header.p_filesz && header.p_offset % page != header.p_vaddr % page)
      return damagedModule("its segments are laid out for other pages than this machine's, of " +
                           std::to_string(page) + " bytes; compile the model for this machine");
    bool written = header.p_flags & PF_W;
    if (written && (header.p_flags & PF_X))
      return damagedModule("a segment is writable and executable");
    if (header.p_memsz > header.p_filesz && !written)
      return damagedModule("a segment that can't be written has no contents");
    int protection = (header.p_flags & PF_R ? PROT_READ : 0) | (written ? PROT_WRITE : 0) |
                     (header.p_flags & PF_X ? PROT_EXEC : 0);
    layout_.segments.push_back(
        {header.p_vaddr, header.p_memsz, header.p_offset, header.p_filesz, protection});
    return {};
  }

  Status addSegments(const std::vector<Elf64_Phdr> &headers) {
    for (const Elf64_Phdr &header : headers) {
      if (header.p_type == PT_TLS)
        return damagedModule("it has memory of each thread's own; no compiled model does");
      if (header.p_type != PT_LOAD || header.p_memsz == 0)
        continue;
      if (Status status = addSegment(header); !status.ok())
        return status;
    }
    auto &segments = layout_.segments;
    if (segments.empty())
      return damagedModule("it has nothing to be loaded");
    if (segments.size() > kMostSegments)
      return damagedModule("it has " + std::to_string(segments.size()) +
                           " segments; no compiled model has more than a few");
    std::ranges::sort(segments, {}, &CodeLayout::Segment::address);
    for (size_t i = 1; i < segments.size(); ++i)
      if (pageAfter(segments[i - 1]) > segments[i].address / page_ * page_)
        return damagedModule("two of its segments share a page of this machine's, of " +
                             std::to_string(page_) + " bytes; compile the model for this machine");
    if (pageAfter(segments.back()) - segments.front().address / page_ * page_ > kMostBytes)
      return damagedModule("its code would take more than 1 GiB");
    return {};
  }

  Status addConstant(const std::vector<Elf64_Phdr> &headers) {
    for (const Elf64_Phdr &header : headers) {
      if (header.p_type != PT_GNU_RELRO || header.p_memsz == 0)
        continue;
      if (!isWritable(header.p_vaddr, header.p_memsz))
        return damagedModule("what is read-only once it is loaded lies in no segment");
      layout_.constant.emplace_back(header.p_vaddr, header.p_memsz);
    }
    return {};
  }

  Result<std::vector<Elf64_Dyn>> dynamicEntries(const std::vector<Elf64_Phdr> &headers) const {
    const Elf64_Phdr *dynamic = nullptr;
    for (const Elf64_Phdr &header : headers)
      if (header.p_type == PT_DYNAMIC && std::exchange(dynamic, &header))
        return damagedModule("it has two dynamic segments");
    if (!dynamic)
      return damagedModule("it has no dynamic segment");
    if (!within(dynamic->p_offset, dynamic->p_filesz, elf_.bytes().size()))
      return damagedModule("its dynamic segment is not in the file");
    auto entries = elf_.dynamicEntries({dynamic->p_offset, dynamic->p_filesz});
    auto end = std::ranges::find(entries, DT_NULL, &Elf64_Dyn::d_tag);
    if (end == entries.end())
      return damagedModule("its dynamic segment has no end");
    entries.erase(end, entries.end());
    return entries;
  }

  Status addDynamic(const std::vector<Elf64_Phdr> &headers) {
    auto entries = dynamicEntries(headers);
    if (!entries)
      return entries.status();
    uint64_t rel = 0, relBytes = 0, rela = 0, relaBytes = 0;
    for (const Elf64_Dyn &entry : *entries) {
      if (reachesOut(entry.d_tag))
        return damagedModule(
            "it would run code or load other libraries when it is loaded (dynamic tag " +
            std::to_string(entry.d_tag) + "); no compiled model does");
      if (isUnsupported(entry))
        return damagedModule("it can't be loaded by this runtime (dynamic tag " +
                             std::to_string(entry.d_tag) + "); no compiled model is like it");
      uint64_t *place = entry.d_tag == DT_REL      ? &rel
                        : entry.d_tag == DT_RELSZ  ? &relBytes
                        : entry.d_tag == DT_RELA   ? &rela
                        : entry.d_tag == DT_RELASZ ? &relaBytes
                                                   : nullptr;
      if (place)
        *place = entry.d_un.d_val;
    }
    Status status = addRelocations(rel, relBytes, false);
    return status.ok() ? addRelocations(rela, relaBytes, true) : status;
  }

  Status addRelocations(uint64_t address, uint64_t bytes, bool addends) {
    if (bytes == 0)
      return {};
    auto place = inFile(address, bytes);
    if (!place)
      return damagedModule("its relocations are not in the file");
    for (const Elf64_Rela &entry : elf_.relocations({*place, bytes}, addends)) {
      uint32_t type = elf_.relocationType(entry);
      if (type == 0)
        continue;
      if (type != relativeType(elf_.machine()))
        return damagedModule("it has a relocation of type " + std::to_string(type) +
                             "; no compiled model does");
      if (!isWritable(entry.r_offset, elf_.addressBytes()))
        return damagedModule("a relocation lies outside of what can be written");
      layout_.relocations.push_back({entry.r_offset, !addends, uint64_t(entry.r_addend)});
    }
    return {};
  }

  /// The table of sections says how many symbols there are, which the dynamic segment does not.
  Status addFunctions() {
    bool found = false;
    for (const Elf64_Shdr &section : elf_.sections()) {
      if (section.sh_type != SHT_DYNSYM)
        continue;
      if (std::exchange(found, true))
        return damagedModule("it has two tables of symbols");
      if (section.sh_link >= elf_.sections().size() ||
          !within(section.sh_offset, section.sh_size, elf_.bytes().size()))
        return damagedModule("its symbols lie past the end of the file; it may be truncated");
      const Elf64_Shdr &strings = elf_.sections()[section.sh_link];
      if (!within(strings.sh_offset, strings.sh_size, elf_.bytes().size()))
        return damagedModule("its symbols' names lie past the end of the file");
      auto names = elf_.bytes().subspan(strings.sh_offset, strings.sh_size);
      for (const Elf64_Sym &symbol : elf_.symbols({section.sh_offset, section.sh_size}))
        if (symbol.st_shndx != SHN_UNDEF && isExecutable(symbol.st_value))
          layout_.functions.emplace(stringAt(names, symbol.st_name), symbol.st_value);
    }
    return {};
  }

  uint64_t pageAfter(const CodeLayout::Segment &segment) const {
    return (segment.address + segment.memoryBytes + page_ - 1) / page_ * page_;
  }

  const CodeLayout::Segment *segmentOf(uint64_t address, uint64_t bytes) const {
    for (const CodeLayout::Segment &segment : layout_.segments)
      if (address >= segment.address &&
          within(address - segment.address, bytes, segment.memoryBytes))
        return &segment;
    return nullptr;
  }

  bool isWritable(uint64_t address, uint64_t bytes) const {
    auto segment = segmentOf(address, bytes);
    return segment && (segment->protection & PROT_WRITE);
  }

  bool isExecutable(uint64_t address) const {
    auto segment = segmentOf(address, 1);
    return segment && (segment->protection & PROT_EXEC);
  }

  std::optional<uint64_t> inFile(uint64_t address, uint64_t bytes) const {
    auto segment = segmentOf(address, bytes);
    if (!segment || !within(address - segment->address, bytes, segment->fileBytes))
      return std::nullopt;
    return segment->offset + (address - segment->address);
  }

  const ElfFile &elf_;
  const uint64_t page_ = uint64_t(sysconf(_SC_PAGESIZE));
  CodeLayout layout_;
};

} // namespace

Result<CodeLayout> readCodeLayout(std::span<const std::byte> file) {
  auto elf = ElfFile::open(file);
  if (!elf)
    return elf.status();
  if (elf->addressBytes() != sizeof(void *))
    return damagedModule("its addresses have " + std::to_string(8 * elf->addressBytes()) +
                         " bits, and this machine's " + std::to_string(8 * sizeof(void *)));
  return LayoutReader(*elf).read();
}

} // namespace tensmith::runtime
