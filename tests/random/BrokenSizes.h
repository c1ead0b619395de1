// Sizes at which a graph breaks one requirement of its operators and, where they can be found, no
// other.
//
// Sizes that are drawn blindly hardly ever break a rare requirement alone: of most, another one
// stands in the way that is broken as well. Here the records themselves say what there is to break
// (Conditions.h), so that an operator's new requirement is tried as soon as it is stated. Whether
// breaking it is an error is not for them to say: that is the reference's.
#pragma once

#include "compiler/graph/Shape.h"
#include "tests/random/Evaluation.h"

namespace tensmith::random_graphs {

class BrokenSizes {
public:
  /// `drawn`: sizes that fit, by the names of the function's symbols.
  BrokenSizes(mlir::func::FuncOp function, graph::ShapeContext &shapes, const Sizes &drawn);

  /// Requirements, each message counted once.
  size_t count() const { return messages_.size(); }
  llvm::StringRef message(size_t number) const { return messages_[number]; }
  /// Sizes that break that one, made of the drawn ones with `other` in some places, and as few of
  /// the others as was found; nothing where none were found.
  std::optional<Sizes> find(size_t number, Random &random,
                            llvm::function_ref<int64_t(int64_t)> other) const;

private:
  struct Required {
    size_t message;
    graph::Condition condition;
    llvm::SmallVector<size_t> symbols; // that it speaks of
  };
  using Values = std::vector<std::optional<int64_t>>; // of the symbols

  size_t othersBroken(size_t number, const Values &sizes) const;

  std::vector<std::string> names_; // of the symbols
  Values drawn_;                   // nothing of those that only the run tells
  std::vector<std::string> messages_;
  std::vector<Required> required_;
};

/// Whether the records of the operators up to `last` refuse the function where its sizes are these;
/// nothing where one of their operands has a size that can't be told, as those that data decide.
std::optional<bool> isRefusedWhereKnown(mlir::func::FuncOp function, const Sizes &sizes,
                                        mlir::Operation *last);

/// Whether the operator has a requirement of open sizes whose message holds that text, left out or
/// not; and one that these sizes break.
bool hasRequirement(mlir::Operation *op, llvm::StringRef text);
bool breaksRequirement(mlir::Operation *op, llvm::StringRef text, const Sizes &sizes);

} // namespace tensmith::random_graphs
