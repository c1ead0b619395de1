// That the file is what runtime/ModuleFormat.h says, and is there whole or not at all.
#include "compiler/target/cpu/test/KernelHarness.h"
#include "runtime/ModuleFormat.h"

#include "llvm/Object/ELFObjectFile.h"

#include <fstream>
#include <sys/mount.h>

namespace fs = std::filesystem;

namespace tensmith::target::cpu {
namespace {

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A module with one kernel, a plan and two pieces of weights.
class ModuleWriterTest : public testing::Test {
protected:
  void SetUp() override {
    KernelCompilerOptions options;
    options.cacheFolder.clear();
    KernelSource source{"double", elementwise("f32", "f32", "%y = arith.addf %x, %x : f32")};
    auto kernels = compileKernels({&source, 1}, hostMachine(), options);
    ASSERT_TRUE(kernels.ok()) << kernels.status().message();
    symbol = kernels->symbols[0];
    parts.objects = kernels->objects;
    parts.plan = bytesOf(plan);
    parts.weights = {{64, bytesOf(first)}, {8192, bytesOf(second)}};
    parts.weightsBytes = 10000;
    parts.labels[symbol] = "layer1.add";
  }

  std::string plan = "the plan's bytes", first = std::string(100, 'a'),
              second = std::string(1000, 'b'), symbol;
  ModuleParts parts;
  TemporaryFolder folder;
};

struct Section {
  uint64_t offset = 0, size = 0, address = 0, flags = 0;
};

std::map<std::string, Section> sectionsOf(const std::string &file) {
  std::map<std::string, Section> result;
  auto object =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(file, "module"));
  EXPECT_TRUE(bool(object));
  for (const auto &section : llvm::cast<llvm::object::ELFObjectFileBase>(**object).sections()) {
    llvm::object::ELFSectionRef elf(section);
    result[llvm::cantFail(elf.getName()).str()] = {elf.getOffset(), elf.getSize(), elf.getAddress(),
                                                   elf.getFlags()};
  }
  return result;
}

TEST_F(ModuleWriterTest, SectionsHoldWhatWasGiven) {
  auto file = moduleBytes(parts);
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto sections = sectionsOf(*file);
  Section planAt = sections.at(runtime::kPlanSection),
          weights = sections.at(runtime::kWeightsSection);
  EXPECT_EQ(file->substr(planAt.offset, planAt.size), plan);
  EXPECT_NE(planAt.address, 0u);
  EXPECT_EQ(weights.address, 0u);
  EXPECT_EQ(weights.flags & llvm::ELF::SHF_ALLOC, 0u);
  EXPECT_EQ(weights.offset % 4096, 0u);
  ASSERT_EQ(weights.size, 10000u);
  ASSERT_EQ(weights.offset + weights.size, file->size());
  std::string expected(10000, '\0');
  expected.replace(64, 100, first).replace(8192, 1000, second);
  EXPECT_EQ(file->substr(weights.offset), expected);
}

TEST_F(ModuleWriterTest, HeaderVouchesForTheFile) {
  auto file = moduleBytes(parts);
  ASSERT_TRUE(file.ok());
  auto sections = sectionsOf(*file);
  Section at = sections.at(runtime::kHeaderSection),
          weights = sections.at(runtime::kWeightsSection);
  runtime::ModuleHeader header;
  ASSERT_EQ(at.size, sizeof header);
  std::memcpy(&header, file->data() + at.offset, sizeof header);
  EXPECT_EQ(header.magic, runtime::kMagic);
  EXPECT_EQ(header.kernelAbi, uint32_t(TENSMITH_KERNEL_ABI));
  std::string image = file->substr(0, weights.offset);
  std::memset(image.data() + at.offset + offsetof(runtime::ModuleHeader, imageHash), 0, 32);
  Hash128 imageHash = hash128(std::string_view(image)),
          weightsHash = hash128(std::string_view(*file).substr(weights.offset));
  EXPECT_EQ(header.imageHash[0], imageHash.low);
  EXPECT_EQ(header.imageHash[1], imageHash.high);
  EXPECT_EQ(header.weightsHash[0], weightsHash.low);
  EXPECT_EQ(header.weightsHash[1], weightsHash.high);
}

TEST_F(ModuleWriterTest, FileAndBytesAreTheSame) {
  std::string path = folder.path() + "/m.so";
  Status status = writeModule(parts, path);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(readFile(path), *moduleBytes(parts));
  LoadedModule module(path);
  std::vector<float> x = {1, 2, 3}, y(3);
  auto kernel = module.kernel(symbol);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(callKernel(kernel, {x.data(), y.data()}, {3}), 0);
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6}));
}

