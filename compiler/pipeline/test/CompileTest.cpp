// Whole compilations: graphs so deep or so entangled that walking them naively never ends, what
// there is no code for, and what is written beside the module.
#include "compiler/pipeline/Compile.h"
#include "base/FileMapping.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/test/KernelHarness.h"
#include "runtime/Describe.h"
#include "runtime/Module.h"
#include "runtime/Session.h"

#include "mlir/Parser/Parser.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tensmith::pipeline {
namespace {

using targets::cpu::TemporaryFolder;

/// `change` is done to the module before it is compiled.
Result<std::string> compile(const std::string &text, const CompileOptions &options = {},
                            llvm::function_ref<void(mlir::ModuleOp)> change = {}) {
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text.substr(0, 2000);
  if (!module)
    return Status(StatusCode::InvalidModel, "no text");
  if (change)
    change(*module);
  return compileToBytes(*module, options);
}

std::shared_ptr<const runtime::Module> load(const Result<std::string> &bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok())
    return nullptr;
  auto module = runtime::Module::loadBytes(std::as_bytes(std::span(*bytes)), {});
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? *module : nullptr;
}

std::vector<std::string> unemitted(const runtime::Module &module) {
  std::vector<std::string> result;
  for (const auto *attribute : *module.plan().metadata())
    if (attribute->name()->str() == "unemitted_kernels" && attribute->value_as_Texts()->values())
      for (const auto *text : *attribute->value_as_Texts()->values())
        result.push_back(text->str());
  return result;
}

/// So many operators one after the other: %PREFIX1 = op %from, %PREFIX2 = op %PREFIX1, ...; `op` is
/// given its operand once or twice.
std::string chain(const std::string &prefix, std::string from, int count, const std::string &op,
                  int operands, const std::string &type) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    std::string to = prefix + std::to_string(i);
    bool twice = operands == 2;
    text += to + " = " + op + " " + from + (twice ? ", " + from : "") + " : (" + type +
            (twice ? ", " + type : "") + ") -> " + type + "\n";
    from = to;
  }
  return text;
}

const std::string kSquare = "tensor<8x8xf32>", kRow = "tensor<1x8xf32>";

std::string function(const std::string &parameters, const std::string &body,
                     const std::string &result, const std::string &type = kSquare) {
  return "func.func @main(" + parameters + ") -> " + type + " {\n" + body + "return " + result +
         " : " + type + "\n}\n";
}

// What is emitted for an element walks a kernel's operators, deeper than a stack where those are
// all that a hostile model can chain up.
TEST(Compile, ALongChainIsCut) {
  auto module = load(compile(
      function("%x: " + kSquare, chain("%v", "%x", 30000, "graph.tanh", 1, kSquare), "%v30000")));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->plan().functions()->Get(0)->instructions()->size(), 118u);
  EXPECT_EQ(module->plan().kernels()->size(), 2u); // of 256 operators, and of the rest
}

// Whether the right operand is constant was asked of all that it is computed from.
TEST(Compile, ALongChainBeforeARightOperand) {
  std::string product =
      "%y = graph.matmul %x, %v30000 : (" + kSquare + ", " + kSquare + ") -> " + kSquare + "\n";
  EXPECT_TRUE(
      load(compile(function("%x: " + kSquare + ", %w: " + kSquare,
                            chain("%v", "%w", 30000, "graph.tanh", 1, kSquare) + product, "%y"))));
}

