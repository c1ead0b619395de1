// The structures of ELF files of 32 and of 64 bits, for what is written alike for both. (Those of
// llvm/Object may lie anywhere: they have no alignment, which what is written has.)
#pragma once

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"

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
inline unsigned char elfClassOf(llvm::StringRef file) {
  auto [elfClass, order] = llvm::object::getElfArchType(file);
  bool isElf = file.starts_with(llvm::ELF::ElfMagic) && order == llvm::ELF::ELFDATA2LSB;
  return isElf ? elfClass : static_cast<unsigned char>(llvm::ELF::ELFCLASSNONE);
}

} // namespace tensmith::modules
