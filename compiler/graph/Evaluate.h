// The reference evaluation of graph IR: one operator, or a whole function with its control flow.
#pragma once

#include "base/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace tensmith::graph {

/// What a graph value is when it is computed: a tensor, a sequence of values, a map, whose elements
/// are its keys and its values, or nothing (an empty optional).
struct RuntimeValue {
  enum class Kind : uint8_t { None, Tensor, Sequence, Map } kind = Kind::None;
  HostTensor tensor;
  std::shared_ptr<const std::vector<RuntimeValue>> elements;

  RuntimeValue() = default;
  RuntimeValue(HostTensor tensor) : kind(Kind::Tensor), tensor(std::move(tensor)) {}
  static RuntimeValue sequence(std::vector<RuntimeValue> elements);
  static RuntimeValue map(RuntimeValue keys, RuntimeValue values);
};

/// Evaluates one operator without regions on known operands.
Result<std::vector<HostTensor>> evaluate(mlir::Operation *op, std::span<const HostTensor> operands);

/// Called with each value as it is computed, e.g. to keep it for comparison.
using Observer = std::function<void(mlir::Value, const RuntimeValue &)>;

/// Evaluates a function. Errors name the operator's location. A value is freed after its last use.
/// `runKey`: what `run_key` gives.
Result<std::vector<RuntimeValue>> evaluate(mlir::func::FuncOp function,
                                           std::vector<RuntimeValue> arguments,
                                           const Observer &observer = nullptr, uint64_t runKey = 0);

/// "node 'conv1 (Conv)'", from a location's name; of a fused one, as a kernel's, "nodes 'conv1
/// (Conv)', 'relu1 (Relu)' and 3 more".
std::string describe(mlir::Location location);
/// The outermost names of a location, in their order: "conv1 (Conv)", "relu1 (Relu)".
llvm::SetVector<mlir::StringAttr> nodeNames(mlir::Location location);

} // namespace tensmith::graph
