// Reads an ONNX model into a module of the graph dialect.
//
// ONNX: https://onnx.ai/onnx/repo-docs/IR.html (the file), Operators.md (the operators). Opsets
// from 7 to the newest of the `onnx` package that the build found; older ones as far as their
// operators have not changed.
//
// Models come from outside: every size is checked before it is used, files beside the model are
// read only from within its folder, and each error says which file and node it is about.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Outputs.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tensmith {

/// Operators that do one thing in training and another in evaluation do what the model says, or one
/// of the two whatever it says. For training, running statistics have their next values as further
/// results, which say so (kNextOf of compiler/graph/States.h).
enum class ModelForm { AsGiven, Training, Evaluation };

struct ImportOptions {
  /// Dimensions that replace those the model declares for an input: numbers, or names of symbols.
  std::map<std::string, std::vector<std::string>> shapes;
  /// Symbols (a model's dim_param) that are to be constants.
  std::map<std::string, int64_t> symbols;
  /// Tensors of the main graph that become outputs, too.
  graph::Keep keep;
  /// Initialisers that become inputs, or stay inputs where they are, and so must be given.
  std::set<std::string> overridable;
  /// What batch normalisation and dropout do.
  ModelForm form = ModelForm::AsGiven;

  int64_t maxModelBytes = int64_t(1) << 36;
  int64_t maxNodes = 1'000'000;                ///< after functions are expanded
  int64_t maxInstanceBytes = int64_t(1) << 31; ///< of functions copied for their calls' attributes
  int maxNesting = 64; ///< subgraphs within subgraphs, functions within functions
};

/// The module's `func.func @main` has one argument for each input that is no initialiser, and one
/// result for each output, with their ONNX names in the attribute `graph.name`. A dimension that
/// the model leaves open is a symbol: its dim_param, or "<input>.<axis>". Operators' locations name
/// the node and its operator, and the node's number in the file, from 1, as a line.
///
/// Weights are not copied where the file holds them as they are used: the context keeps the file's
/// mapping.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importFile(const std::string &path, mlir::MLIRContext &context, const ImportOptions &options = {});

/// `name` is what errors and locations call the model. It can't refer to external data.
Result<mlir::OwningOpRef<mlir::ModuleOp>> importBytes(std::span<const std::byte> bytes,
                                                      const std::string &name,
                                                      mlir::MLIRContext &context,
                                                      const ImportOptions &options = {});

} // namespace tensmith