// Breaks if profilers see hashes instead of nodes, or the loader sees anything but kernels.
TEST_F(ModuleWriterTest, SymbolsAreLabelledAndOnlyKernelsExported) {
  auto file = moduleBytes(parts);
  ASSERT_TRUE(file.ok());
  auto object =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(*file, "module"));
  ASSERT_TRUE(bool(object));
  auto &elf = llvm::cast<llvm::object::ELFObjectFileBase>(**object);
  std::vector<std::string> exported, names;
  for (const auto &each : elf.getDynamicSymbolIterators())
    exported.push_back(llvm::cantFail(each.getName()).str());
  for (const auto &each : elf.symbols())
    names.push_back(llvm::cantFail(each.getName()).str());
  EXPECT_EQ(exported, std::vector<std::string>{symbol});
  for (const char *wanted : {"layer1.add", "layer1.add.body", "layer1.add.inner"})
    EXPECT_TRUE(llvm::is_contained(names, wanted)) << wanted;
}

TEST_F(ModuleWriterTest, AModuleWithoutKernelsOrWeights) {
  parts.objects.clear();
  parts.weights.clear();
  parts.weightsBytes = 0;
  auto file = moduleBytes(parts);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(sectionsOf(*file).at(runtime::kWeightsSection).size, 0u);
}

TEST_F(ModuleWriterTest, RefusesWeightsThatOverlapOrExceed) {
  parts.weights[1].offset = 100;
  EXPECT_EQ(moduleBytes(parts).status().code(), StatusCode::Internal);
  parts.weights[1].offset = 9500;
  EXPECT_EQ(moduleBytes(parts).status().code(), StatusCode::Internal);
}

TEST_F(ModuleWriterTest, BadPathsLeaveNothingBehind) {
  EXPECT_EQ(writeModule(parts, folder.path() + "/none/m.so").code(), StatusCode::IoError);
  EXPECT_EQ(writeModule(parts, folder.path()).code(), StatusCode::IoError);
  EXPECT_EQ(writeModule(parts, "/dev/full").code(), StatusCode::IoError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(ModuleWriterTest, ALinkIsFollowed) {
  std::string real = folder.path() + "/real.so", link = folder.path() + "/link.so";
  std::ofstream(real) << "before";
  fs::create_symlink(real, link);
  ASSERT_TRUE(writeModule(parts, link).ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(readFile(real), *moduleBytes(parts));
}

// A disk that is full.
TEST_F(ModuleWriterTest, AFullDiskIsSaidAndCleanedUp) {
  std::string disk = folder.path() + "/disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "needs the right to mount a small file system";
  std::ofstream(disk + "/m.so") << "before";
  parts.weightsBytes = 1 << 20;
  Status status = writeModule(parts, disk + "/m.so");
  EXPECT_EQ(status.code(), StatusCode::IoError);
  EXPECT_NE(status.message().find("no space left on device"), std::string::npos)
      << status.message();
  EXPECT_EQ(readFile(disk + "/m.so"), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), fs::directory_iterator()), 1);
  umount(disk.c_str());
}

} // namespace
} // namespace tensmith::target::cpu
