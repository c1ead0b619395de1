// Functions as values become data, for passes that know only that.
//
// before: f = closure a, b {@g}; apply f(x)     after: f = construct a, b {tag of @g}
//                                                      match f { ..., tag of @g: call @g(a, b, x) }
//
// A module has all functions that a value may be, so that each call of one is a match on those of
// its type (Reynolds, "Definitional interpreters for higher-order programming languages", 1972).
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

void defunctionalize(mlir::ModuleOp module);

} // namespace tensmith::program
