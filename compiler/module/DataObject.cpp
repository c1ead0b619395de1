// An ELF file by hand: header, the sections' bytes, symbols, names, the table of sections; see
// DataObject.h.
#include "compiler/module/DataObject.h"

#include "compiler/module/ElfClass.h"

#include "llvm/TargetParser/Triple.h"

#include <cstring>

using namespace llvm::ELF;

namespace tensmith::modules {
namespace {

constexpr size_t kAlignment = 64;

template <typename Elf> class ObjectFile {
  using Header = typename Elf::Header;
  using Section = typename Elf::Section;
  using Symbol = typename Elf::Symbol;

public:
  explicit ObjectFile(const ElfMachine &machine) {
    std::memcpy(header_.e_ident, ElfMagic, 4);
    header_.e_ident[EI_CLASS] = Elf::kClass;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_ident[EI_VERSION] = EV_CURRENT;
    header_.e_ident[EI_OSABI] = ELFOSABI_GNU; // which says what SHF_GNU_RETAIN is
    header_.e_type = ET_REL;
    header_.e_machine = machine.machine;
    header_.e_version = EV_CURRENT;
    header_.e_flags = machine.flags;
    header_.e_ehsize = sizeof(Header);
    header_.e_shentsize = sizeof(Section);
    bytes_.resize(sizeof header_);
    sections_.push_back({});
    symbols_.push_back({});
    addSymbol("data", STT_FILE, SHN_ABS, 0);
  }

  void add(const DataSection &section) {
    std::string_view bytes(reinterpret_cast<const char *>(section.bytes.data()),
                           section.bytes.size());
    addSymbol(section.name + 1, STT_OBJECT, Elf32_Half(sections_.size()), bytes.size());
    Section &entry = append(section.name, SHT_PROGBITS, bytes, kAlignment);
    entry.sh_flags = SHF_ALLOC | SHF_GNU_RETAIN;
  }

  std::string finish() {
    std::string_view symbols(reinterpret_cast<const char *>(symbols_.data()),
                             symbols_.size() * sizeof(Symbol));
    Section &table = append(".symtab", SHT_SYMTAB, symbols, alignof(Symbol));
    table.sh_entsize = sizeof(Symbol);
    table.sh_link = Elf32_Word(sections_.size()); // the names' section, which is next
    table.sh_info = Elf32_Word(symbols_.size());  // all are local
    append(".strtab", SHT_STRTAB, symbolNames_, 1);
    header_.e_shstrndx = Elf32_Half(sections_.size());
    nameOf(".shstrtab", sectionNames_); // before the names are written, itself among them
    append(".shstrtab", SHT_STRTAB, sectionNames_, 1);
    align(alignof(Section));
    header_.e_shoff = typename Elf::Offset(bytes_.size());
    header_.e_shnum = Elf32_Half(sections_.size());
    bytes_.append(reinterpret_cast<const char *>(sections_.data()),
                  sections_.size() * sizeof(Section));
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return std::move(bytes_);
  }

private:
  /// Where the name is among others, behind which it is put where it isn't.
  static Elf32_Word nameOf(std::string_view name, std::string &names) {
    std::string whole = std::string(name) + '\0';
    size_t found = names.find('\0' + whole);
    if (found != std::string::npos)
      return Elf32_Word(found + 1);
    names += whole;
    return Elf32_Word(names.size() - whole.size());
  }

  void addSymbol(std::string_view name, unsigned char type, Elf32_Half section, size_t size) {
    Symbol symbol{};
    symbol.st_name = nameOf(name, symbolNames_);
    symbol.setBindingAndType(STB_LOCAL, type);
    symbol.st_shndx = section;
    symbol.st_size = typename Elf::Offset(size);
    symbols_.push_back(symbol);
  }

  Section &append(std::string_view name, Elf32_Word type, std::string_view contents,
                  size_t alignment) {
    align(alignment);
    Section entry{};
    entry.sh_name = nameOf(name, sectionNames_);
    entry.sh_type = type;
    entry.sh_offset = typename Elf::Offset(bytes_.size());
    entry.sh_size = typename Elf::Offset(contents.size());
    entry.sh_addralign = typename Elf::Offset(alignment);
    bytes_ += contents;
    sections_.push_back(entry);
    return sections_.back();
  }

  void align(size_t alignment) { bytes_.resize(llvm::alignTo(bytes_.size(), alignment)); }

  Header header_{};
  std::string bytes_, symbolNames_ = std::string(1, '\0'), sectionNames_ = std::string(1, '\0');
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

template <typename Elf>
std::string objectOf(const std::vector<DataSection> &sections, const ElfMachine &machine) {
  ObjectFile<Elf> object(machine);
  for (const DataSection &section : sections)
    object.add(section);
  return object.finish();
}

template <typename Elf> Result<ElfMachine> machineIn(std::string_view object) {
  typename Elf::Header header;
  if (object.size() < sizeof header)
    return Status(StatusCode::Internal, "a kernel's object ends within its header");
  std::memcpy(&header, object.data(), sizeof header);
  return ElfMachine{header.e_machine, header.e_flags, Elf::kClass};
}

} // namespace

Result<ElfMachine> elfMachineOf(std::string_view object) {
  switch (elfClassOf(object)) {
  case ELFCLASS64:
    return machineIn<Elf64>(object);
  case ELFCLASS32:
    return machineIn<Elf32>(object);
  default:
    return Status(StatusCode::Internal, "a kernel is no little-endian ELF object");
  }
}

Result<ElfMachine> elfMachineFor(const std::string &triple) {
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64:
    return ElfMachine{EM_X86_64, 0, ELFCLASS64};
  case llvm::Triple::aarch64:
    return ElfMachine{EM_AARCH64, 0, ELFCLASS64};
  case llvm::Triple::riscv64:
    return ElfMachine{EM_RISCV, EF_RISCV_FLOAT_ABI_DOUBLE, ELFCLASS64};
  case llvm::Triple::arm:
    return ElfMachine{EM_ARM, EF_ARM_EABI_VER5 | EF_ARM_ABI_FLOAT_HARD, ELFCLASS32};
  default:
    return unsupported("no modules for " + triple);
  }
}

std::string dataObject(const std::vector<DataSection> &sections, const ElfMachine &machine) {
  return machine.elfClass == ELFCLASS32 ? objectOf<Elf32>(sections, machine)
                                        : objectOf<Elf64>(sections, machine);
}

} // namespace tensmith::modules