// From %p to %y, and from %b1 to %y, there are 2^60 paths.
TEST(Compile, ValuesUsedTwiceAreWalkedOnce) {
  std::string product = "%p = graph.matmul %x, %x : (" + kSquare + ", " + kSquare + ") -> " +
                        kSquare + "\n%r = graph.reshape %p : (" + kSquare + ") -> tensor<64xf32>\n";
  EXPECT_TRUE(load(compile(
      function("%x: " + kSquare, product + chain("%v", "%r", 60, "graph.mul", 2, "tensor<64xf32>"),
               "%v60", "tensor<64xf32>"))));
  std::string sum = "%s = graph.softmax %x {axis = 1 : i64} : (" + kSquare + ") -> " + kSquare +
                    "\n%y = graph.add %s, %b60 : (" + kSquare + ", " + kRow + ") -> " + kSquare +
                    "\n";
  EXPECT_TRUE(load(compile(function("%x: " + kSquare + ", %b: " + kRow,
                                    chain("%b", "%b", 60, "graph.mul", 2, kRow) + sum, "%y"))));
}

TEST(Compile, TheModuleSaysWhatThereIsNoCodeFor) {
  auto good = load(
      compile(function("%x: " + kSquare, chain("%v", "%x", 2, "graph.tanh", 1, kSquare), "%v2")));
  ASSERT_TRUE(good);
  EXPECT_EQ(unemitted(*good), std::vector<std::string>());
  EXPECT_NE(runtime::describeModule(*good).find("\"schedule\":\"loops\""), std::string::npos);
  std::string bytes = "tensor<8xf8E4M3FN>"; // only moved in kernels
  auto bad = load(
      compile(function("%x: " + bytes, chain("%v", "%x", 1, "graph.neg", 1, bytes), "%v1", bytes)));
  ASSERT_TRUE(bad);
  ASSERT_EQ(unemitted(*bad).size(), 1u);
  EXPECT_NE(unemitted(*bad)[0].find("no code"), std::string::npos) << unemitted(*bad)[0];
  EXPECT_NE(runtime::describeModule(*bad).find("\"unemitted_kernels\":[\""), std::string::npos);
}

// What a routine computes is no part of a join: it is copied there.
TEST(Compile, PartsThatThereIsNoCodeForAreCopied) {
  const std::string part = "tensor<4x3xf8E4M3FN>", turned = "tensor<3x4xf8E4M3FN>";
  for (bool rows : {true, false}) {
    std::string whole = rows ? "tensor<4x6xf8E4M3FN>" : "tensor<8x3xf8E4M3FN>";
    std::string body =
        chain("%a", "%x", 1, "graph.neg", 1, part) +
        "%b = graph.transpose %y {permutation = array<i64: 1, 0>} : (" + turned + ") -> " + part +
        "\n%j = graph.concat %a1, %b {axis = " + (rows ? "1" : "0") + " : i64} : (" + part + ", " +
        part + ") -> " + whole + "\n%r = graph.reverse %j {axes = array<i64: 0>} : (" + whole +
        ") -> " + whole + "\n";
    auto module = load(compile(function("%x: " + part + ", %y: " + turned, body, "%r", whole)));
    ASSERT_TRUE(module);
    EXPECT_EQ(unemitted(*module).size(), 1u);
    size_t joins = 0;
    for (const auto *instruction : *module->plan().functions()->Get(0)->instructions())
      joins += instruction->opcode() == plan::Opcode::Join;
    EXPECT_EQ(joins, 1u);
    std::vector<uint8_t> x(12), y(12), wanted(24);
    for (uint8_t i = 0; i < 12; ++i) {
      x[i] = uint8_t(8 + i); // positive
      y[i] = uint8_t(40 + i);
    }
    for (size_t row = 0; row < 4; ++row)
      for (size_t column = 0; column < 3; ++column) {
        size_t first = rows ? (3 - row) * 6 : (7 - row) * 3;
        size_t second = rows ? (3 - row) * 6 + 3 : (3 - row) * 3;
        wanted[first + column] = x[row * 3 + column] | 0x80;
        wanted[second + column] = y[column * 4 + row];
      }
    auto tensor = [](std::vector<uint8_t> &bytes, int64_t height) {
      return *runtime::Tensor::on(DataType::F8E4M3FN, Shape{height, 12 / height}, bytes.data(), {});
    };
    std::vector<runtime::TensorRef> inputs{tensor(x, 4), tensor(y, 3)}, outputs(1);
    runtime::Session session(module, 1);
    Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(std::memcmp(outputs[0]->data(), wanted.data(), wanted.size()), 0);
  }
}

