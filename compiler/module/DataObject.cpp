// An ELF file by hand: header, the sections' bytes, symbols, names, the table of sections; see
// DataObject.h.
#include "compiler/module/DataObject.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/TargetParser/Triple.h"

#include <cstring>

using namespace llvm::ELF;

namespace tensmith::modules {
namespace {

constexpr size_t kAlignment = 64;

class ObjectFile {
public:
  explicit ObjectFile(const ElfMachine &machine) {
    std::memcpy(header_.e_ident, ElfMagic, 4);
    header_.e_ident[EI_CLASS] = ELFCLASS64;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_ident[EI_VERSION] = EV_CURRENT;
    header_.e_ident[EI_OSABI] = ELFOSABI_GNU; // which says what SHF_GNU_RETAIN is
    header_.e_type = ET_REL;
    header_.e_machine = machine.machine;
    header_.e_version = EV_CURRENT;
    header_.e_flags = machine.flags;
    header_.e_ehsize = sizeof(Elf64_Ehdr);
    header_.e_shentsize = sizeof(Elf64_Shdr);
    bytes_.resize(sizeof header_);
    sections_.push_back({});
    symbols_.push_back({});
    addSymbol("data", STT_FILE, SHN_ABS, 0);
  }

  void add(const DataSection &section) {
    std::string_view bytes(reinterpret_cast<const char *>(section.bytes.data()),
                           section.bytes.size());
    addSymbol(section.name + 1, STT_OBJECT, Elf64_Half(sections_.size()), bytes.size());
    Elf64_Shdr &entry = append(section.name, SHT_PROGBITS, bytes, kAlignment);
    entry.sh_flags = SHF_ALLOC | SHF_GNU_RETAIN;
  }

  std::string finish() {
    std::string_view symbols(reinterpret_cast<const char *>(symbols_.data()),
                             symbols_.size() * sizeof(Elf64_Sym));
    Elf64_Shdr &table = append(".symtab", SHT_SYMTAB, symbols, alignof(Elf64_Sym));
    table.sh_entsize = sizeof(Elf64_Sym);
    table.sh_link = Elf64_Word(sections_.size()); // the names' section, which is next
    table.sh_info = Elf64_Word(symbols_.size());  // all are local
    append(".strtab", SHT_STRTAB, symbolNames_, 1);
    header_.e_shstrndx = Elf64_Half(sections_.size());
    nameOf(".shstrtab", sectionNames_); // before the names are written, itself among them
    append(".shstrtab", SHT_STRTAB, sectionNames_, 1);
    align(alignof(Elf64_Shdr));
    header_.e_shoff = bytes_.size();
    header_.e_shnum = Elf64_Half(sections_.size());
    bytes_.append(reinterpret_cast<const char *>(sections_.data()),
                  sections_.size() * sizeof(Elf64_Shdr));
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return std::move(bytes_);
  }

private:
  /// Where the name is among others, behind which it is put where it isn't.
  static Elf64_Word nameOf(std::string_view name, std::string &names) {
    std::string whole = std::string(name) + '\0';
    size_t found = names.find('\0' + whole);
    if (found != std::string::npos)
      return Elf64_Word(found + 1);
    names += whole;
    return Elf64_Word(names.size() - whole.size());
  }

  void addSymbol(std::string_view name, unsigned char type, Elf64_Half section, size_t size) {
    Elf64_Sym symbol{};
    symbol.st_name = nameOf(name, symbolNames_);
    symbol.setBindingAndType(STB_LOCAL, type);
    symbol.st_shndx = section;
    symbol.st_size = size;
    symbols_.push_back(symbol);
  }

  Elf64_Shdr &append(std::string_view name, Elf64_Word type, std::string_view contents,
                     size_t alignment) {
    align(alignment);
    Elf64_Shdr entry{};
    entry.sh_name = nameOf(name, sectionNames_);
    entry.sh_type = type;
    entry.sh_offset = bytes_.size();
    entry.sh_size = contents.size();
    entry.sh_addralign = alignment;
    bytes_ += contents;
    sections_.push_back(entry);
    return sections_.back();
  }

  void align(size_t alignment) { bytes_.resize(llvm::alignTo(bytes_.size(), alignment)); }

  Elf64_Ehdr header_{};
  std::string bytes_, symbolNames_ = std::string(1, '\0'), sectionNames_ = std::string(1, '\0');
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
};

} // namespace

Result<ElfMachine> elfMachineOf(std::string_view object) {
  Elf64_Ehdr header;
  if (object.size() >= sizeof header)
    std::memcpy(&header, object.data(), sizeof header);
  if (object.size() < sizeof header || !header.checkMagic() ||
      header.getFileClass() != ELFCLASS64 || header.getDataEncoding() != ELFDATA2LSB)
    return Status(StatusCode::Internal, "a kernel is no 64-bit, little-endian ELF object");
  return ElfMachine{header.e_machine, header.e_flags};
}

Result<ElfMachine> elfMachineFor(const std::string &triple) {
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64:
    return ElfMachine{EM_X86_64, 0};
  case llvm::Triple::aarch64:
    return ElfMachine{EM_AARCH64, 0};
  case llvm::Triple::riscv64:
    return ElfMachine{EM_RISCV, EF_RISCV_FLOAT_ABI_DOUBLE};
  default:
    return unsupported("no modules for " + triple);
  }
}

std::string dataObject(const std::vector<DataSection> &sections, const ElfMachine &machine) {
  ObjectFile object(machine);
  for (const DataSection &section : sections)
    object.add(section);
  return object.finish();
}

} // namespace tensmith::modules
