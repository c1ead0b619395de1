// Ensembles of decision trees as graph.tree_ensemble has them (compiler/graph/GatherOps.td).
//
// The packed words say where to go next, and code that is compiled for a forest trusts them: so a
// forest is checked as a whole (`checkForest`) before anything is compiled, and the evaluation here
// looks at each step.
#pragma once

#include "reference/Workspace.h"

namespace tensmith::reference {

/// A word of a node, taken apart.
struct TreeNode {
  bool nanPasses, isEquality;
  int64_t column, ahead;

  static TreeNode of(uint64_t word, int64_t columnBits) {
    return {(word >> columnBits & 1) != 0, (word >> columnBits & 2) != 0,
            int64_t(word & ((uint64_t(1) << columnBits) - 1)), int64_t(word >> (columnBits + 2))};
  }
  uint64_t word(int64_t columnBits) const {
    return uint64_t(ahead) << (columnBits + 2) | uint64_t(isEquality) << (columnBits + 1) |
           uint64_t(nanPasses) << columnBits | uint64_t(column);
  }
};

struct PackedForest {
  HostTensor columns, nodes, trees, weights; // weights is of no type where there are none
  int64_t targets = 1, columnBits = 1, depth = 0;

  bool isWide() const { return nodes.type() == DataType::I64; }
  int64_t size() const { return nodes.shape()[0]; }
  TreeNode node(int64_t number) const;
  /// What a node has in the place of t.
  double number(int64_t node) const;
  uint64_t bits(int64_t node) const;
};

/// That every way from a root leads to a leaf within `depth` steps, and that all numbers (of nodes,
/// columns, targets, rows of weights) are such, in nodes that no root leads to as well.
Status checkForest(const PackedForest &forest);

Outcome evaluateTreeEnsemble(const Invocation &invocation);

} // namespace tensmith::reference