const std::string kSmall =
    function("%x: " + kSquare, chain("%v", "%x", 1, "graph.tanh", 1, kSquare), "%v1");

TEST(Compile, StagesAndKernelsAreWritten) {
  TemporaryFolder folder;
  CompileOptions options;
  options.cacheFolder = folder.path() + "/cache";
  ASSERT_TRUE(compile(kSmall, options).ok());
  options.dumpFolder = folder.path() + "/a/b"; // also of what the cache has
  ASSERT_TRUE(compile(kSmall, options).ok());
  std::map<std::string, int> kinds;
  for (const auto &file : std::filesystem::directory_iterator(options.dumpFolder)) {
    EXPECT_GT(file.file_size(), 0u) << file.path();
    ++kinds[file.path().extension()];
  }
  EXPECT_GT(kinds[".mlir"], 5);
  EXPECT_EQ(kinds[".ll"], 2);
  EXPECT_EQ(kinds[".s"], 1);
}

TEST(Compile, AFolderThatCannotBeWrittenIsAnError) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "not a folder";
  CompileOptions options;
  options.dumpFolder = folder.path() + "/file/below";
  auto result = compile(kSmall, options);
  EXPECT_EQ(result.status().code(), StatusCode::IoError);
  EXPECT_NE(result.status().message().find(options.dumpFolder), std::string::npos)
      << result.status().message();
}

TEST(Compile, ACacheThatCannotBeWrittenIsWarnedOf) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "not a folder";
  CompileOptions options;
  options.cacheFolder = folder.path() + "/file/below";
  std::vector<std::string> warnings;
  options.warn = [&](const std::string &warning) { warnings.push_back(warning); };
  EXPECT_TRUE(compile(kSmall, options).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(options.cacheFolder), std::string::npos) << warnings[0];
}

/// Of the process, that are backed by files.
int64_t residentBytesOfFiles() {
  long all = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared;
  return int64_t(shared) * sysconf(_SC_PAGESIZE);
}

// Breaks if the model's file stays in memory, beside the weights that were packed from it, while
// code is generated.
TEST(Compile, LetsGoOfTheFileOncePacked) {
  constexpr int64_t kSide = 4096, kBytes = kSide * kSide * 4;
  TemporaryFolder folder;
  std::string path = folder.path() + "/weights";
  std::ofstream(path) << std::string(kBytes, '\1');
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto mapped = mapDescriptor(file, kBytes, path);
  close(file);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();

  int64_t packed = 0, generating = 0;
  CompileOptions options;
  options.cacheFolder.clear();
  options.progress = [&](std::string_view stage, double) {
    if (stage == "emitting kernels")
      packed = residentBytesOfFiles();
    else if (stage == "compiling kernels")
      generating = residentBytesOfFiles();
  };
  std::string type = "tensor<4096x4096xf32>", rows = "tensor<8x4096xf32>";
  std::string body = "%w = graph.constant {value = dense<0.0> : " + type + "} : () -> " + type +
                     "\n%y = graph.matmul %x, %w : (" + rows + ", " + type + ") -> " + rows + "\n";
  auto readFromFile = [&](mlir::ModuleOp module) {
    HostTensor weights(DataType::F32, {kSide, kSide}, mapped->bytes.data(), mapped->owner);
    module.walk([&](graph::ConstantOp constant) {
      constant.setValueAttr(graph::elementsAttr(module.getContext(), weights));
    });
  };
  auto bytes = compile(function("%x: " + rows, body, "%y", rows), options, readFromFile);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_GT(packed, kBytes);
  EXPECT_LT(generating, packed - kBytes / 2);
}

} // namespace
} // namespace tensmith::pipeline
