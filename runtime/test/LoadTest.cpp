// Which image a module's kernels are of: each load maps the file that it was given, whatever was
// loaded or freed under its name before; and how that is mapped.
#include "TestModule.h"

#include "runtime/Session.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;
namespace fs = std::filesystem;

namespace {

using ModuleRef = std::shared_ptr<const Module>;

class Load : public testing::Test {
protected:
  Load() {
    std::string pattern = fs::temp_directory_path() / "tensmith-load-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Load() override { fs::remove_all(folder_); }

  /// A file of its own for each size, put in place by renaming.
  fs::path write(const char *name, int64_t size) const {
    Bytes bytes = addModule(size, {});
    std::ofstream(folder_ / "new", std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), long(bytes.size()));
    fs::rename(folder_ / "new", folder_ / name);
    return folder_ / name;
  }
  static ModuleRef open(const fs::path &path) {
    auto module = Module::load(path, {});
    EXPECT_TRUE(module.ok()) << module.status().message();
    return module ? *module : nullptr;
  }

  fs::path folder_;
};

/// The flags of the mapping that the address lies in, as proc(5) has them.
std::string flagsOfMapping(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  auto wanted = reinterpret_cast<uintptr_t>(address);
  uintptr_t begin = 0, end = 0;
  for (std::string line; std::getline(maps, line);) {
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      continue;
    if (line.starts_with("VmFlags:") && begin <= wanted && wanted < end)
      return line + " ";
  }
  return "";
}

/// Where the code lies that a module calls.
const void *codeOf(const ModuleRef &module) {
  for (const Step &step : module->program().functions[0].steps)
    if (step.entry)
      return reinterpret_cast<const void *>(step.entry);
  return nullptr;
}

void expectRuns(const ModuleRef &module, int64_t size) {
  Session session(module, 1);
  std::vector<TensorRef> inputs = {floats({size}, std::vector<float>(size_t(size), 1.0f))};
  std::vector<TensorRef> outputs(2);
  ASSERT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_EQ(floatsOf(outputs[1])[0], 2.0f * float(size));
}

size_t openFiles() {
  return size_t(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_F(Load, AnotherFileAfterOneThatWasLoadedTwice) {
  fs::path a = write("a", 3), b = write("b", 5);
  for (bool firstIsFreed : {true, false}) {
    ModuleRef first = open(a), second = open(a);
    (firstIsFreed ? first : second).reset();
    ModuleRef kept = firstIsFreed ? second : first, third = open(b), fourth = open(b);
    expectRuns(kept, 3);
    expectRuns(third, 5);
    expectRuns(fourth, 5);
  }
}

// Breaks if an address in the image isn't completed, or is still writable afterwards.
TEST_F(Load, AddressesInTheImageAreCompleted) {
  ModuleBuilder module;
  uint32_t table = module.kernel("test_table");
  FunctionBuilder main("main");
  uint32_t n = main.constant(3);
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::Kernel, table, {x}, {y}, {n});
  main.function.results = {y};
  module.add(std::move(main));
  ModuleRef loaded = load(module.finish());
  ASSERT_TRUE(loaded);
  Session session(loaded, 1);
  std::vector<TensorRef> inputs = {floats({3}, {1, 2, 3})}, outputs(1);
  ASSERT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_EQ(floatsOf(outputs[0]), (std::vector<float>{2, 6, 6}));
}

// Breaks if code is mapped such that it can be changed.
TEST_F(Load, CodeCanNotBeWritten) {
  ModuleRef module = open(write("a", 3));
  std::string flags = flagsOfMapping(codeOf(module));
  EXPECT_NE(flags.find(" ex "), std::string::npos) << flags;
  EXPECT_EQ(flags.find(" wr "), std::string::npos) << flags;
}

TEST_F(Load, AFileThatReplacedAnotherUnderItsName) {
  std::vector<ModuleRef> modules;
  for (int64_t size : {3, 5, 7, 9})
    modules.push_back(open(write("module", size)));
  for (size_t i = 0; i < modules.size(); ++i) {
    expectRuns(modules[i], int64_t(3 + 2 * i));
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(codeOf(modules[i]), codeOf(modules[j]));
  }
}

TEST_F(Load, FilesAndBytesInAnyOrder) {
  fs::path a = write("a", 3);
  ModuleRef fromFile = open(a), again = open(a), fromBytes = load(addModule(5, {}));
  again.reset();
  ModuleRef second = load(addModule(5, {}));
  for (const ModuleRef &other : {fromBytes, second})
    EXPECT_NE(codeOf(other), codeOf(fromFile));
  EXPECT_NE(codeOf(second), codeOf(fromBytes));
  fromFile.reset();
  fromBytes.reset();
  fromFile = open(a);
  expectRuns(fromFile, 3);
  expectRuns(second, 5);
}

// What is mapped needs no descriptor: a process that has many modules keeps its own.
TEST_F(Load, NoFileStaysOpen) {
  fs::path a = write("a", 3);
  size_t before = openFiles();
  ModuleRef file = open(a), bytes = load(addModule(5, {}));
  EXPECT_FALSE(Module::loadBytes(Bytes(3), {}).ok());
  EXPECT_FALSE(Module::load("/dev/zero", {}).ok());
  EXPECT_EQ(openFiles(), before);
  expectRuns(file, 3);
  expectRuns(bytes, 5);
}

// Breaks if weights in a file whose pages could be large are mapped by small ones.
TEST_F(Load, WeightsMayHaveHugePages) {
  if (!fs::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "this system has no huge pages";
  std::vector<float> weights(1 << 20, 1.0f);
  Bytes bytes = addModule(int64_t(weights.size()), weights);
  std::ofstream(folder_ / "module", std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), long(bytes.size()));
  ModuleRef module = open(folder_ / "module");
  ASSERT_TRUE(module);
  EXPECT_NE(flagsOfMapping(module->weights().data()).find(" hg "), std::string::npos);
}

} // namespace
