// What a kernel's memref arguments say of their memory, kept through the conversion to pointers.
//
// An inner function takes its operands as arguments with `llvm.noalias` and `llvm.align`, by which
// LLVM may vectorise its loops. Where a memref argument becomes the fields of a descriptor, MLIR
// drops such attributes: here they are put on the field that loads and stores go through, the
// aligned pointer.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <map>
#include <string>
#include <vector>

namespace tensmith::targets::cpu {

class ArgumentPointers {
public:
  /// Notes the module's functions before they are converted.
  explicit ArgumentPointers(mlir::ModuleOp module);

  /// Whether every memref among the arguments and results has a static shape and the identity
  /// layout, so that pointers alone can stand for them.
  bool bare() const { return bare_; }

  /// Sets the attributes on the converted functions.
  void restore(mlir::ModuleOp module) const;

private:
  struct Pointer {
    unsigned argument; // of the converted function
    mlir::NamedAttrList attributes;
  };
  bool bare_ = true;
  std::map<std::string, std::vector<Pointer>> functions_;
};

} // namespace tensmith::targets::cpu
