// An ELF file whose every number may be a lie: its headers and tables, read within the file's
// bounds (System V ABI, "Object Files").
//
// Files of 32 bits (Arm) are read into the structures of 64 bits, so that nobody else need know
// which it is. Structures are copied out of the bytes, so alignment in the file does not matter.
#pragma once

#include "base/Status.h"
#include "runtime/ModuleImage.h"

#include <cstring>
#include <elf.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::runtime {

/// InvalidModule: "not a valid module: ...".
Status damagedModule(std::string what);

/// Whether [offset, offset + size) ends by `limit`.
inline bool within(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

/// How people call an ELF machine: "x86-64", "AArch64", or its number.
std::string machineName(uint16_t machine);
/// That of the process.
extern const uint16_t kHostMachine;

class ElfFile {
public:
  /// A little-endian shared object with a table of sections, for a machine that modules are made
  /// for. The bytes must outlive it.
  static Result<ElfFile> open(std::span<const std::byte> file);

  uint16_t machine() const { return header_.e_machine; }
  std::span<const std::byte> bytes() const { return file_; }
  const std::vector<Elf64_Shdr> &sections() const { return sections_; }
  /// Nothing where the name has no end inside its table.
  std::string_view nameOf(const Elf64_Shdr &section) const;

  Result<std::vector<Elf64_Phdr>> segments() const;
  /// The entries of the range, which must lie in the file: one that is cut off at its end is none.
  std::vector<Elf64_Dyn> dynamicEntries(const FileRange &range) const;
  std::vector<Elf64_Sym> symbols(const FileRange &range) const;
  /// `addends`: they stand in the entries, and not at the places that they are for (they are 0
  /// here).
  std::vector<Elf64_Rela> relocations(const FileRange &range, bool addends) const;
  uint32_t relocationType(const Elf64_Rela &relocation) const;
  /// Of an address in the image.
  size_t addressBytes() const { return wide_ ? 8 : 4; }

private:
  explicit ElfFile(std::span<const std::byte> file) : file_(file) {}
  Status readHeader();
  Status readSections();

  template <typename T> T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof(T));
    return value;
  }
  /// The structure of this file's class, as that of 64 bits.
  template <typename Wide, typename Narrow> Wide at(uint64_t offset) const;
  template <typename Wide, typename Narrow> std::vector<Wide> all(const FileRange &range) const;

  std::span<const std::byte> file_;
  bool wide_ = true;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
};

/// The string at `offset` of a table, or nothing where it has no end inside.
std::string_view stringAt(std::span<const std::byte> table, uint64_t offset);

} // namespace tensmith::runtime
