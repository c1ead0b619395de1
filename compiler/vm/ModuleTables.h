// What the functions of a plan share: constants, kernels, routines, locations, and the list of
// functions itself.
#pragma once

#include "base/Hash.h"
#include "compiler/vm/Arenas.h"
#include "compiler/vm/PlanBuilder.h"
#include "runtime/plan_generated.h"

namespace tensmith::vm {

class ModuleTables {
public:
  ModuleTables(const PlanInput &input, plan::ModuleT &module) : input(input), module(module) {}

  /// The place of a tensor in the weights; equal tensors have one.
  int64_t addConstant(const HostTensor &tensor);
  uint32_t addKernel(graph::KernelOp op);
  Result<uint32_t> addRoutine(mlir::Operation *op);
  uint32_t addLocation(mlir::Location location);
  uint32_t addMessage(llvm::StringRef message);
  /// A function for the block; see FunctionBuilder::build.
  Result<uint32_t> addFunction(std::string name, mlir::Block &block, mlir::ValueRange captured,
                               llvm::ArrayRef<mlir::StringAttr> given);

  /// A constant as a procedure reads it; equal ones have one number.
  uint32_t addConstantTensor(const HostTensor &tensor);

  const PlanInput &input;
  plan::ModuleT &module;
  std::map<std::string, uint32_t> procedures, segments; // of a program, by name
  std::vector<PlanConstant> constants;
  int64_t weightsBytes = 0;
  std::vector<bool> multiplies; // of the kernels, in their order: KernelBinding::multiplies
  std::vector<std::optional<Arena>> arenas; // of the functions, in their order

private:
  std::multimap<Hash128, size_t> constantsByHash_;
  std::map<std::string, uint32_t> kernels_, locations_, messages_;
  std::map<std::tuple<int64_t, uint8_t, Shape>, uint32_t> constantTensors_;
};

} // namespace tensmith::vm
