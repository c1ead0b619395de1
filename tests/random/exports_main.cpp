// random-exports: single operators as ONNX models, each with inputs and what the reference gives.
//
//   random-exports --each 6 --out folder     six of each operator that can be exported
//
// Folders are as ONNX's own test data: NAME-SEED/model.onnx, NAME-SEED/test_data_set_0/input_0.pb.
// Beside output_0.pb stands tolerance_0.pb: how far the result moves when each of the operator's
// roundings does (Evaluation.h).
#include "compiler/graph/Dialects.h"
#include "compiler/targets/Target.h"
#include "frontends/onnx/Export.h"
#include "tests/random/Generator.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace tensmith;
using namespace tensmith::random_graphs;

namespace {

struct Settings {
  uint64_t first = 1, each = 6;
  std::string only, folder = "random-exports";
};

void write(const std::filesystem::path &file, const std::string &bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

constexpr uint64_t kNoises = 4;

/// The largest difference of an element, as a scalar; 0 where it isn't of numbers that move.
HostTensor distance(const HostTensor &a, const std::vector<HostTensor> &moved) {
  HostTensor result(DataType::F64, {});
  double most = 0;
  for (const HostTensor &b : moved)
    for (int64_t i = 0; i < a.size() && isFloat(a.type()) && b.size() == a.size(); ++i)
      if (double apart = std::abs(a.getDouble(i) - b.getDouble(i)); apart > most)
        most = apart;
  result.setDouble(0, most);
  return result;
}

/// Inputs of the run's sizes and what comes of them; false where the reference refuses them.
bool writeData(mlir::func::FuncOp main, const Sizes &sizes, const std::filesystem::path &folder) {
  auto inputs = drawInputs(main, sizes);
  auto evaluated = inputs.ok() ? evaluateGraph(main, *inputs, sizes, std::nullopt)
                               : Result<Evaluated>(inputs.status());
  if (!evaluated.ok())
    return false;
  std::filesystem::create_directories(folder);
  for (auto [i, tensor] : llvm::enumerate(*inputs))
    write(folder / ("input_" + std::to_string(i) + ".pb"), tensorBytes(tensor, ""));
  std::vector<Evaluated> noisy;
  for (uint64_t seed = 1; seed <= kNoises; ++seed)
    if (auto once = evaluateGraph(main, *inputs, sizes, seed); once.ok())
      noisy.push_back(std::move(*once));
  auto results = main.getBody().front().getTerminator()->getOperands();
  for (auto [i, result] : llvm::enumerate(results)) {
    HostTensor value = evaluated->values.lookup(result);
    std::vector<HostTensor> moved;
    for (const Evaluated &once : noisy)
      moved.push_back(once.values.lookup(result));
    write(folder / ("output_" + std::to_string(i) + ".pb"), tensorBytes(value, ""));
    write(folder / ("tolerance_" + std::to_string(i) + ".pb"),
          tensorBytes(distance(value, moved), ""));
  }
  return true;
}

/// Whether a model of that operator was written.
bool exportOne(mlir::ModuleOp module, const std::filesystem::path &folder) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  std::filesystem::remove_all(folder);
  int sets = 0;
  for (const Sizes &sizes : runsOf(main))
    sets += writeData(main, sizes, folder / ("test_data_set_" + std::to_string(sets)));
  auto exported = exportModel(module);
  if (!exported.ok())
    std::printf("refused %s\n", exported.status().message().c_str());
  if (!exported.ok() || sets == 0) {
    std::filesystem::remove_all(folder);
    return false;
  }
  write(folder / "model.onnx", *exported);
  return true;
}

void exportOperator(mlir::MLIRContext &context, const std::string &name, const Settings &settings) {
  uint64_t made = 0, tries = settings.each * 16;
  for (uint64_t seed = settings.first; made < settings.each && tries-- > 0; ++seed)
    if (auto module = Generator(&context, seed).runOperator(name))
      made += exportOne(*module, std::filesystem::path(settings.folder) /
                                     (name + "-" + std::to_string(seed)));
  std::printf("exported %s %d\n", name.c_str(), int(made));
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Writes operators drawn at random as ONNX models.", "random-exports");
  Settings settings;
  app.add_option("--each", settings.each, "Models of each operator");
  app.add_option("--operator", settings.only, "Only this one");
  app.add_option("--first,--seed", settings.first, "Seed of the first");
  app.add_option("--out", settings.folder, "Where they go");
  CLI11_PARSE(app, argc, argv);
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  targets::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  for (const DrawnOperator &drawn : operatorsToDraw(&context)) {
    std::string name = drawn.name.stripDialect().str();
    bool wanted = settings.only.empty() ? drawn.weight > 0 : settings.only == name;
    bool parts = drawn.name.hasInterface<graph::Decomposable>();
    if (wanted && (parts || canExport(drawn.name.getStringRef())))
      exportOperator(context, name, settings);
  }
  return 0;
}
