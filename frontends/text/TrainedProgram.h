// A program with other values of its constants at the top, as one program that stands by itself.
//
// before: import "layers.tsm"                 after: let first = (load("weights/first.0.npy"), ...)
//         let first = dense_weights(4, 3)            fn dense(x, weights) = ...
//         fn main(x) = dense(x, first)               fn main(x) = dense(x, first)
#pragma once

#include "base/Status.h"

#include "mlir/IR/MLIRContext.h"

#include <set>
#include <string>

namespace tensmith::text {

/// Where the tensor of that name (see ImportOptions::inputs) is to lie, from the program on.
std::string weightFile(const std::string &name);

/// The program's text with what it imports in it, and with `load(weightFile(...))` for each of the
/// tensors. What else a constant has that has some of them is written down as it is.
Result<std::string> withWeights(const std::string &text, const std::string &name,
                                const std::string &folder, const std::set<std::string> &tensors,
                                mlir::MLIRContext &context);

} // namespace tensmith::text
