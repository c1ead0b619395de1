// Reading the tables of both classes of ELF files, and a module's sections among them; see
// ElfFile.h.
#include "runtime/ElfFile.h"

namespace tensmith::runtime {
namespace {

constexpr uint64_t kMaxSections = 4096;

Elf64_Ehdr widened(const Elf32_Ehdr &from) {
  Elf64_Ehdr to = {};
  std::memcpy(to.e_ident, from.e_ident, sizeof(to.e_ident));
  to.e_type = from.e_type;
  to.e_machine = from.e_machine;
  to.e_phoff = from.e_phoff;
  to.e_shoff = from.e_shoff;
  to.e_phentsize = from.e_phentsize;
  to.e_phnum = from.e_phnum;
  to.e_shentsize = from.e_shentsize;
  to.e_shnum = from.e_shnum;
  to.e_shstrndx = from.e_shstrndx;
  return to;
}

Elf64_Shdr widened(const Elf32_Shdr &from) {
  return {from.sh_name, from.sh_type, from.sh_flags, from.sh_addr,      from.sh_offset,
          from.sh_size, from.sh_link, from.sh_info,  from.sh_addralign, from.sh_entsize};
}

Elf64_Phdr widened(const Elf32_Phdr &from) {
  return {from.p_type,  from.p_flags,  from.p_offset, from.p_vaddr,
          from.p_paddr, from.p_filesz, from.p_memsz,  from.p_align};
}

Elf64_Dyn widened(const Elf32_Dyn &from) { return {from.d_tag, {from.d_un.d_val}}; }

Elf64_Sym widened(const Elf32_Sym &from) {
  return {from.st_name, from.st_info, from.st_other, from.st_shndx, from.st_value, from.st_size};
}

Elf64_Rela widened(const Elf32_Rela &from) { return {from.r_offset, from.r_info, from.r_addend}; }

Elf64_Rela widened(const Elf64_Rel &from) { return {from.r_offset, from.r_info, 0}; }

Elf64_Rela widened(const Elf32_Rel &from) { return {from.r_offset, from.r_info, 0}; }

template <typename T> T widened(const T &from) { return from; }

bool isKnownMachine(uint16_t machine) {
  return machine == EM_X86_64 || machine == EM_AARCH64 || machine == EM_ARM || machine == EM_RISCV;
}

bool overlap(const FileRange &a, const FileRange &b) {
  return a.size && b.size && a.offset < b.end() && b.offset < a.end();
}

Status checkSections(const ModuleSections &sections) {
  if (sections.header.size != sizeof(ModuleHeader))
    return damagedModule(std::string("it has no section ") + kHeaderSection +
                         " of the right size; it was not written by tensmith");
  if (sections.plan.size == 0)
    return damagedModule(std::string("it has no section ") + kPlanSection);
  if (overlap(sections.header, sections.weights) || overlap(sections.plan, sections.weights) ||
      overlap(sections.header, sections.plan))
    return damagedModule("its sections overlap");
  return {};
}

} // namespace

#if defined(__x86_64__)
const uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
const uint16_t kHostMachine = EM_AARCH64;
#elif defined(__arm__)
const uint16_t kHostMachine = EM_ARM;
#elif defined(__riscv)
const uint16_t kHostMachine = EM_RISCV;
#else
#error "modules are made for x86-64, AArch64, Arm and RISC-V"
#endif

Status damagedModule(std::string what) {
  return {StatusCode::InvalidModule, "not a valid module: " + std::move(what)};
}

std::string machineName(uint16_t machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86-64";
  case EM_AARCH64:
    return "AArch64";
  case EM_ARM:
    return "32-bit Arm";
  case EM_RISCV:
    return "RISC-V";
  default:
    return "ELF machine " + std::to_string(machine);
  }
}

std::string_view stringAt(std::span<const std::byte> table, uint64_t offset) {
  if (offset >= table.size())
    return {};
  const char *begin = reinterpret_cast<const char *>(table.data()) + offset;
  const void *end = std::memchr(begin, 0, table.size() - offset);
  return end ? std::string_view(begin, size_t(static_cast<const char *>(end) - begin))
             : std::string_view();
}

template <typename Wide, typename Narrow> Wide ElfFile::at(uint64_t offset) const {
  return wide_ ? read<Wide>(offset) : widened(read<Narrow>(offset));
}

template <typename Wide, typename Narrow>
std::vector<Wide> ElfFile::all(const FileRange &range) const {
  std::vector<Wide> entries;
  uint64_t size = wide_ ? sizeof(Wide) : sizeof(Narrow);
  for (uint64_t at = 0; at + size <= range.size; at += size)
    entries.push_back(this->at<Wide, Narrow>(range.offset + at));
  return entries;
}

