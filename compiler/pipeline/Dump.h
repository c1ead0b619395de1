// Writes each stage of a compilation into a folder, numbered, with large constants left out.
#pragma once

#include "compiler/target/cpu/KernelCompiler.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::pipeline {

class Dump {
public:
  /// Nothing is written where `folder` is empty. A folder that can't be written to is no error: the
  /// compilation matters more.
  explicit Dump(std::string folder);
  /// NN-stage.mlir
  void write(mlir::ModuleOp module, llvm::StringRef stage);
  /// One file for each kernel.
  void write(const std::vector<target::cpu::KernelSource> &kernels);

private:
  std::string folder_;
  int number_ = 0;
};

} // namespace tensmith::pipeline
