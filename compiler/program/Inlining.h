// What is left of a program once it is evaluated partially, as tensor code alone.
//
// before: main(x) -> enter @main.program, whose body is graph operators
// after:  main(x) -> graph operators
//
// So what works on graphs, as training and exporting, works on programs.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Evaluates the program of @main partially, and puts its body in main's; a module without one
/// stays as it is. Unsupported, with the place, where something is left that is no tensor code once
/// its sizes are known; the message goes on with `because`: "a step of training is tensor code
/// alone; let sizes be fixed".
Status inlineProgram(mlir::ModuleOp module, llvm::StringRef because);

} // namespace tensmith::program
