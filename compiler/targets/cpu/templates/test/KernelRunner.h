// Runs a kernel's region two ways, compiled and by reference, on random operands.
#pragma once

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/targets/cpu/machine/KernelMachine.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include "mlir/IR/Verifier.h"

#include <random>

namespace tensmith::kernel {

inline Machine hostKernelMachine() { return targets::cpu::kernelMachine(targets::cpu::hostCpu()); }

/// Lets a machine without an instruction for such products have them, slowly.
inline void addPortable(Machine &machine, Number left, Number right, Number sum, int64_t rows = 1) {
  machine.intrinsics.push_back(portableIntrinsic(left, right, sum, rows));
}

/// A function with one graph.kernel, from text.
class KernelRunner {
public:
  explicit KernelRunner(const std::string &text, const Machine &machine = hostKernelMachine(),
                        llvm::ArrayRef<SizedPoint> points = {})
      : context_(registry()), machine_(machine), points_(points) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module_)
      return;
    module_->walk([&](graph::KernelOp op) { kernel_ = op; });
    function_ = *module_->getOps<mlir::func::FuncOp>().begin();
    compile();
  }

  bool ok() const { return entry_ != nullptr; }
  const std::string &summary() const { return summary_; }
  /// The code that its template emits.
  const std::string &text() const { return source_.text; }

  /// Random operands for the shapes that the symbols have with those values.
  std::vector<HostTensor> operands(std::map<std::string, int64_t> symbols, uint32_t seed = 1) {
    symbols_ = std::move(symbols);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    std::vector<HostTensor> result;
    for (mlir::Value input : kernel_.getInputs()) {
      HostTensor tensor(graph::dataType(mlir::getElementTypeOrSelf(input.getType())),
                        shape(input.getType()));
      for (int64_t i = 0; i < tensor.size(); ++i)
        isFloat(tensor.type()) ? tensor.setDouble(i, real(random))
                               : tensor.setInt(i, int64_t(random() % 7) - 3);
      result.push_back(std::move(tensor));
    }
    return result;
  }

  std::vector<HostTensor> compiled(std::vector<HostTensor> &inputs) {
    std::vector<HostTensor> results;
    for (mlir::Value output : kernel_.getResults())
      results.emplace_back(graph::dataType(mlir::getElementTypeOrSelf(output.getType())),
                           shape(output.getType()));
    call(inputs, results);
    return results;
  }

  void call(std::vector<HostTensor> &inputs, std::vector<HostTensor> &results) {
    std::vector<void *> pointers;
    for (HostTensor &tensor : inputs)
      pointers.push_back(tensor.mutableData());
    for (HostTensor &tensor : results)
      pointers.push_back(tensor.mutableData());
    std::vector<int64_t> sizes;
    for (const std::string &name : sizes_)
      sizes.push_back(symbols_.at(name));
    TensmithServices services{};
    services.parallel_for = [](const TensmithCall *call, int64_t count, int64_t, TensmithBody body,
                               void *closure) {
      static_cast<Run *>(call->context)->items = count;
      // Two ranges, so that a body that only works from 0 on is found out.
      body(closure, 0, count / 2);
      body(closure, count / 2, count);
    };
    services.scratch = [](const TensmithCall *, int64_t bytes) -> void * {
      thread_local std::vector<double> memory;
      memory.resize(size_t(bytes) / 8 + 16);
      return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    };
    services.fail = [](const TensmithCall *call, int32_t code, int64_t) -> int32_t {
      static_cast<Run *>(call->context)->failure = code + 1;
      return 1;
    };
    services.poll = [](const TensmithCall *call) -> int32_t {
      return static_cast<Run *>(call->context)->failure;
    };
    run_ = {};
    TensmithCall call{pointers.data(), sizes.data(), &services, &run_};
    entry_(&call);
  }

  int failure() const { return run_.failure; }
  /// Of the last run.
  int64_t items() const { return run_.items; }

  std::vector<HostTensor> byReference(const std::vector<HostTensor> &inputs) {
    std::vector<graph::RuntimeValue> arguments(inputs.begin(), inputs.end());
    auto results = graph::evaluate(function_, arguments);
    EXPECT_TRUE(results.ok()) << results.status().message();
    std::vector<HostTensor> tensors;
    if (results.ok())
      for (auto &result : *results)
        tensors.push_back(result.tensor);
    return tensors;
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    return registry;
  }

  void compile() {
    context_.loadAllAvailableDialects();
    matchTemplate(kernel_, machine_);
    auto emitted = emitKernel(kernel_, machine_, points_);
    ASSERT_TRUE(emitted.ok()) << emitted.status().message();
    ASSERT_TRUE(mlir::succeeded(mlir::verify(*emitted->module)));
    summary_ = emitted->summary;
    sizes_ = emitted->sizes;
    llvm::raw_string_ostream stream(source_.text);
    emitted->module->print(stream);
    if (const char *path = std::getenv("TENSMITH_TEST_DUMP")) {
      std::error_code error;
      llvm::raw_fd_ostream(path, error) << source_.text;
    }
    targets::CodeOptions options;
    options.cacheFolder.clear();
    if (const char *path = std::getenv("TENSMITH_TEST_DUMP_FOLDER"))
      options.dumpFolder = path;
    auto objects = targets::cpu::compileKernels({&source_, 1}, targets::cpu::hostCpu(), options);
    ASSERT_TRUE(objects.ok()) << objects.status().message();
    modules::ModuleParts parts;
    parts.objects = objects->objects;
    auto status = modules::writeModule(parts, folder_.path() + "/m.so");
    ASSERT_TRUE(status.ok()) << status.message();
    loaded_ = std::make_unique<targets::cpu::LoadedModule>(folder_.path() + "/m.so");
    entry_ = loaded_->kernel(objects->symbols[0]);
  }

  Shape shape(mlir::Type type) {
    auto ranked = mlir::cast<mlir::RankedTensorType>(type);
    Shape result;
    for (int64_t dim = 0; dim < ranked.getRank(); ++dim) {
      llvm::SmallVector<mlir::AffineExpr> values;
      for (mlir::StringAttr name : graph::symbolNames(ranked))
        values.push_back(mlir::getAffineConstantExpr(symbols_.at(name.str()), &context_));
      auto expression = graph::dimExpression(ranked, dim).replaceSymbols(values);
      result.push_back(
          mlir::cast<mlir::AffineConstantExpr>(graph::ShapeContext(&context_).simplify(expression))
              .getValue());
    }
    return result;
  }

  mlir::MLIRContext context_;
  Machine machine_;
  std::vector<SizedPoint> points_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp function_;
  graph::KernelOp kernel_;
  std::vector<std::string> sizes_;
  std::map<std::string, int64_t> symbols_;
  std::string summary_;
  targets::KernelSource source_{"test", {}};
  targets::cpu::TemporaryFolder folder_;
  std::unique_ptr<targets::cpu::LoadedModule> loaded_;
  TensmithKernel entry_ = nullptr;
  struct Run {
    int failure = 0;
    int64_t items = 0;
  } run_;
};

/// Compiled and by the reference the kernel gives the same, about.
inline void expectAgreement(const std::string &text, std::map<std::string, int64_t> symbols,
                            const std::string &schedule, double tolerance = 2e-5,
                            const Machine &machine = hostKernelMachine()) {
  KernelRunner runner(text, machine);
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary().substr(0, schedule.size()), schedule);
  auto inputs = runner.operands(symbols);
  auto got = runner.compiled(inputs);
  auto wanted = runner.byReference(inputs);
  EXPECT_EQ(runner.failure(), 0);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].shape(), wanted[r].shape());
    for (int64_t i = 0; i < got[r].size(); ++i) {
      double a = got[r].getDouble(i), b = wanted[r].getDouble(i);
      ASSERT_NEAR(a, b, tolerance * (1 + std::abs(b))) << "result " << r << " element " << i;
    }
  }
}

} // namespace tensmith::kernel
