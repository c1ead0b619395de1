// A model in the graph dialect, in a context of its own: what the C API's functions work on.
//
// A file or bytes hold it in one of four forms, known by their contents or by the name: ONNX, a
// program of the language (.tsm), comprehensions (.tc), the graph's text.
#pragma once

#include <tensmith/compiler.h>

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <string_view>

namespace tensmith {

namespace graph {
struct Keep;
}

class ModelInContext {
public:
  ModelInContext();

  /// What a file or bytes hold, with the derivatives that are asked for. `options` were looked at
  /// (checkedOptions).
  Status load(const std::string &path, const ts_compile_options &options);
  Status load(std::string_view bytes, const std::string &name, const ts_compile_options &options);

  /// The rest of a step whose gradients come from elsewhere.
  Status makeUpdate(llvm::ArrayRef<ts_updated> tensors, int64_t processes,
                    const ts_compile_options &options);

  mlir::ModuleOp module() { return *module_; }
  mlir::func::FuncOp main() { return module_->lookupSymbol<mlir::func::FuncOp>("main"); }

private:
  Status read(const std::string &path, const ts_compile_options &options);
  Status read(std::string_view bytes, const std::string &name, const ts_compile_options &options);
  /// `folder`: that the program may load tensors from; none where it is empty.
  Status importProgram(llvm::StringRef program, const std::string &name,
                       const ts_compile_options &options, std::string folder);
  Status importComprehension(llvm::StringRef text, const std::string &name,
                             const ts_compile_options &options);
  Status parse(std::string_view text, const std::string &name, const ts_compile_options &options);
  /// The text form's values have no names that outlive its parser; they are called after places.
  Status keepByPlace(const graph::Keep &keep);
  Status take(Result<mlir::OwningOpRef<mlir::ModuleOp>> imported);

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

} // namespace tensmith
