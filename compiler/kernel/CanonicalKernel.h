// A kernel as every kernel of its structure is: apart from its place in the graph, with the names
// of its open sizes replaced by their numbers in the order in which they first occur.
//
// What is emitted from it depends on the structure alone, so that layers whose sizes the model
// names differently are compiled once.
#pragma once

#include "compiler/graph/Graph.h"

#include <memory>

namespace tensmith::kernel {

/// What code calls the size of that number, and back. Names are in the order of their numbers.
std::string canonicalName(size_t number);
size_t canonicalNumber(llvm::StringRef name);

/// Types with such names in place of their sizes' own, which are added to `names` as they occur.
class CanonicalSizes {
public:
  CanonicalSizes(mlir::MLIRContext *context, llvm::SmallVectorImpl<mlir::StringAttr> &names)
      : shapes_(context), names_(names) {}

  mlir::Type operator()(mlir::RankedTensorType type);

private:
  mlir::AffineExpr symbolOf(mlir::StringAttr name);

  graph::ShapeContext shapes_;
  llvm::SmallVectorImpl<mlir::StringAttr> &names_;
  llvm::DenseMap<mlir::StringAttr, size_t> numbers_;
};

class CanonicalKernel {
public:
  explicit CanonicalKernel(graph::KernelOp kernel);

  graph::KernelOp op() const { return op_; }
  /// The kernel's own name of a size.
  mlir::StringAttr nameOf(llvm::StringRef canonical) const;
  /// By its number, in the order in which they first occur; and back.
  mlir::StringAttr name(size_t number) const { return names_[number]; }
  size_t numberOf(llvm::StringRef name) const;

  llvm::hash_code hash() const;
  bool equals(const CanonicalKernel &other) const;

private:
  std::unique_ptr<mlir::Block> block_; // its inputs are the arguments
  graph::KernelOp op_;
  llvm::SmallVector<mlir::StringAttr> names_;
};

} // namespace tensmith::kernel
