// Steps of Python as a graph of what they do to tensors, so that steps which part and meet again
// share what they have in common.
//
// A node is what a deed is (operator, attributes, operands' types, shapes and strides) at its place
// in the program, which is its call stack: the same line called from two places is two nodes, and
// each turn of a loop comes back to the nodes of the turn before. Recorded steps are walks through
// the graph. Where walks part, meet or read, they are cut: what lies between two cuts is a block,
// as in a compiler's control flow graph, with a back edge for each loop.
//
// A block is compiled by itself. It numbers the storages in the order in which its own deeds meet
// them, and so depends on nothing that was before: it runs on whatever tensors a step has when it
// gets there. Deeds at the same nodes that are otherwise linked (`x * x`, `x * y`) are blocks of
// their own.
//
// Invariant: places decide where walks are cut, and no more. Whoever follows a block compares all
// that its program depends on.
// Source: Kim et al., Terra: Imperative-Symbolic Co-Execution, NeurIPS 2021 (trace graphs).
#pragma once

#include "eager/Compiled.h"
#include "eager/Operators.h"
#include "eager/Tape.h"

#include <functional>
#include <set>

namespace tensmith::eager {

/// What a graph depends on of a deed: what it is, and which storages its operands are.
struct Signature {
  std::string what; // empty: is not compared
  std::vector<int> which;
  bool operator==(const Signature &) const = default;
};

/// What a deed is, apart from its tensors. Paths share it with the steps that follow them.
struct Meaning {
  Signature signature = {};
  Attributes attributes = {};
};

/// What a step does, in the order of its program. Of kinds that compute, `operands` to `results`; a
/// write has the arrays that are written as its results, each from the operand of its place.
struct Deed {
  enum class Kind : uint8_t { Operation, Program, Concat, Write, View, Read };
  Kind kind;
  const Operator *op = nullptr; // Operation
  std::shared_ptr<const Compiled> program = {};
  /// Without their storage once the deed is done: only what nobody has computed yet keeps memory.
  std::vector<Array> operands = {}, results = {};
  std::vector<int> numbers = {}; // of the step's storages, of both; -1: of a constant, which stays
  std::unique_ptr<const ViewStep> view = {};   // View: results[0] is one of operands[0]
  std::shared_ptr<const Meaning> meaning = {}; // none: of what is not compared
  int segment = -1;                            // -1: of none yet
  bool isDone = false;    // by itself or with its block, not by a path's segment
  size_t stack = 0;       // the call stack, hashed
  std::string place = {}; // for people
  const Signature &signature() const { return meaning ? meaning->signature : kNone.signature; }
  const Attributes &attributes() const { return meaning ? meaning->attributes : kNone.attributes; }
  bool computes() const { return kind != Kind::View && kind != Kind::Read; }
  bool makes() const { return computes() && kind != Kind::Write; }
  int numberOfResult(size_t i) const { return numbers[operands.size() + i]; }

private:
  static const Meaning kNone;
};

/// How the tensors of a step are views of others, by what they are seen as.
class Views {
public:
  Views() = default;
  explicit Views(std::span<const Deed> deeds);
  /// Tells a tape how the array is a view, and what it is a view of.
  void tell(Tape &tape, const Array &array) const;

private:
  std::map<std::pair<const Storage *, Geometry>, const Deed *> first_;
};

/// Deeds as one program: what a read depends on, or all that are left, or a block.
struct Segment {
  /// A storage by its number in the step, or in the block; `as`: as the program has it, without the
  /// storage.
  struct Value {
    int storage;
    Array as;
    bool isMade; // by a deed of this segment, so that it can be written before Python gets there
  };
  size_t begin = 0, end = 0; // deeds that are compared, and were met while it was under way
  std::string text;
  std::vector<Value> inputs, outputs;
  std::vector<Array> constants; // inputs that are always the same: those whose storage is -1
  size_t lastInput = 0;         // the deed that brings the last of them, and its number + 1
  std::set<int> wanted;         // made storages that have to be outputs
  std::shared_ptr<const Compiled> compiled;
  bool isEmpty() const { return outputs.empty(); }
  bool isReady() const { return isEmpty() || compiled; }
};

/// What a segment is made of.
struct SegmentSource {
  std::vector<const Deed *> deeds; // that compute, in order
  const Views &views;
  const std::unordered_map<const Storage *, int> &numbers;
  std::function<const Array &(int)> array; // a storage as it was met
  std::function<bool(int)> isMade;         // by one of the deeds
  std::function<size_t(int)> metAt;        // the deed that brings what the program takes of it
};

/// The program of the deeds, with what is wanted and what they write outside as its outputs.
Status build(Segment &segment, const SegmentSource &of);

/// What says whether two steps have done the same: reads aside, which depend on how it was done.
size_t wayOf(std::span<const Deed> deeds);

/// A recorded step. Its tensors are on storages of its own that have no memory, and say what of a
/// tensor a program depends on.
struct Trace {
  explicit Trace(std::vector<Deed> given) : deeds(std::move(given)), views(deeds) {}
  Trace(Trace &&) = default; // `views` points into `deeds`, which stay where they are
  Trace &operator=(Trace &&) = default;
  std::vector<Deed> deeds;
  Views views;
  /// The deed before which nobody held what was made any more; nothing where somebody still does.
  std::unordered_map<const Storage *, size_t> diedBefore = {};
};

/// Deeds that are left and entered nowhere in between.
struct Block {
  std::vector<int> nodes;
  std::vector<std::vector<int>> which; // of each deed, by the block's numbers
  std::shared_ptr<Segment> segment;
  /// Storages that Python turned out to keep. It is made again when the graph is.
  void want(const std::set<int> &made) const {
    segment->wanted.insert(made.begin(), made.end());
    segment->text.clear();
  }
};
using BlockRef = std::shared_ptr<Block>;

class TraceGraph {
public:
  /// Keeps the step, and cuts all steps anew.
  Status add(Trace trace);
  /// -1: of none.
  int node(const Deed &deed) const;
  /// The blocks that begin at a node and are ready to run.
  std::vector<BlockRef> from(int node) const;
  const std::vector<BlockRef> &blocks() const { return blocks_; }
  /// Of the steps that are kept.
  size_t nodeCount() const { return nodes_.size(); }
  /// Steps have read, or ended, after this node.
  bool isReadAfter(int node) const { return cutAfter_.contains(node); }

private:
  using Key = std::pair<std::string, size_t>;
  using ByFirst = std::multimap<int, BlockRef>;
  struct Neighbours { // kOutside: the step's begin or end
    std::set<int> before, after;
  };
  struct Piece {
    const Trace *trace;
    std::vector<size_t> deeds; // by their number in the trace
    size_t end;                // the deed, read or end of the step that it was over at
  };
  std::vector<Piece> cut() const;
  bool isCut(int before, int after) const;
  void link();
  Status include(const Piece &piece, const ByFirst &earlier);

  std::map<Key, int> nodes_;
  int nextNode_ = 0; // a number is never given twice, as blocks are known by them
  std::vector<Trace> traces_;
  std::map<int, Neighbours> neighbours_; // of each node
  std::set<int> cutAfter_;
  std::vector<BlockRef> blocks_;
  ByFirst byFirst_;
};

} // namespace tensmith::eager
