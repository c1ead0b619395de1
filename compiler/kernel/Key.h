// The key of a kernel or of an operator: what a choice is remembered by.
//
// Two kernels have one key if the same point makes the same code of both: of their operators,
// attributes and types all is in it, and the machine and what else decides (`conditions`); of
// names, locations, numbers and the sizes' names nothing. A kernel's is taken of its operators as
// they are before operands are laid out for it, so that a point can't change the key that it was
// found by. Keys are the same in each process and on each machine.
#pragma once

#include "compiler/graph/Graph.h"

#include <string>

namespace tensmith::kernel {

/// 16 hexadecimal digits.
using Key = std::string;

/// Of a kernel of these operators, in the order in which they stand, that gives these results.
Key keyOf(llvm::ArrayRef<mlir::Operation *> operators, mlir::ValueRange results,
          llvm::StringRef conditions);
/// Of a kernel, as it was before its operands were laid out (`kKeyAttribute`).
Key keyOf(graph::KernelOp kernel, llvm::StringRef conditions);
/// Of an operator by itself, whichever order an image's dimensions are in: what rewrites decide.
Key keyOf(mlir::Operation *op, llvm::StringRef conditions);

/// A text attribute of kernels that have operands laid out for them: their key.
inline constexpr char kKeyAttribute[] = "tensmith.key";

/// The operator's name, the shapes and types of its operands, and those of its result.
std::string structureOf(mlir::Operation *root);

} // namespace tensmith::kernel
