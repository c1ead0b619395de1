// The object file of a module's header and plan, as LLVM's reader sees it.
#include "compiler/module/DataObject.h"
#include "compiler/module/Linker.h"

#include "llvm/Object/ELFObjectFile.h"

#include <gtest/gtest.h>

namespace tensmith::modules {
namespace {

std::span<const std::byte> bytesOf(llvm::StringRef text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Calls `look` with the file's sections by their names.
void sectionsOf(
    const std::string &file,
    llvm::function_ref<void(const llvm::object::ELFSectionRef &, llvm::StringRef)> look) {
  auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(file, "object"));
  ASSERT_TRUE(bool(object)) << llvm::toString(object.takeError());
  for (llvm::object::ELFSectionRef section : (*object)->sections())
    look(section, llvm::cantFail(section.getName()));
}

TEST(DataObject, HoldsWhatItIsGiven) {
  std::string plan(1000, 'p');
  std::string file =
      dataObject({{".tensmith.header", bytesOf("short")}, {".tensmith.plan", bytesOf(plan)}},
                 {llvm::ELF::EM_AARCH64, 7, llvm::ELF::ELFCLASS64});
  auto machine = elfMachineOf(file);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->machine, llvm::ELF::EM_AARCH64);
  EXPECT_EQ(machine->flags, 7U);
  int found = 0;
  sectionsOf(file, [&](const llvm::object::ELFSectionRef &section, llvm::StringRef name) {
    if (!name.starts_with(".tensmith"))
      return;
    ++found;
    EXPECT_EQ(llvm::cantFail(section.getContents()), name == ".tensmith.plan" ? plan : "short");
    EXPECT_EQ(section.getAlignment().value(), 64U);
    EXPECT_EQ(section.getFlags(), uint64_t(llvm::ELF::SHF_ALLOC | llvm::ELF::SHF_GNU_RETAIN));
  });
  EXPECT_EQ(found, 2);
}

// Breaks if the linker drops what nothing refers to, or doesn't take the object for a CPU's.
TEST(DataObject, IsLinkedForEveryCpu) {
  for (const char *triple :
       {"x86_64-pc-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu", "armv7-linux-gnueabihf"}) {
    auto machine = elfMachineFor(triple);
    ASSERT_TRUE(machine.ok()) << triple;
    std::string object = dataObject({{".tensmith.plan", bytesOf("what it does")}}, *machine);
    auto linked = linkShared({std::span<const char>(object)}, "module.so");
    ASSERT_TRUE(linked.ok()) << triple << ": " << linked.status().message();
    EXPECT_EQ(elfMachineOf(*linked)->machine, machine->machine);
    bool found = false;
    sectionsOf(*linked, [&](const llvm::object::ELFSectionRef &section, llvm::StringRef name) {
      found |= name == ".tensmith.plan" && llvm::cantFail(section.getContents()) == "what it does";
    });
    EXPECT_TRUE(found) << triple;
  }
}

TEST(DataObject, RefusesOtherFiles) {
  EXPECT_EQ(elfMachineOf("no object").status().code(), StatusCode::Internal);
  EXPECT_EQ(elfMachineFor("sparc-linux-gnu").status().code(), StatusCode::Unsupported);
}

} // namespace
} // namespace tensmith::modules
