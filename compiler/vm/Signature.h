// What a function takes and gives, in the words of a plan: of a model as of a compiled module.
#pragma once

#include "base/DataType.h"
#include "compiler/graph/Graph.h"
#include "runtime/plan_generated.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tensmith::vm {

plan::ValueKind kindOf(mlir::Type type);
/// The element type; of a sequence or optional, its elements'. Undefined where there is none.
DataType elementOf(mlir::Type type);

struct SignaturePort {
  std::string name;
  plan::ValueKind kind;
  DataType type;
  bool ranked;
  std::vector<std::string> dims; // as people write them: "batch", "3", "2*seq"
  std::string object;            // the type of a value of a data type, "List[f32[n, 3]]"
};

std::vector<SignaturePort> inputsOf(mlir::func::FuncOp function);
std::vector<SignaturePort> outputsOf(mlir::func::FuncOp function);

} // namespace tensmith::vm
