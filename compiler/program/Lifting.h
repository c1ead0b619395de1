// A constant at a program's top becomes an input of its: what is trained, or differentiated by.
//
// before: fn f(x) = x @ w, with w a procedure of no parameters     after: fn f(w, x) = x @ w
//
// Whatever leads to the constant is given the input instead, closures among what they keep
// (Johnsson, "Lambda lifting: transforming programs to recursive equations", 1985).
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// `procedure` is the constant's, which goes; @main's last input gets the name.
void liftConstant(mlir::ModuleOp module, llvm::StringRef procedure, llvm::StringRef name);

} // namespace tensmith::program
