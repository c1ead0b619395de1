// What is known of a call's arguments when a program is partially evaluated, apart from the values
// that only the run has: a tree of constructors, functions and constants, whose leaves are dynamic.
//
// A version of a function is made for what is known of its arguments, and takes the leaves as
// parameters. Versions of versions come to an end since what is known in a recursion must not grow:
// a tree in which an earlier one is embedded is generalised to what the two have in common
// (Sørensen and Glück, "An algorithm of generalization in positive supercompilation", 1995).
#pragma once

#include "compiler/graph/Shape.h"

#include "mlir/IR/Builders.h"

namespace tensmith::program {

struct Knowledge {
  enum class Kind : uint8_t { Dynamic, Constant, Construct, Closure } kind = Kind::Dynamic;
  mlir::Type type;
  uint64_t tag = 0;          // of a constructor
  mlir::Attribute attribute; // a constant's elements; the symbol of a closure's procedure
  std::vector<Knowledge> parts;

  bool isDynamic() const { return kind == Kind::Dynamic; }
};

/// Sizes that a procedure has a name for that means nothing elsewhere.
inline bool isLocalSize(mlir::StringAttr name) { return name.getValue().contains('.'); }

/// Whether anything is known of the value but its type.
bool isKnown(mlir::Value value);
/// What is known of arguments. Of a structure of more than some dozen parts, what is left out is
/// dynamic; so is what the parameters' types contradict.
std::vector<Knowledge> knowledgeOf(mlir::ValueRange arguments, mlir::TypeRange parameters);
bool allDynamic(const std::vector<Knowledge> &arguments);
std::string keyOf(const std::vector<Knowledge> &arguments);

/// Whether the first can be had from the second by leaving parts out.
bool isEmbedded(const std::vector<Knowledge> &small, const std::vector<Knowledge> &large);
/// What both know.
std::vector<Knowledge> generalised(const std::vector<Knowledge> &a,
                                   const std::vector<Knowledge> &b);

/// The dynamic leaves of the arguments, of which at least so much is known, in their order.
llvm::SmallVector<mlir::Value> leavesOf(mlir::ValueRange arguments,
                                        const std::vector<Knowledge> &known);
/// Parameters for the leaves.
llvm::SmallVector<mlir::Type> leafTypes(const std::vector<Knowledge> &known);
/// The arguments that have those leaves, built anew.
llvm::SmallVector<mlir::Value> rebuild(mlir::OpBuilder &builder, mlir::Location location,
                                       const std::vector<Knowledge> &known,
                                       mlir::ValueRange leaves);

} // namespace tensmith::program
