// The structures of ELF files of 32 and of 64 bits, for what is written alike for both.
#pragma once

#include "llvm/BinaryFormat/ELF.h"

#include <cstring>
#include <string_view>

namespace tensmith::modules {

struct Elf64 {
  using Header = llvm::ELF::Elf64_Ehdr;
  using Section = llvm::ELF::Elf64_Shdr;
  using Symbol = llvm::ELF::Elf64_Sym;
  using Offset = uint64_t;
  static constexpr unsigned char kClass = llvm::ELF::ELFCLASS64;
};

struct Elf32 {
  using Header = llvm::ELF::Elf32_Ehdr;
  using Section = llvm::ELF::Elf32_Shdr;
  using Symbol = llvm::ELF::Elf32_Sym;
  using Offset = uint32_t;
  static constexpr unsigned char kClass = llvm::ELF::ELFCLASS32;
};

/// Of a little-endian ELF file, else ELFCLASSNONE.
inline unsigned char elfClassOf(std::string_view file) {
  using namespace llvm::ELF;
  bool isElf = file.size() >= EI_NIDENT && std::memcmp(file.data(), ElfMagic, 4) == 0 &&
               file[EI_DATA] == ELFDATA2LSB;
  return isElf ? static_cast<unsigned char>(file[EI_CLASS])
               : static_cast<unsigned char>(ELFCLASSNONE);
}

} // namespace tensmith::modules