Status ElfFile::readHeader() {
  if (file_.empty())
    return damagedModule("the file is empty");
  if (file_.size() < sizeof(Elf64_Ehdr))
    return damagedModule("the file is too short for an ELF header");
  if (std::memcmp(file_.data(), ELFMAG, SELFMAG) != 0)
    return damagedModule("the file is no ELF file; a module is what `tensmith compile` writes");
  wide_ = uint8_t(file_[EI_CLASS]) != ELFCLASS32;
  header_ = at<Elf64_Ehdr, Elf32_Ehdr>(0);
  if (header_.e_ident[EI_CLASS] != (wide_ ? ELFCLASS64 : ELFCLASS32) ||
      header_.e_ident[EI_DATA] != ELFDATA2LSB || header_.e_ident[EI_VERSION] != EV_CURRENT)
    return damagedModule("the ELF file is not little-endian of 32 or 64 bits");
  if (header_.e_type != ET_DYN)
    return damagedModule("the ELF file is no shared object");
  if (!isKnownMachine(header_.e_machine))
    return damagedModule("the ELF file is for machine " + std::to_string(header_.e_machine) +
                         ", none of x86-64, AArch64, 32-bit Arm and RISC-V");
  return {};
}

Status ElfFile::readSections() {
  uint64_t size = wide_ ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  if (header_.e_shnum == 0 || header_.e_shentsize != size)
    return damagedModule("it has no section headers");
  if (header_.e_shnum > kMaxSections)
    return damagedModule("it has too many sections");
  if (!within(header_.e_shoff, header_.e_shnum * size, file_.size()))
    return damagedModule("its section headers lie past the end of the file; it may be truncated");
  if (header_.e_shstrndx >= header_.e_shnum)
    return damagedModule("it has no table of section names");
  sections_ = all<Elf64_Shdr, Elf32_Shdr>({header_.e_shoff, header_.e_shnum * size});
  const Elf64_Shdr &names = sections_[header_.e_shstrndx];
  if (names.sh_type != SHT_STRTAB || !within(names.sh_offset, names.sh_size, file_.size()))
    return damagedModule("its table of section names lies past the end of the file");
  return {};
}

Result<ElfFile> ElfFile::open(std::span<const std::byte> file) {
  ElfFile elf(file);
  if (Status status = elf.readHeader(); !status.ok())
    return status;
  if (Status status = elf.readSections(); !status.ok())
    return status;
  return elf;
}

std::string_view ElfFile::nameOf(const Elf64_Shdr &section) const {
  const Elf64_Shdr &names = sections_[header_.e_shstrndx];
  return stringAt(file_.subspan(names.sh_offset, names.sh_size), section.sh_name);
}

Result<std::vector<Elf64_Phdr>> ElfFile::segments() const {
  uint64_t size = wide_ ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
  if (header_.e_phentsize != size || header_.e_phnum > kMaxSections ||
      !within(header_.e_phoff, header_.e_phnum * size, file_.size()))
    return damagedModule("its program headers lie past the end of the file; it may be truncated");
  return all<Elf64_Phdr, Elf32_Phdr>({header_.e_phoff, header_.e_phnum * size});
}

std::vector<Elf64_Dyn> ElfFile::dynamicEntries(const FileRange &range) const {
  return all<Elf64_Dyn, Elf32_Dyn>(range);
}

std::vector<Elf64_Sym> ElfFile::symbols(const FileRange &range) const {
  return all<Elf64_Sym, Elf32_Sym>(range);
}

std::vector<Elf64_Rela> ElfFile::relocations(const FileRange &range, bool addends) const {
  if (addends)
    return all<Elf64_Rela, Elf32_Rela>(range);
  std::vector<Elf64_Rela> entries;
  uint64_t size = wide_ ? sizeof(Elf64_Rel) : sizeof(Elf32_Rel);
  for (uint64_t at = range.offset; at + size <= range.end(); at += size)
    entries.push_back(wide_ ? widened(read<Elf64_Rel>(at)) : widened(read<Elf32_Rel>(at)));
  return entries;
}

uint32_t ElfFile::relocationType(const Elf64_Rela &relocation) const {
  return wide_ ? uint32_t(ELF64_R_TYPE(relocation.r_info))
               : uint32_t(ELF32_R_TYPE(relocation.r_info));
}

Result<ModuleSections> findSections(std::span<const std::byte> file) {
  auto elf = ElfFile::open(file);
  if (!elf)
    return elf.status();
  ModuleSections sections;
  sections.machine = elf->machine();
  for (const Elf64_Shdr &section : elf->sections()) {
    std::string_view name = elf->nameOf(section);
    FileRange *range = name == kHeaderSection    ? &sections.header
                       : name == kPlanSection    ? &sections.plan
                       : name == kWeightsSection ? &sections.weights
                                                 : nullptr;
    if (!range || &section == &elf->sections().front()) // the first is none
      continue;
    if (range->size || range->offset)
      return damagedModule("it has two sections " + std::string(name));
    if (section.sh_type == SHT_NOBITS || !within(section.sh_offset, section.sh_size, file.size()))
      return damagedModule("section " + std::string(name) +
                           " lies past the end of the file; it may be truncated");
    *range = {section.sh_offset, section.sh_size};
  }
  if (Status status = checkSections(sections); !status.ok())
    return status;
  return sections;
}

} // namespace tensmith::runtime
