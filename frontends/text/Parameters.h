// Constants at a program's top as inputs of main, tensor by tensor: what is trained.
//
// before: let first = (load("w.npy"), load("b.npy"))       after: main(x, first.0, first.1)
//         fn main(x) = dense(x, first)
//
// A constant that names another one of these is computed from it, and is no parameter itself: what
// is used twice stays one.
#pragma once

#include "frontends/text/Lowering.h"
#include "frontends/text/Program.h"

namespace tensmith::text {

/// Of the constants: the tensors of floats that have dimensions become inputs of @main, behind its
/// own. With a seed all of them, with their first values (graph::kInitial), which are drawn by it
/// where the program draws them; without one those that `parts` names.
Status liftParameters(mlir::ModuleOp module, Program &program,
                      const std::vector<Lowering::Instance> &constants,
                      const std::set<std::string> &parts, std::optional<uint64_t> seed);

} // namespace tensmith::text
