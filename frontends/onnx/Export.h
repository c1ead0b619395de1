// A graph as an ONNX model: what a program of the language is given away as.
//
// main(x: f32[batch, 784]), graph operators      ->      ModelProto: nodes, initialisers,
// dim_params
//
// Each operator becomes the one that it has in the standard (ExportRules.h), or several that
// compute the same; a larger one that the opset doesn't have, as attention, is decomposed first. A
// size that only the run tells is computed by nodes from the shapes of values that have it.
//
// ONNX: https://onnx.ai/onnx/repo-docs/IR.html
#pragma once

#include "base/HostTensor.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace tensmith {

/// The opset of exported models, which runtimes of 2024 and later have.
inline constexpr int64_t kExportedOpset = 21;

/// The bytes of the model that `main` of the module is, whose operators are changed on the way.
/// Inputs and outputs have the names that the graph has for them (graph.name); an argument that is
/// among `values` becomes an initialiser. What depends on no input is computed here, random numbers
/// included. Unsupported, with the operator and its place, where ONNX has none for it.
Result<std::string> exportModel(mlir::ModuleOp module,
                                const std::map<std::string, HostTensor> &values = {});

/// Whether operators of that name ("graph.add") can be exported as they are.
bool canExport(llvm::StringRef operatorName);

/// The bytes of a TensorProto, as test data have them.
std::string tensorBytes(const HostTensor &tensor, const std::string &name);

} // namespace tensmith
