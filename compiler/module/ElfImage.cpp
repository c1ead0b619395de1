// Rewriting the tables of an ELF file (System V ABI, "Object Files"); see ElfImage.h.
#include "compiler/module/ElfImage.h"

#include "compiler/module/ElfClass.h"
#include "compiler/module/ModuleWriter.h"
#include "runtime/ModuleFormat.h"

#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

namespace tensmith::modules {
namespace {

template <typename Elf> struct Tables {
  using Section = typename Elf::Section;

  std::string &image;
  typename Elf::Header header;
  std::vector<Section> sections;
  std::string names; // the strings of the sections' names

  explicit Tables(std::string &image) : image(image) {
    std::memcpy(&header, image.data(), sizeof header);
    sections.resize(header.e_shnum);
    std::memcpy(sections.data(), image.data() + header.e_shoff, sections.size() * sizeof(Section));
    const Section &strings = sections[header.e_shstrndx];
    names.assign(image, strings.sh_offset, strings.sh_size);
    image.resize(header.e_shoff); // the table is the last thing in lld's images
  }

  Section *find(std::string_view name) {
    for (Section &section : sections)
      if (section.sh_name < names.size() && name == names.c_str() + section.sh_name)
        return &section;
    return nullptr;
  }

  /// Puts new contents of a section that isn't loaded at the image's end.
  void replace(Section &section, const std::string &contents) {
    align(8);
    section.sh_offset = typename Elf::Offset(image.size());
    section.sh_size = typename Elf::Offset(contents.size());
    image += contents;
  }

  void align(size_t alignment) {
    image.resize((image.size() + alignment - 1) / alignment * alignment);
  }
};

template <typename Elf> bool isReadable(const std::string &image) {
  typename Elf::Header header;
  if (image.size() < sizeof header)
    return false;
  std::memcpy(&header, image.data(), sizeof header);
  return header.e_shentsize == sizeof(typename Elf::Section) &&
         header.e_shoff + header.e_shnum * sizeof(typename Elf::Section) == image.size() &&
         header.e_shstrndx < header.e_shnum;
}

/// Calls `take` with each symbol that has a name and with that name; what it makes of the symbol is
/// written back.
template <typename Elf, typename Take> void eachSymbol(Tables<Elf> &tables, Take take) {
  auto *symbols = tables.find(".symtab"), *strings = tables.find(".strtab");
  if (!symbols || !strings)
    return;
  std::string names = tables.image.substr(strings->sh_offset, strings->sh_size);
  for (uint64_t at = symbols->sh_offset; at < symbols->sh_offset + symbols->sh_size;
       at += sizeof(typename Elf::Symbol)) {
    typename Elf::Symbol symbol;
    std::memcpy(&symbol, tables.image.data() + at, sizeof symbol);
    if (symbol.st_name == 0 || symbol.st_name >= names.size())
      continue;
    take(symbol, std::string_view(names.c_str() + symbol.st_name));
    std::memcpy(tables.image.data() + at, &symbol, sizeof symbol);
  }
}

/// The part of a function's name that an object exports: up to the first dot.
std::string exportedPart(std::string_view name) {
  return std::string(name.substr(0, name.find('.')));
}

/// The symbol's name for people: the exported part, if it has a label, replaced.
std::string labelled(std::string_view name, const std::map<std::string, std::string> &labels) {
  std::string exported = exportedPart(name);
  auto found = labels.find(exported);
  return found == labels.end() ? std::string(name)
                               : found->second + std::string(name.substr(exported.size()));
}

template <typename Elf>
void renameSymbols(Tables<Elf> &tables, const std::map<std::string, std::string> &labels) {
  if (labels.empty() || !tables.find(".symtab") || !tables.find(".strtab"))
    return;
  std::string renamed(1, '\0');
  eachSymbol(tables, [&](typename Elf::Symbol &symbol, std::string_view name) {
    symbol.st_name = llvm::ELF::Elf32_Word(renamed.size());
    renamed += labelled(name, labels) + '\0';
  });
  tables.replace(*tables.find(".strtab"), renamed);
}

template <typename Elf> Status addDebugSections(Tables<Elf> &tables, const ModuleParts &parts) {
  std::vector<DebugFunction> functions;
  eachSymbol(tables, [&](typename Elf::Symbol &symbol, std::string_view name) {
    auto nodes = parts.nodes.find(exportedPart(name));
    if (symbol.getType() == llvm::ELF::STT_FUNC && nodes != parts.nodes.end() &&
        !nodes->second.empty())
      functions.push_back(
          {symbol.st_value & ~uint64_t(tables.header.e_machine == llvm::ELF::EM_ARM),
           symbol.st_size, labelled(name, parts.labels), nodes->second});
  });
  llvm::sort(functions,
             [](const DebugFunction &a, const DebugFunction &b) { return a.address < b.address; });
  constexpr int kBits = sizeof(typename Elf::Offset) * 8;
  auto sections = debugSections(functions, kBits);
  if (!sections)
    return sections.status();
  for (const auto &[name, contents] : *sections) {
    typename Elf::Section section{};
    section.sh_name = llvm::ELF::Elf32_Word(tables.names.size());
    section.sh_type = llvm::ELF::SHT_PROGBITS;
    section.sh_addralign = 1;
    tables.names += name + '\0';
    tables.replace(section, contents);
    tables.sections.push_back(section);
  }
  return {};
}

/// Appends the section's header, whose offset is set once the image's size is known.
template <typename Elf> void addWeightsSection(Tables<Elf> &tables, int64_t bytes) {
  typename Elf::Section weights{};
  weights.sh_name = llvm::ELF::Elf32_Word(tables.names.size());
  weights.sh_type = llvm::ELF::SHT_PROGBITS;
  weights.sh_size = typename Elf::Offset(bytes);
  weights.sh_addralign = kWeightsAlignment;
  tables.names += runtime::kWeightsSection + std::string(1, '\0');
  tables.sections.push_back(weights);
}

Status unreadable() {
  return {StatusCode::Internal, "the linker's image isn't laid out as expected"};
}

template <typename Elf>
Result<ElfImage> finish(std::string linked, int64_t weightsBytes, const ModuleParts &parts) {
  if (weightsBytes < 0 ||
      uint64_t(weightsBytes) > std::numeric_limits<typename Elf::Offset>::max() / 2)
    return Status(StatusCode::Unsupported,
                  "the weights are more than the machine's memory can hold");
  if (!isReadable<Elf>(linked))
    return unreadable();
  Tables<Elf> tables(linked);
  const auto *header = tables.find(runtime::kHeaderSection);
  if (!header || header->sh_size != sizeof(runtime::ModuleHeader))
    return unreadable();
  ElfImage result;
  result.headerOffset = int64_t(header->sh_offset);
  if (Status status = addDebugSections(tables, parts); !status.ok())
    return status;
  renameSymbols(tables, parts.labels);
  addWeightsSection(tables, weightsBytes);
  tables.replace(tables.sections[tables.header.e_shstrndx], tables.names);
  tables.align(8);
  size_t tableOffset = linked.size();
  linked.resize(tableOffset + tables.sections.size() * sizeof(typename Elf::Section));
  tables.align(kWeightsAlignment);
  tables.sections.back().sh_offset = typename Elf::Offset(linked.size());
  tables.header.e_shoff = typename Elf::Offset(tableOffset);
  tables.header.e_shnum = llvm::ELF::Elf32_Half(tables.sections.size());
  std::memcpy(linked.data(), &tables.header, sizeof tables.header);
  std::memcpy(linked.data() + tableOffset, tables.sections.data(),
              tables.sections.size() * sizeof(typename Elf::Section));
  result.weightsOffset = int64_t(linked.size());
  result.bytes = std::move(linked);
  return result;
}

} // namespace

Result<ElfImage> finishImage(std::string linked, int64_t weightsBytes, const ModuleParts &parts) {
  switch (elfClassOf(linked)) {
  case llvm::ELF::ELFCLASS64:
    return finish<Elf64>(std::move(linked), weightsBytes, parts);
  case llvm::ELF::ELFCLASS32:
    return finish<Elf32>(std::move(linked), weightsBytes, parts);
  default:
    return unreadable();
  }
}

} // namespace tensmith::modules
