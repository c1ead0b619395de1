// Complete trees (CompleteTrees.h) followed for one row, all nodes of a tree at once.
//
// The ranks of a row lie in a few registers, a number for each slot. Where the machine has lookups
// (kernel/Intrinsic.h), one instruction gives the slots that a vector of nodes test, and one more
// compares them with the nodes' own ranks. What fails is a bit of a word for each node, and a walk
// needs no memory: i = 2i + (bit i of the word). Eight trees' words fill a vector, and are followed
// side by side. A tree of depth 6 is 128 bytes that are read from first to last, where a walk by
// steps waits for a line of each level.
//
// Numbers have 8 bits where ranks do and the machine looks up such: a vector is a tree of depth 6.
// Else they have 16, and where ranks and slots fit, a node is one of them, its slot below its rank:
// a lookup reads no bits but the slot's, and of the row all bits there are set, so that the ranks
// above decide the comparison. Trees are taken kTogether at a time: the leaves of some are added,
// each to the sum of those before, while the next are compared.
//
// Ranks are found by B-trees of the thresholds, a vector a node: a level is one comparison and a
// count of bits, and a column of 255 thresholds two lines of the cache, where a binary search has
// eight steps and five.
#pragma once

#include "compiler/kernel/Machine.h"
#include "compiler/targets/cpu/templates/CompleteTreeFrame.h"

namespace tensmith::kernel {

/// The tables of a forest that is followed so.
struct NodeLookups {
  Lookup lookup;         // of the machine
  int64_t bits = 16;     // of a number
  bool isPacked = false; // `places` has the nodes' ranks, too
  int64_t registers = 1; // of the row, a power of 2
  int64_t groups = 1;    // vectors of a tree

  // By tree, `groups` vectors each; trees are filled up to a multiple of kAbreast.
  std::vector<uint32_t> places, ranks;
  /// Where slots of the forest lie among the row's, or behind all: those that no node tests.
  std::vector<uint32_t> slotPlaces;

  /// By tested column: its thresholds' keys as a B-tree, level after level, each filled up with the
  /// greatest key. Below entry i of a level are those from kFan * i on of the next.
  std::vector<uint32_t> searched;
  std::vector<int64_t> levels; // where each begins, of every column; then where the column ends

  static constexpr int64_t kFan = 16, kAbreast = 8; // keys, and trees' words, of a vector
  int64_t lanes() const { return 512 / bits; }
};

/// Nothing where the machine has no lookups, more slots are tested than a few registers hold, or
/// the ranks of a row take longer than the steps that they save.
std::optional<NodeLookups> nodeLookups(const CompleteTrees &trees, const Machine &machine);

class LookupTreeCode : CompleteTreeFrame {
public:
  LookupTreeCode(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                 const CompleteTrees &trees, const NodeLookups &lookups, mlir::ValueRange results);

  int64_t scratchBytes() const;
  void begin(mlir::Value sums, mlir::Value scratch);
  /// Gives the row's results.
  void follow(mlir::Value row);

private:
  mlir::VectorType words() const;
  mlir::Value loadVector(mlir::Type type, mlir::Value base, mlir::Value bytes);
  void rankColumns(mlir::Value row, mlir::Value first);
  /// How many thresholds of the column are below the key.
  mlir::Value rankOf(mlir::Value key, mlir::Value column);
  void compareNodes(mlir::Value tree, mlir::Value number);
  void walkAbreast(mlir::Value number);
  mlir::Value bitsAt(llvm::ArrayRef<mlir::Value> words, mlir::Value nodes, int64_t level);
  Values addLeaves(mlir::Value first, mlir::Value count, mlir::ValueRange sums);
  mlir::Value reachedLeaf(mlir::Value first, mlir::Value number);

  const NodeLookups &tables_;
  mlir::Type number_;
  mlir::VectorType vector_;                               // of nodes
  int64_t wordCount_;                                     // of a tree
  mlir::Value sums_, row_, masks_, reached_;              // in scratch memory
  mlir::Value places_, ranks_, slotPlaces_, searchTrees_; // in the image
  llvm::SmallVector<mlir::Value, 8> registers_;           // the row's ranks
};

} // namespace tensmith::kernel
