// What is left of layouts that don't agree: values that are stored again in another order.
//
// Layouts are decided before the graph is cut into kernels (rewrite/Layout.cpp), and what fusion
// makes of the transpositions between them is seen only behind it: a product reads moved rows where
// they lie, a sum any order. Counted is what a kernel, or an operator that is evaluated by the
// reference, stores in another order than it reads: images, and operands of products as panels.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tensmith::vm {

/// A list in JSON, of one run of each function and loop's body: [{"value": the place that it is
/// from, "from", "to": types, "bytes" (of what is stored; null where a size is not known)}, ...].
std::string layoutConversions(mlir::ModuleOp program);

} // namespace tensmith::vm
