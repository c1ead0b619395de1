// The dialects that graph IR is made of, and what an operator is in any of them.
//
// Passes ask whether an operation is an operator, and by what name tables know it, here: plug-ins
// have operators in dialects of their own.
#pragma once

#include "base/Table.h"

#include "mlir/IR/Dialect.h"
#include "mlir/IR/Operation.h"

namespace tensmith::graph {

/// A dialect of operators, each of which has a shape function.
struct OperatorDialect {
  std::string_view name;
  void (*insert)(mlir::DialectRegistry &);
};
/// Those beside the graph dialect itself.
Table<OperatorDialect> &operatorDialects();

/// The dialects of operators and those that stand in graph IR (func) or are made by operators' code
/// (arith, math, scf). Who makes a context loads all of them.
void registerDialects(mlir::DialectRegistry &registry);

/// Whether it is of the graph dialect, or has a shape function; false of null.
bool isOperator(mlir::Operation *op);
/// By which tables know it: without "graph.", and whole where it is of another dialect.
llvm::StringRef operatorName(mlir::OperationName name);
inline llvm::StringRef operatorName(mlir::Operation *op) { return operatorName(op->getName()); }

} // namespace tensmith::graph
