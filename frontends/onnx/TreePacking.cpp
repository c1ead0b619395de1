// Forests as graph.tree_ensemble has them; see Trees.h.
//
// The children of a node lie side by side, so a node that several lead to is repeated. Behind them
// are theirs: six nodes, in which a way spends two steps, and which lie in one cache line or two.
// Such groups follow one another level by level, so that those near the root, which all rows pass,
// share a few lines. All comparisons become x <= t, or x < t in all nodes: the other way round by
// changing places of the children, a strict one among others by the next number below t. What does
// not become a test that always says no, as x <= NaN is, is a test of equality. NaN fails all of
// them, whatever it did before: where it went is a flag.
#include "frontends/onnx/Classifiers.h"
#include "frontends/onnx/Trees.h"
#include "reference/Trees.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>

namespace tensmith::onnx_import {
namespace {

constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

/// A node's test in the terms of the packed form.
struct Test {
  double threshold;
  bool isEquality, isSwapped, nanPasses;
};

double below(double t, bool isWide) {
  double infinity = std::numeric_limits<double>::infinity();
  if (t == -infinity)
    return kNever;
  return isWide ? std::nextafter(t, -infinity)
                : double(std::nextafterf(float(t), -std::numeric_limits<float>::infinity()));
}

Test testOf(int64_t mode, double t, bool isMissing, bool isStrict, bool isWide) {
  bool isSwapped = mode == GreaterOrEqual || mode == Greater || mode == NotEqual;
  bool isBelow = mode == Less || mode == GreaterOrEqual; // x < t, or its opposite
  if (mode == Equal)
    return {t, true, false, isMissing};
  if (mode == NotEqual)
    return {t, true, true, false};
  if (std::isnan(t))
    return {kNever, false, false, isMissing};
  return {isBelow && !isStrict ? below(t, isWide) : t, false, isSwapped,
          isSwapped ? !isMissing : isMissing};
}

class Packing {
public:
  Packing(const Forest &forest, int64_t aggregate, bool isWide)
      : forest_(forest), aggregate_(aggregate), isWide_(isWide) {}

  /// False where the forest has no such form, or not one of about its size.
  bool pack() {
    numberColumns();
    isStrict_ = llvm::all_of(forest_.modes, [](int64_t mode) {
      return mode == Less || mode == GreaterOrEqual || mode == Equal || mode == NotEqual;
    });
    gatherWeights();
    if (!table_.valid())
      return false;
    for (auto [tree, root] : llvm::enumerate(forest_.roots))
      if (!packTree(root, targetOf_[tree]))
        return false;
    return fits();
  }

  Value emit(NodeImport &n, Value x) {
    Type element = n.element(x);
    SmallVector<NamedAttribute> attributes{n.integer("targets", forest_.targetCount),
                                           n.integer("column_bits", columnBits()),
                                           n.integer("depth", depth_),
                                           n.boolean("strict", isStrict_),
                                           n.text("missing", passing_ == 0 ? "none"
                                                             : passing_ == inner_ && !hasNever_
                                                                 ? "all"
                                                                 : "some"),
                                           n.boolean("equality", hasEquality_),
                                           n.text("aggregate", aggregate_ == Minimum   ? "min"
                                                               : aggregate_ == Maximum ? "max"
                                                                                       : "sum")};
    Value weights = n.none();
    if (!isSingle_)
      weights = n.constant(table_);
    Value columns = n.constant(ofIntegers(columns_, {int64_t(columns_.size())}, DataType::I32));
    Value trees = n.constant(ofIntegers(trees_, {int64_t(trees_.size()) / 2, 2}, DataType::I32));
    return n("graph.tree_ensemble", {x, columns, packedNodes(n), trees, weights}, attributes);
  }

private:
  struct Node {
    double threshold;
    reference::TreeNode word;
  };

  static HostTensor ofIntegers(ArrayRef<int64_t> values, Shape shape, DataType type) {
    HostTensor tensor(type, std::move(shape));
    for (size_t i = 0; tensor.valid() && i < values.size(); ++i)
      tensor.setInt(int64_t(i), values[i]);
    return tensor;
  }

