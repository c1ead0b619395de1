// Ensembles of decision trees: how the rules of their operators and the traversal see them.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

enum TreeTest : int64_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member };
enum TreeAggregate : int64_t { Average, Sum, Minimum, Maximum };

struct Forest {
  Ints features, modes, yes, no, missing; // by node; `yes` and `no` count leaves from `leaf(0)`
  SmallVector<double> splits;
  Ints roots;            // by tree; a leaf as -1 - leaf
  Ints holders, targets; // by weight: the leaf that has it, and what it is for
  SmallVector<double> weights;
  int64_t targetCount = 1, leafCount = 0;

  int64_t nodes() const { return int64_t(features.size()); }
  int64_t leaves() const { return leafCount; }
};

/// The position of a name in a list of names; nothing where there is none.
template <size_t count>
std::optional<int64_t> numberOf(const char *const (&names)[count], StringRef name) {
  const auto *it = llvm::find(names, name);
  return it == std::end(names) ? std::nullopt : std::optional(int64_t(it - std::begin(names)));
}

/// Of TreeEnsemble.
FailureOr<Forest> readForest(NodeImport &n);

/// Of TreeEnsembleRegressor and TreeEnsembleClassifier, whose nodes are named by a tree's number
/// and their own. The attributes of what leaves hold begin with `held` ("target" or "class").
FailureOr<Forest> readNamedForest(NodeImport &n, const std::string &held, int64_t targetCount);

/// Floats of the attribute, or of the tensor that newer opsets allow instead.
SmallVector<double> floatsOrTensor(NodeImport &n, const std::string &name);

/// The same by graph.tree_ensemble; null, without an error, where the forest does not fit into it.
/// No way may lead back.
Value predictPacked(NodeImport &n, Value x, const Forest &forest, int64_t aggregate);

/// What the trees say of each row of x, [rows, targets]; null, with an error, where they can't be
/// followed.
Value predict(NodeImport &n, Value x, Forest &forest, int64_t aggregate);

} // namespace tensmith::onnx_import
