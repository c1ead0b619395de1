// The operator of tensor comprehensions (ComprehensionOps.td), and what is known of one.
//
// What the text means is reference/comprehension/'s; here its sizes become expressions over symbols
// and its statements code. A whole comprehension is decomposed to its statements, each an operator
// of the same text, so that what stands around fuses with them and gradients go through them.
#pragma once

#include "compiler/graph/Graph.h"
#include "reference/comprehension/Analysis.h"

#define GET_OP_CLASSES
#include "compiler/graph/ComprehensionOps.h.inc"

namespace tensmith::graph {

class GraphBuilder;

/// What an operator stands for: its function and its statement. Null where the text is wrong; then
/// `refusal` says why.
struct ComprehensionView {
  std::shared_ptr<const comprehension::Function> function;
  std::optional<size_t> statement; // none: of several, the whole
  size_t result = 0;               // tensor
  std::vector<size_t> operands;    // tensors
  std::string refusal = {};

  explicit operator bool() const { return function != nullptr; }
  /// The operand that is the tensor; nothing where none is.
  std::optional<unsigned> operandOf(size_t tensor) const;
  /// The one statement that the operator computes; null for several.
  const comprehension::Statement *single() const;
};
ComprehensionView viewOf(ComprehensionOp op);

/// The operator of this dialect that a function of the language is: "fabs" is "abs". Empty: none
/// is.
llvm::StringRef operatorOfFunction(llvm::StringRef function);
/// The same of a sign between two operands.
llvm::StringRef operatorOfSign(llvm::StringRef sign);

/// The schedule that the text gives the operator, a line of schedule text each. Empty: none.
struct OwnSchedule {
  std::string text;
  bool isWhole = false; // of all statements of the definition, as one nest
};
OwnSchedule scheduleOf(ComprehensionOp op);

/// A statement as other operators that say the same (ComprehensionOperators.cpp); fails where none
/// do.
mlir::LogicalResult asOperators(ComprehensionOp op, GraphBuilder &graph,
                                llvm::SmallVectorImpl<mlir::Value> &results);

mlir::AffineExpr operationsOfComprehension(ComprehensionOp op, ShapeContext &shapes);

} // namespace tensmith::graph
