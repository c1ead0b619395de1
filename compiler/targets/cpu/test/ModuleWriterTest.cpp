// That the file is what runtime/ModuleFormat.h says, and is there whole or not at all.
#include "compiler/targets/cpu/test/KernelHarness.h"
#include "runtime/ModuleImage.h"

#include "llvm/Object/ELFObjectFile.h"

#include <fstream>
#include <sys/mount.h>
#include <thread>

namespace fs = std::filesystem;

namespace tensmith::targets::cpu {
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
    CodeOptions options;
    options.cacheFolder.clear();
    KernelSource source{"double", elementwise("f32", "f32", "%y = arith.addf %x, %x : f32")};
    auto kernels = compileKernels({&source, 1}, hostCpu(), options);
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
  modules::ModuleParts parts;
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
  auto file = modules::moduleBytes(parts);
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

// Breaks if the writer and the reader of modules disagree on what is hashed.
TEST_F(ModuleWriterTest, TheReaderTakesItUnlessAByteIsWrong) {
  auto file = modules::moduleBytes(parts);
  ASSERT_TRUE(file.ok());
  auto sections = runtime::findSections(bytesOf(*file));
  ASSERT_TRUE(sections.ok()) << sections.status().message();
  auto check = [&](uint64_t flipped, bool weights) {
    std::string damaged = *file;
    if (flipped < damaged.size())
      damaged[flipped] = char(damaged[flipped] ^ 1);
    return runtime::checkImage(bytesOf(damaged), *sections, weights);
  };
  Status whole = check(file->size(), true);
  EXPECT_TRUE(whole.ok()) << whole.message();
  EXPECT_FALSE(check(sections->plan.offset, false).ok());
  EXPECT_FALSE(check(sections->header.offset + 12, false).ok());
  EXPECT_FALSE(check(sections->weights.offset - 1, false).ok()); // the image's last byte
  EXPECT_TRUE(check(sections->weights.offset + 9000, false).ok());
  EXPECT_FALSE(check(sections->weights.offset + 9000, true).ok());
}

TEST_F(ModuleWriterTest, FileAndBytesAreTheSame) {
  std::string path = folder.path() + "/m.so";
  Status status = modules::writeModule(parts, path);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(readFile(path), *modules::moduleBytes(parts));
  LoadedModule module(path);
  std::vector<float> x = {1, 2, 3}, y(3);
  auto kernel = module.kernel(symbol);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(callKernel(kernel, {x.data(), y.data()}, {3}), 0);
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6}));
}

// Breaks if profilers see hashes instead of nodes, or the loader sees anything but kernels.
TEST_F(ModuleWriterTest, SymbolsAreLabelledAndOnlyKernelsExported) {
  auto file = modules::moduleBytes(parts);
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
  auto file = modules::moduleBytes(parts);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(sectionsOf(*file).at(runtime::kWeightsSection).size, 0u);
}

TEST_F(ModuleWriterTest, RefusesWeightsThatOverlapOrExceed) {
  parts.weights[1].offset = 100;
  EXPECT_EQ(modules::moduleBytes(parts).status().code(), StatusCode::Internal);
  parts.weights[1].offset = 9500;
  EXPECT_EQ(modules::moduleBytes(parts).status().code(), StatusCode::Internal);
}

TEST_F(ModuleWriterTest, BadPathsLeaveNothingBehind) {
  EXPECT_EQ(modules::writeModule(parts, folder.path() + "/none/m.so").code(), StatusCode::IoError);
  EXPECT_EQ(modules::writeModule(parts, folder.path()).code(), StatusCode::IoError);
  EXPECT_EQ(modules::writeModule(parts, "/dev/full").code(), StatusCode::IoError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(ModuleWriterTest, ALinkIsFollowed) {
  std::string real = folder.path() + "/real.so", link = folder.path() + "/link.so";
  std::ofstream(real) << "before";
  fs::create_symlink(real, link);
  ASSERT_TRUE(modules::writeModule(parts, link).ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(readFile(real), *modules::moduleBytes(parts));
}

// A disk that is full.
TEST_F(ModuleWriterTest, AFullDiskIsSaidAndCleanedUp) {
  std::string disk = folder.path() + "/disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "needs the right to mount a small file system";
  std::ofstream(disk + "/m.so") << "before";
  parts.weightsBytes = 1 << 20;
  Status status = modules::writeModule(parts, disk + "/m.so");
  EXPECT_EQ(status.code(), StatusCode::IoError);
  EXPECT_NE(status.message().find("no space left on device"), std::string::npos)
      << status.message();
  EXPECT_EQ(readFile(disk + "/m.so"), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), fs::directory_iterator()), 1);
  umount2(disk.c_str(), MNT_DETACH);
}

// Breaks if lld ends the process, or can't be used again, after it ran out of space for its
// temporary files.
TEST_F(ModuleWriterTest, AFullTemporaryFolderIsAnError) {
  std::string disk = folder.path() + "/tmp", output = folder.path() + "/m.so";
  fs::create_directory(disk);
  for (const char *size : {"size=4k", "size=16k", "size=32k", "size=64k", "size=96k"}) {
    if (mount("tmpfs", disk.c_str(), "tmpfs", 0, size) != 0)
      GTEST_SKIP() << "needs the right to mount a small file system";
    setenv("TMPDIR", disk.c_str(), 1);
    Status status = modules::writeModule(parts, output);
    unsetenv("TMPDIR");
    umount2(disk.c_str(), MNT_DETACH);
    if (!status.ok()) // the largest may do
      EXPECT_EQ(status.code(), StatusCode::IoError) << size << ": " << status.message();
  }
  fs::remove(output);
  Status status = modules::writeModule(parts, output);
  EXPECT_TRUE(status.ok()) << status.message();
}

// Breaks if anything in code generation or linking is shared between threads without a lock.
TEST_F(ModuleWriterTest, SeveralThreadsCompileAndLink) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      CodeOptions options;
      options.cacheFolder.clear();
      options.threads = 2;
      std::vector<KernelSource> sources;
      for (int k = 0; k < 4; ++k)
        sources.push_back(
            {"k", elementwise("f32", "f32",
                              "%c = arith.constant " + std::to_string(10 * number + k) +
                                  ".0 : f32\n%y = arith.addf %x, %c : f32")});
      auto kernels = compileKernels(sources, hostCpu(), options);
      modules::ModuleParts own;
      if (kernels.ok())
        own.objects = kernels->objects;
      std::string path = folder.path() + "/" + std::to_string(number) + ".so";
      failures += !kernels.ok() || !modules::writeModule(own, path).ok();
      LoadedModule module(path);
      for (int k = 0; k < 4 && kernels.ok(); ++k) {
        std::vector<float> x = {1, 2}, y(2);
        auto kernel = module.kernel(kernels->symbols[size_t(k)]);
        failures += !kernel || callKernel(kernel, {x.data(), y.data()}, {2}) != 0 ||
                    y[1] != float(2 + 10 * number + k);
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

} // namespace
} // namespace tensmith::targets::cpu