  int64_t columnBits() const { return int64_t(std::bit_width(columns_.size())); }
  double largest() const {
    return isWide_ ? std::numeric_limits<double>::max() : double(std::numeric_limits<float>::max());
  }
  double nothing() const {
    return aggregate_ == Minimum ? largest() : aggregate_ == Maximum ? -largest() : 0;
  }

  /// At least two, since a constant of one element becomes no table of a kernel's.
  void numberColumns() {
    std::set<int64_t> used(forest_.features.begin(), forest_.features.end());
    columns_.assign(used.begin(), used.end());
    if (columns_.empty())
      columns_.push_back(0);
    if (columns_.size() == 1)
      columns_.push_back(columns_.front());
  }

  /// Whether the leaves of each tree hold one target's weights alone, which are then kept by leaf;
  /// else in a table by leaf and target. The aggregate joins several of one leaf and target.
  void gatherWeights() {
    SmallVector<int64_t> targets(size_t(forest_.leaves()), kNone);
    for (size_t i = 0; i < forest_.weights.size(); ++i) {
      int64_t &own = targets[size_t(forest_.holders[i])];
      own = own == kNone || own == forest_.targets[i] ? forest_.targets[i] : int64_t(kSeveral);
    }
    for (int64_t root : forest_.roots)
      targetOf_.push_back(targetBelow(root, targets));
    isSingle_ = !llvm::is_contained(targetOf_, int64_t(kSeveral));
    if (isSingle_) {
      ofLeaf_.assign(size_t(forest_.leaves()), nothing());
      for (size_t i = 0; i < forest_.weights.size(); ++i)
        join(ofLeaf_[size_t(forest_.holders[i])], forest_.weights[i]);
      return;
    }
    std::fill(targetOf_.begin(), targetOf_.end(), 0);
    table_ = HostTensor(isWide_ ? DataType::F64 : DataType::F32,
                        {forest_.leaves(), forest_.targetCount});
    for (int64_t i = 0; table_.valid() && i < table_.size(); ++i)
      table_.setDouble(i, nothing());
    for (size_t i = 0; table_.valid() && i < forest_.weights.size(); ++i) {
      int64_t place = forest_.holders[i] * forest_.targetCount + forest_.targets[i];
      double held = table_.getDouble(place);
      join(held, forest_.weights[i]);
      table_.setDouble(place, held);
    }
  }

  void join(double &held, double weight) const {
    held = aggregate_ == Minimum   ? std::min(held, weight)
           : aggregate_ == Maximum ? std::max(held, weight)
                                   : held + weight;
  }

  enum : int64_t { kNone = -1, kSeveral = -2 };

  int64_t targetBelow(int64_t root, ArrayRef<int64_t> targets) const {
    int64_t found = kNone;
    SmallVector<int64_t> waiting{root};
    llvm::DenseSet<int64_t> seen;
    while (!waiting.empty()) {
      int64_t at = waiting.pop_back_val();
      if (!seen.insert(at).second)
        continue;
      if (at >= 0) {
        waiting.append({forest_.yes[size_t(at)], forest_.no[size_t(at)]});
        continue;
      }
      int64_t target = targets[size_t(-1 - at)];
      if (target == kSeveral || (found != kNone && target != kNone && target != found))
        return kSeveral;
      found = target == kNone ? found : target;
    }
    return found == kNone ? 0 : found;
  }

  /// A node or, as -1 - leaf, a leaf of the forest that is given, and where it comes to lie.
  struct Placed {
    int64_t at, place, level;
  };

  bool packTree(int64_t root, int64_t target) {
    const size_t most = 4 * size_t(forest_.nodes() + forest_.leaves()) + 1024;
    trees_.append({int64_t(nodes_.size()), target});
    std::vector<Placed> waiting{{root, int64_t(nodes_.size()), 0}};
    nodes_.emplace_back();
    for (size_t i = 0; i < waiting.size() && nodes_.size() <= most; ++i)
      for (const Placed &child : place(waiting[i]))
        llvm::append_range(waiting, place(child));
    return nodes_.size() <= most;
  }

