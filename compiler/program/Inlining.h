// A program's code in @main itself, for what works on one function, and back.
//
// open:   main(x) -> enter @main.program          ->   main(x) -> its operators, calls among them
// close:  main(x) -> calls, then graph operators  ->   main(x) -> enter @main.program, graph
// operators
//
// So what works on graphs, as training and exporting, works on programs.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Evaluates the program of @main partially, and puts what is left of it in main's body; functions
/// as values are data then. A module without a program stays as it is.
void openProgram(mlir::ModuleOp module);

/// Whether main's body is graph operators alone, as the bodies of most programs are once they are
/// open; Unsupported, with the place, where it isn't. The message goes on with `because`: "a step
/// of training is tensor code alone; let sizes be fixed".
Status checkTensorCode(mlir::ModuleOp module, llvm::StringRef because);

/// What main's calls, matches and branches need becomes a procedure, which main enters; operators
/// that nothing of that needs, as updates of a step, stay in main. Nothing where there are none.
void closeProgram(mlir::ModuleOp module);

} // namespace tensmith::program
