// Finds a module's sections in an ELF file whose every number may be a lie.
//
// Only what is needed is read: the file header, the section headers and their names (System V ABI,
// "Object Files"). Structures are copied out of the bytes, so alignment in the file does not
// matter.
#include "runtime/ModuleImage.h"

#include <cstring>
#include <elf.h>
#include <string_view>
#include <utility>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr uint64_t kMaxSections = 4096;
constexpr uint64_t kPage = 4096;
constexpr Elf64_Sxword kAudit = 0x6ffffefc, kDependencyAudit = 0x6ffffefb; // glibc's

Status damaged(std::string what) {
  return {StatusCode::InvalidModule, "not a valid module: " + std::move(what)};
}

bool within(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

/// The `T` at `offset`, which the caller has found to be in bounds.
template <typename T> T read(std::span<const std::byte> file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

Result<Elf64_Ehdr> readFileHeader(std::span<const std::byte> file) {
  if (file.empty())
    return damaged("the file is empty");
  if (file.size() < sizeof(Elf64_Ehdr))
    return damaged("the file is too short for an ELF header");
  auto header = read<Elf64_Ehdr>(file, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return damaged("the file is no ELF file; a module is what `tensmith compile` writes");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_ident[EI_VERSION] != EV_CURRENT)
    return damaged("the ELF file is not 64-bit little-endian");
  if (header.e_type != ET_DYN)
    return damaged("the ELF file is no shared object");
  if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
    return damaged("the ELF file is for machine " + std::to_string(header.e_machine) +
                   ", neither x86-64 nor AArch64");
  return header;
}

Status checkSectionTable(std::span<const std::byte> file, const Elf64_Ehdr &header) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr))
    return damaged("it has no section headers");
  if (header.e_shnum > kMaxSections)
    return damaged("it has too many sections");
  if (!within(header.e_shoff, uint64_t(header.e_shnum) * sizeof(Elf64_Shdr), file.size()))
    return damaged("its section headers lie past the end of the file; it may be truncated");
  if (header.e_shstrndx >= header.e_shnum)
    return damaged("it has no table of section names");
  return {};
}

Elf64_Shdr sectionAt(std::span<const std::byte> file, const Elf64_Ehdr &header, uint64_t index) {
  return read<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr));
}

/// The name at `offset` of the string table, or nothing where it has no end inside.
std::string_view nameAt(std::span<const std::byte> names, uint64_t offset) {
  if (offset >= names.size())
    return {};
  const char *begin = reinterpret_cast<const char *>(names.data()) + offset;
  const void *end = std::memchr(begin, 0, names.size() - offset);
  return end ? std::string_view(begin, size_t(static_cast<const char *>(end) - begin))
             : std::string_view();
}

bool overlap(const FileRange &a, const FileRange &b) {
  return a.size && b.size && a.offset < b.end() && b.offset < a.end();
}

Status checkSections(const ModuleSections &sections) {
  if (sections.header.size != sizeof(ModuleHeader))
    return damaged(std::string("it has no section ") + kHeaderSection +
                   " of the right size; it was not written by tensmith");
  if (sections.plan.size == 0)
    return damaged(std::string("it has no section ") + kPlanSection);
  if (overlap(sections.header, sections.weights) || overlap(sections.plan, sections.weights) ||
      overlap(sections.header, sections.plan))
    return damaged("its sections overlap");
  return {};
}

Result<std::vector<Elf64_Phdr>> readSegments(std::span<const std::byte> file) {
  auto header = read<Elf64_Ehdr>(file, 0);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSections ||
      !within(header.e_phoff, uint64_t(header.e_phnum) * sizeof(Elf64_Phdr), file.size()))
    return damaged("its program headers lie past the end of the file; it may be truncated");
  std::vector<Elf64_Phdr> segments;
  for (uint64_t i = 0; i < header.e_phnum; ++i)
    segments.push_back(read<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr)));
  return segments;
}

/// The bytes of the file that the loader will find at the dynamic segment's address.
Result<std::span<const std::byte>> dynamicEntries(std::span<const std::byte> file,
                                                  const std::vector<Elf64_Phdr> &segments) {
  const Elf64_Phdr *dynamic = nullptr, *loaded = nullptr;
  for (const Elf64_Phdr &segment : segments)
    if (segment.p_type == PT_DYNAMIC && std::exchange(dynamic, &segment))
      return damaged("it has two dynamic segments");
  if (!dynamic)
    return damaged("it has no dynamic segment");
  uint64_t first = dynamic->p_vaddr, size = dynamic->p_filesz;
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type != PT_LOAD)
      continue;
    uint64_t end; // segments are mapped in whole pages
    if (segment.p_filesz > segment.p_memsz ||
        __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end) ||
        __builtin_add_overflow(end, kPage - 1, &end))
      return damaged("a segment has no valid address");
    if (!loaded && within(first - segment.p_vaddr, size, segment.p_filesz))
      loaded = &segment;
    else if ((segment.p_vaddr & ~(kPage - 1)) < first + size && first < (end & ~(kPage - 1)))
      return damaged("its dynamic segment is overlapped by another");
  }
  uint64_t place = loaded ? loaded->p_offset + (first - loaded->p_vaddr) : 0;
  if (!loaded || place < loaded->p_offset || !within(place, size, file.size()))
    return damaged("its dynamic segment is not in the file");
  return file.subspan(place, size);
}

/// What has the loader run code or load other files.
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

} // namespace

Status checkLoading(std::span<const std::byte> file) {
  auto segments = readSegments(file);
  if (!segments)
    return segments.status();
  auto entries = dynamicEntries(file, *segments);
  if (!entries)
    return entries.status();
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= entries->size(); at += sizeof(Elf64_Dyn)) {
    auto entry = read<Elf64_Dyn>(*entries, at);
    if (entry.d_tag == DT_NULL)
      return {};
    if (reachesOut(entry.d_tag))
      return damaged("it would run code or load other libraries when it is loaded (dynamic tag " +
                     std::to_string(entry.d_tag) + "); no compiled model does");
  }
  return damaged("its dynamic segment has no end");
}

Result<ModuleSections> findSections(std::span<const std::byte> file) {
  auto header = readFileHeader(file);
  if (!header)
    return header.status();
  if (Status status = checkSectionTable(file, *header); !status.ok())
    return status;
  Elf64_Shdr table = sectionAt(file, *header, header->e_shstrndx);
  if (table.sh_type != SHT_STRTAB || !within(table.sh_offset, table.sh_size, file.size()))
    return damaged("its table of section names lies past the end of the file");
  auto names = file.subspan(table.sh_offset, table.sh_size);

  ModuleSections sections;
  sections.machine = header->e_machine;
  for (uint64_t i = 1; i < header->e_shnum; ++i) {
    Elf64_Shdr section = sectionAt(file, *header, i);
    std::string_view name = nameAt(names, section.sh_name);
    FileRange *range = name == kHeaderSection    ? &sections.header
                       : name == kPlanSection    ? &sections.plan
                       : name == kWeightsSection ? &sections.weights
                                                 : nullptr;
    if (!range)
      continue;
    if (range->size || range->offset)
      return damaged("it has two sections " + std::string(name));
    if (section.sh_type == SHT_NOBITS || !within(section.sh_offset, section.sh_size, file.size()))
      return damaged("section " + std::string(name) +
                     " lies past the end of the file; it may be truncated");
    *range = {section.sh_offset, section.sh_size};
  }
  if (Status status = checkSections(sections); !status.ok())
    return status;
  return sections;
}

} // namespace tensmith::runtime
