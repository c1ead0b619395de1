// Writes each stage of a compilation into a folder, numbered, with large constants left out.
#pragma once

#include "base/Status.h"
#include "compiler/targets/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::pipeline {

/// Nothing is written where the folder's name is empty. Errors: IoError.
class Dump {
public:
  explicit Dump(std::string folder) : folder_(std::move(folder)) {}
  Status makeFolder();
  /// NN-stage.mlir
  Status write(mlir::ModuleOp module, llvm::StringRef stage);
  /// kernel-NNN.mlir for each kernel.
  Status write(const std::vector<targets::KernelSource> &kernels);

private:
  Status writeFile(llvm::StringRef name, llvm::function_ref<void(llvm::raw_ostream &)> print);

  std::string folder_;
  int number_ = 0;
};

} // namespace tensmith::pipeline
