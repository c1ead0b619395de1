// A function of text IR and its plan, with each graph.kernel bound to a symbol of its own: k0, k1,
// ... in the order of the text.
#pragma once

#include "compiler/graph/Dialects.h"
#include "compiler/vm/PlanBuilder.h"
#include "runtime/Verify.h"
#include "runtime/plan_generated.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <set>

namespace tensmith::vm {

class PlannedFunction {
public:
  explicit PlannedFunction(const std::string &text, std::vector<std::string> devices = {},
                           std::function<uint32_t(uint32_t, uint32_t)> deviceOf = nullptr,
                           std::function<double(double, double, bool)> cycles = nullptr)
      : context_(registry()) {
    context_.loadAllAvailableDialects();
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    EXPECT_TRUE(module_) << text;
    if (!module_)
      return;
    function = *module_->getOps<mlir::func::FuncOp>().begin();
    module_->walk([&](graph::KernelOp op) { bind(op); });
    PlanInput input;
    input.function = function;
    input.kernel = [this](graph::KernelOp op) -> const KernelBinding & { return bindings_.at(op); };
    input.model = "test.onnx";
    input.triple = "x86_64-unknown-linux-gnu";
    input.cpu = "generic";
    input.devices = std::move(devices);
    input.deviceOf = std::move(deviceOf);
    input.cycles = std::move(cycles);
    auto built = buildPlan(input);
    status = built.status();
    if (!built.ok())
      return;
    plan = std::move(*built);
    auto verified =
        runtime::verifyPlan(std::as_bytes(std::span(plan.bytes)), uint64_t(plan.weightsBytes));
    status = verified.status();
    EXPECT_TRUE(verified.ok()) << verified.status().message();
    plan::GetModule(plan.bytes.data())->UnPackTo(&unpacked);
  }

  bool ok() const { return status.ok() && !unpacked.functions.empty(); }
  const plan::FunctionT &main() const { return *unpacked.functions[0]; }
  graph::KernelOp kernel(const std::string &symbol) const { return kernels_.at(symbol); }
  const plan::InstructionT &instruction(size_t index) const { return *main().instructions[index]; }
  const plan::ValueT &result(size_t index, size_t number = 0) const {
    return *main().values[instruction(index).results[number]];
  }
  const plan::ValueT &operand(size_t index, size_t number) const {
    return *main().values[instruction(index).operands[number]];
  }
  /// The value of a constant expression of main.
  int64_t constant(uint64_t expression) const {
    EXPECT_EQ(main().exprs[expression].kind(), plan::ExprKind::Constant);
    return main().exprs[expression].a();
  }
  int64_t metadata(const std::string &name) const {
    for (const auto &attribute : unpacked.metadata)
      if (attribute->name == name && attribute->value.AsInteger())
        return attribute->value.AsInteger()->value;
    ADD_FAILURE() << "no metadata '" << name << "'";
    return -1;
  }

  mlir::func::FuncOp function;
  Status status{StatusCode::Internal, "not planned"};
  Plan plan;
  plan::ModuleT unpacked;

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }

  void bind(graph::KernelOp op) {
    std::set<std::string> sizes;
    op->walk([&](mlir::Operation *inner) {
      for (mlir::Type type : inner->getResultTypes())
        if (auto ranked = mlir::dyn_cast<mlir::RankedTensorType>(type))
          for (mlir::StringAttr name : graph::symbolNames(ranked))
            sizes.insert(name.str());
    });
    KernelBinding binding;
    binding.symbol = "k" + std::to_string(kernels_.size());
    binding.sizes.assign(sizes.begin(), sizes.end());
    binding.messages = {"index {} is out of range"};
    binding.label = op.getLabel().str();
    binding.multiplies = op.getKind() == "contraction";
    kernels_.emplace(binding.symbol, op);
    bindings_.emplace(op, std::move(binding));
  }

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::map<mlir::Operation *, KernelBinding> bindings_;
  std::map<std::string, graph::KernelOp> kernels_;
};

} // namespace tensmith::vm
