// What an export rule works with: an operator's operands by their names in the model, its
// attributes, and what nodes are added with.
#pragma once

#include "base/Attributes.h"
#include "frontends/onnx/Exporter.h"

namespace tensmith::onnx_export {

using llvm::ArrayRef;
using llvm::StringRef;
using Names = std::vector<std::string>;
using Fields = std::vector<std::pair<std::string, Attribute>>;
using Dims = llvm::SmallVector<mlir::AffineExpr>;

class NodeExport {
public:
  NodeExport(Exporter &exporter, mlir::Operation *op);

  /// Empty where the operand is absent.
  std::string input(unsigned number) const;
  Names inputs() const;
  mlir::Type element(unsigned number = 0) const {
    return mlir::getElementTypeOrSelf(op->getOperand(number).getType());
  }
  /// Fails, with an error, where the value's rank is not known.
  Result<Dims> dims(mlir::Value value) const;
  Status error(const std::string &what) const;

  /// Adds a node of one result, or of several, and gives their names.
  std::string node(StringRef type, Names inputs, Fields fields = {}) const;
  Names nodes(StringRef type, Names inputs, Fields fields, size_t results) const;
  /// Adds a node whose results are the operator's.
  Status giveNode(StringRef type, Names inputs, Fields fields = {}) const;
  /// What the operator's results are called.
  Status give(const Names &names) const;

  std::string vector(ArrayRef<int64_t> values) const; ///< an initialiser of i64
  std::string integer(int64_t value) const;
  std::string scalar(mlir::Type element, double value) const;
  /// A vector of sizes, computed where they are not constants.
  Result<std::string> sizes(ArrayRef<mlir::AffineExpr> sizes) const;

  Exporter &exporter;
  mlir::Operation *op;
  Attributes attributes;
};

} // namespace tensmith::onnx_export
