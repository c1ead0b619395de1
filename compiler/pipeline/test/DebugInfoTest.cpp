// What LLVM's reader of DWARF finds in modules: for each function of a kernel the nodes of the
// model.
#include "compiler/graph/Dialects.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/targets/Target.h"
#include "runtime/Module.h"

#include "mlir/Parser/Parser.h"

#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/Object/ELFObjectFile.h"

#include <gtest/gtest.h>

#include <set>

namespace tensmith::pipeline {
namespace {

// Two kernels of one structure, and one of two nodes; the softmax between keeps them apart.
constexpr char kModel[] = R"mlir(
#first = loc("a (Tanh)"("dir/model.onnx":1:0))
#second = loc("b (MatMul)"("dir/model.onnx" : 2 : 0))
#third = loc("layers.tsm:7:3 relu")
#fourth = loc("c (MatMul)"("dir/model.onnx" : 4 : 0))
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#second)
  %1 = graph.softmax %0 {axis = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(#first)
  %2 = graph.matmul %1, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#fourth)
  %3 = graph.sin %2 : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(#third)
  return %3 : tensor<8x8xf32>
}
)mlir";

std::string compile(const CompileOptions &options) {
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModel, &context);
  EXPECT_TRUE(module);
  auto bytes = compileToBytes(*module, options);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : std::string();
}

struct Reading {
  std::set<std::string> labels;                        // "file:line name"
  std::vector<std::pair<std::string, uint64_t>> lines; // of each function, at its middle
  bool isWhole = true;                                 // LLVM's verifier finds nothing
};

Reading read(const std::string &bytes) {
  Reading reading;
  auto object = llvm::cantFail(
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "module")));
  auto context = llvm::DWARFContext::create(*object);
  std::string complaints;
  llvm::raw_string_ostream stream(complaints);
  reading.isWhole = context->verify(stream);
  EXPECT_TRUE(reading.isWhole) << complaints;
  using llvm::DINameKind;
  using FileKind = llvm::DILineInfoSpecifier::FileLineInfoKind;
  for (const auto &unit : context->compile_units())
    for (const auto &entry : unit->dies()) {
      llvm::DWARFDie die(unit.get(), &entry);
      if (die.getTag() == llvm::dwarf::DW_TAG_label)
        reading.labels.insert(die.getDeclFile(FileKind::RawValue) + ":" +
                              std::to_string(die.getDeclLine()) + " " +
                              die.getName(DINameKind::ShortName));
      uint64_t low, high, section;
      if (die.getTag() != llvm::dwarf::DW_TAG_subprogram ||
          !die.getLowAndHighPC(low, high, section))
        continue;
      auto line = context->getLineInfoForAddress({low + (high - low) / 2},
                                                 {FileKind::RawValue, DINameKind::ShortName});
      EXPECT_EQ(line.FunctionName, die.getName(DINameKind::ShortName));
      reading.lines.emplace_back(line.FileName, line.Line);
    }
  return reading;
}

// Breaks if a function has no line, a node of a fused kernel is left out, an address is wrong on a
// machine, or DWARF isn't well-formed.
TEST(DebugInfo, NamesTheNodesOfEachKernel) {
  for (const char *target : {"x86-64-v3", "aarch64:cortex-a53", "armv7:cortex-a7"}) {
    SCOPED_TRACE(target);
    CompileOptions options;
    options.target = target;
    options.model = "model.onnx";
    Reading reading = read(compile(options));
    EXPECT_EQ(reading.labels, (std::set<std::string>{
                                  "model.onnx:1 a (Tanh)", "model.onnx:2 b (MatMul)",
                                  "layers.tsm:7 layers.tsm:7:3 relu", "model.onnx:4 c (MatMul)"}));
    EXPECT_GE(reading.lines.size(), 2u);
    for (const auto &[file, line] : reading.lines) {
      EXPECT_TRUE(file == "model.onnx" || file == "layers.tsm") << file;
      EXPECT_GT(line, 0u);
    }
  }
}

// Breaks if the option does nothing, or what it adds isn't small.
TEST(DebugInfo, CanBeLeftOut) {
  CompileOptions with, without;
  without.debugInfo = false;
  std::string told = compile(with), silent = compile(without);
  EXPECT_TRUE(read(silent).lines.empty());
  EXPECT_FALSE(read(told).lines.empty());
  EXPECT_LT(told.size() - silent.size(), 2 * 4096u);
}

} // namespace
} // namespace tensmith::pipeline
