// The reference evaluation of graph IR: one operator, or a whole function with its control flow.
#pragma once

#include "base/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace tensmith::graph {

/// Evaluates one operator without regions on known operands.
Result<std::vector<HostTensor>> evaluate(mlir::Operation *op, std::span<const HostTensor> operands);

/// Called with each tensor as it is computed, e.g. to keep it for comparison.
using Observer = std::function<void(mlir::Value, const HostTensor &)>;

/// Evaluates a function. Errors name the operator's location.
Result<std::vector<HostTensor>> evaluate(mlir::func::FuncOp function,
                                         std::span<const HostTensor> arguments,
                                         const Observer &observer = nullptr);

} // namespace tensmith::graph
