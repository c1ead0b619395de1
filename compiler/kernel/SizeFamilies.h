// Small kernels that differ by sizes alone: one code for all of them, that takes the sizes.
//
// A kernel is compiled for its sizes, which takes some ten milliseconds. Where a model has many
// kernels of one structure, each of which computes for microseconds, that is time spent for nothing
// that anybody would notice. The types of such kernels are compared position by position: what is
// the same in all stays a number, and dimensions that differ become symbols, the same one where
// they differ in the same way, as the depth of a product in both of its operands.
#pragma once

#include "compiler/graph/Graph.h"

#include "llvm/ADT/MapVector.h"

#include <memory>

namespace tensmith::kernel {

struct SizeFamily {
  std::unique_ptr<mlir::Block> block;
  graph::KernelOp open; // in the block; its sizes are symbols
  /// Of each member, the values of the symbols, by their numbers (CanonicalKernel.h).
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<int64_t>> values;
};

/// Of so many kernels of different sizes at least, each of so much work at most.
struct FamilyBounds {
  size_t members = 32;    // 1: each is a family, whose sizes are open; for tests
  double flops = 1 << 20; // some ten microseconds
};
/// What compilations go by.
FamilyBounds &familyBounds();

/// Families of kernels whose sizes are all known.
std::vector<SizeFamily> findSizeFamilies(llvm::ArrayRef<graph::KernelOp> kernels,
                                         const FamilyBounds &bounds = familyBounds());

} // namespace tensmith::kernel