  /// Gives back the children, which get the next places.
  SmallVector<Placed, 2> place(const Placed &given) {
    depth_ = std::max(depth_, given.level);
    if (given.at < 0) {
      placeLeaf(-1 - given.at, given.place);
      return {};
    }
    auto next = int64_t(nodes_.size());
    nodes_.resize(nodes_.size() + 2);
    bool isSwapped = placeNode(given.at, given.place, next);
    int64_t yes = forest_.yes[size_t(given.at)], no = forest_.no[size_t(given.at)];
    return {{isSwapped ? no : yes, next, given.level + 1},
            {isSwapped ? yes : no, next + 1, given.level + 1}};
  }

  bool placeNode(int64_t at, int64_t place, int64_t next) {
    auto node = size_t(at);
    double t = forest_.splits[node];
    Test test = testOf(forest_.modes[node], isWide_ ? t : double(float(t)),
                       forest_.missing[node] == 1, isStrict_, isWide_);
    auto column = llvm::lower_bound(columns_, forest_.features[node]) - columns_.begin();
    nodes_[size_t(place)] = {test.threshold,
                             {test.nanPasses, test.isEquality, column, next - place}};
    furthest_ = std::max(furthest_, next - place);
    hasNever_ |= std::isnan(test.threshold);
    hasEquality_ |= test.isEquality;
    passing_ += test.nanPasses;
    ++inner_;
    return test.isSwapped;
  }

  void placeLeaf(int64_t leaf, int64_t place) {
    double weight = isSingle_ ? ofLeaf_[size_t(leaf)] : 0;
    if (!isWide_)
      weight = double(float(weight));
    isFinite_ &= weight > -std::numeric_limits<double>::infinity();
    nodes_[size_t(place)] = {isSingle_ ? weight : double(leaf),
                             {false, false, int64_t(columns_.size()), 0}};
  }

  /// Whether words have the bits for all numbers.
  bool fits() const {
    int64_t bits = (isWide_ ? 64 : 32) - 2 - columnBits();
    return isFinite_ && std::bit_width(uint64_t(furthest_)) <= bits &&
           int64_t(nodes_.size()) <= std::numeric_limits<int32_t>::max();
  }

  Value packedNodes(NodeImport &n) const {
    SmallVector<int64_t> values;
    for (const Node &node : nodes_) {
      bool isRow = !isSingle_ && node.word.ahead == 0;
      values.push_back(isRow     ? int64_t(node.threshold)
                       : isWide_ ? std::bit_cast<int64_t>(node.threshold)
                                 : int64_t(std::bit_cast<int32_t>(float(node.threshold))));
      values.push_back(int64_t(node.word.word(columnBits())));
    }
    return n.constant(
        ofIntegers(values, {int64_t(nodes_.size()), 2}, isWide_ ? DataType::I64 : DataType::I32));
  }

  const Forest &forest_;
  int64_t aggregate_;
  bool isWide_, isStrict_ = false, isSingle_ = true, isFinite_ = true;
  bool hasNever_ = false, hasEquality_ = false;
  int64_t passing_ = 0, inner_ = 0, depth_ = 0, furthest_ = 0;
  SmallVector<int64_t> columns_, targetOf_, trees_;
  SmallVector<double> ofLeaf_;
  HostTensor table_;
  std::vector<Node> nodes_;
};

} // namespace

Value predictPacked(NodeImport &n, Value x, const Forest &forest, int64_t aggregate) {
  Type given = n.element(x);
  bool isWide = given.isF64();
  Packing packing(forest, aggregate, isWide);
  if (!packing.pack())
    return {};
  x = n.cast(x, isWide ? given : Type(n.builder.getF32Type()));
  Value y = x ? packing.emit(n, x) : x;
  if (y && aggregate == Average)
    y = n.mul(y, 1 / double(forest.roots.size()));
  return y ? n.cast(y, given) : y;
}

} // namespace tensmith::onnx_import
