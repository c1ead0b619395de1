// Rewriting the tables of an ELF file (System V ABI, "Object Files"); see ElfImage.h.
#include "compiler/module/ElfImage.h"

#include "compiler/module/ElfClass.h"
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

/// The symbol's name for people: the part that is a key of `labels`, up to the first dot, replaced.
std::string labelled(std::string_view name, const std::map<std::string, std::string> &labels) {
  size_t dot = std::min(name.find('.'), name.size());
  auto found = labels.find(std::string(name.substr(0, dot)));
  return found == labels.end() ? std::string(name) : found->second + std::string(name.substr(dot));
}

template <typename Elf>
void renameSymbols(Tables<Elf> &tables, const std::map<std::string, std::string> &labels) {
  auto *symbols = tables.find(".symtab"), *strings = tables.find(".strtab");
  if (labels.empty() || !symbols || !strings)
    return;
  std::string old = tables.image.substr(strings->sh_offset, strings->sh_size), renamed(1, '\0');
  for (uint64_t at = symbols->sh_offset; at < symbols->sh_offset + symbols->sh_size;
       at += sizeof(typename Elf::Symbol)) {
    typename Elf::Symbol symbol;
    std::memcpy(&symbol, tables.image.data() + at, sizeof symbol);
    if (symbol.st_name == 0 || symbol.st_name >= old.size())
      continue;
    std::string name = labelled(old.c_str() + symbol.st_name, labels);
    symbol.st_name = llvm::ELF::Elf32_Word(renamed.size());
    renamed += name + '\0';
    std::memcpy(tables.image.data() + at, &symbol, sizeof symbol);
  }
  tables.replace(*strings, renamed);
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
Result<ElfImage> finish(std::string linked, int64_t weightsBytes,
                        const std::map<std::string, std::string> &labels) {
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
  renameSymbols(tables, labels);
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

Result<ElfImage> finishImage(std::string linked, int64_t weightsBytes,
                             const std::map<std::string, std::string> &labels) {
  switch (elfClassOf(linked)) {
  case llvm::ELF::ELFCLASS64:
    return finish<Elf64>(std::move(linked), weightsBytes, labels);
  case llvm::ELF::ELFCLASS32:
    return finish<Elf32>(std::move(linked), weightsBytes, labels);
  default:
    return unreadable();
  }
}

} // namespace tensmith::modules
