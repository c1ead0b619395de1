// Ensembles of decision trees: many ways down are followed side by side.
//
// One way down a tree is a chain of loads, each of which waits for the one before: a node, the
// feature that it tests, the next node. A branch for each test would be guessed wrong every other
// time, which costs more than the test. So nothing branches: the test is a number, 0 or 1, that is
// added to the place of the children, which lie side by side, and kWays ways are followed at once,
// whose loads overlap: 0.5 to 1 ns for a step, where a walk with branches takes 10 and one that
// gathers 8 lanes 2.3 to 4.7 (100 trees of depth 6, 300 of depth 8; vectors of 256 bits). A node is
// 8 bytes (16 of f64) of one cache line, and its children 16.
//
// A leaf follows itself: its column is one behind the row's features, which holds -inf, so that its
// test passes whatever it holds in the place of a threshold, and that is its weight. A shallow
// tree can so be followed for as many steps as the deepest needs.
//
// Rows are taken in blocks, one block a work item, whose tested features are first copied to
// scratch memory, row by row, with -inf behind. Of many rows blocks are kLargeBlock long, so that a
// tree is seldom read again; of fewer kSmallBlock, so that threads have a share. What is done with
// a block depends on the forest and on the number of rows, which only the run knows:
//
//   rows    shallow trees, whole groups of kWays rows: one tree, kWays rows; then the next group of
//           the block, so that a tree is read into the first-level cache once for the whole block
//   trees   shallow trees, the rows that are left, and a small batch: kWays trees, one row; then
//           the next row; the last trees, fewer than that, one by one
//   lists   trees deeper than kUnrolled, of which most ways are much shorter than the longest:
//           kListed ways, of all rows and some trees, are listed and taken kSteps further, kWays at
//           a time; those that are not at a leaf by then are listed again, until none is. A row's
//           ways lie side by side, so that kWays trees are read from memory at once
//
// Of forests that are shallow enough complete trees are made instead (CompleteTreeCode.h).
//
// All add what they find to sums in scratch memory, [rows, targets], in the order of the trees: a
// row's result depends neither on the batch that it came in nor on how the trees are followed.
#include "compiler/targets/cpu/templates/TreeKernel.h"

#include "compiler/targets/cpu/templates/CompleteTreeCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Rows that pass all trees together, an item.
static constexpr Choice blockRows{"block_rows", 32, 512, 32};
/// Whether trees are made complete, where they can be.
static constexpr Choice complete{"complete_trees", 0, 1};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::complete, &choice::blockRows, &choice::maskedRows,
                                      &choice::lookedUp};

constexpr int64_t kWays = 16;
constexpr int64_t kSmallBlock = 32, kLargeBlock = 128, kManyRows = 2048;
constexpr int64_t kUnrolled = 10; // steps
constexpr int64_t kSteps = 4;     // of listed ways
constexpr int64_t kListed = 512;
constexpr int64_t kList = kListed + kWays; // with what fills up the last group
static_assert(kListed >= choice::blockRows.most);

using Ways = SmallVector<Value>;

bool isDeep(graph::TreeEnsembleOp root) { return int64_t(root.getDepth()) > kUnrolled; }

Value blockOf(IndexMath &math, Value rows, const Point &asked) {
  if (auto block = asked[choice::blockRows])
    return math.constant(*block);
  return math.select(math.less(rows, math.constant(kManyRows)), math.constant(kSmallBlock),
                     math.constant(kLargeBlock));
}

class TreeEmitter : TreeCode {
public:
  TreeEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
              const Point &asked, ValueRange results)
      : TreeCode(emitter, kernel, root, results), asked_(asked),
        nodes_(emitter.buffer(root.getNodes())), trees_(emitter.buffer(root.getTrees())),
        word_(builder_.getIntegerType(element_.getIntOrFloatBitWidth())),
        treeCount_(cast<RankedTensorType>(root.getTrees().getType()).getDimSize(0)),
        nodeCount_(cast<RankedTensorType>(root.getNodes().getType()).getDimSize(0)) {}

  void emitBlocks(Value begin, Value end) {
    int64_t size = element_.getIntOrFloatBitWidth() / 8;
    row_ = columnCount_ + 1;
    block_ = blockOf(math_, rows_, asked_);
    Value elements = math_.mul(block_, row_ + targets_), bytes = math_.mul(elements, size);
    if (isDeep(root_))
      bytes = math_.add(bytes, 3 * kList * 4);
    features0_ = emitScratch(emitter_, bytes, begin, end);
    sums_ = at(features0_, math_.mul(block_, row_));
    Type entries = builder_.getI32Type();
    places_ = elementPointer(math_, entries, at(features0_, elements), math_.constant(0));
    starts_ = elementPointer(math_, entries, places_, math_.constant(kList));
    list_ = elementPointer(math_, entries, starts_, math_.constant(kList));
    checkColumns(begin, end);
    forEach(begin, end, [&](Value block) { emitBlock(block); });
  }

private:
  void setEntry(Value table, Value offset, Value index) {
    Type type = builder_.getI32Type();
    Value entry = builder_.create<arith::IndexCastUIOp>(math_.location, type, index);
    builder_.create<LLVM::StoreOp>(math_.location, entry,
                                   elementPointer(math_, type, table, offset), 4);
  }

  void emitBlock(Value block) {
    Value first = math_.mul(block, block_);
    Value count = math_.min(math_.sub(rows_, first), block_);
    forEach(math_.constant(0), count, [&](Value row) { copyRow(math_.add(first, row), row); });
    if (isDeep(root_)) {
      followLists(count);
    } else {
      Value whole = math_.mul(math_.div(count, math_.constant(kWays)), kWays);
      forEach(treeCount_, [&](Value tree) { followByRows(tree, whole); });
      followByTrees(whole, count);
    }
    forEach(math_.constant(0), count,
            [&](Value row) { giveRow(sums_, math_.add(first, row), row); });
  }

  /// The tested features of a row, -inf, and sums of nothing.
  void copyRow(Value from, Value to) {
    Value source = math_.mul(from, features_);
    Value target = math_.mul(to, row_);
    forEach(columnCount_, [&](Value i) {
      store(loadElement(x_, math_.add(source, entry(columns_, i))), features0_,
            math_.add(target, i));
    });
    store(number(-std::numeric_limits<double>::infinity()), features0_,
          math_.add(target, columnCount_));
    clearSums(sums_, to);
  }

  // The layouts.

  void followByRows(Value tree, Value whole) {
    Value root = entry(trees_, math_.mul(tree, 2));
    emitFor(math_, math_.constant(0), whole, math_.constant(kWays), [&](Value group) {
      Ways rows, roots(kWays, root);
      for (int64_t way = 0; way < kWays; ++way)
        rows.push_back(math_.add(group, way));
      for (auto [row, leaf] : llvm::zip_equal(rows, follow(rows, roots)))
        addLeaf(row, tree, leaf);
    });
  }

  void followByTrees(Value begin, Value end) {
    int64_t whole = treeCount_ / kWays * kWays;
    auto followGroup = [&](Value first, int64_t count) {
      Ways trees, roots;
      for (int64_t way = 0; way < count; ++way) {
        trees.push_back(math_.add(first, way));
        roots.push_back(entry(trees_, math_.mul(trees.back(), 2)));
      }
      forEach(begin, end, [&](Value row) {
        for (auto [tree, leaf] : llvm::zip_equal(trees, follow(Ways(size_t(count), row), roots)))
          addLeaf(row, tree, leaf);
      });
    };
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(kWays),
            [&](Value first) { followGroup(first, kWays); });
    forEach(math_.constant(whole), math_.constant(treeCount_),
            [&](Value tree) { followGroup(tree, 1); });
  }

  // Lists: of a way, by its number, the place that it is at and where its row's features start; and
  // the numbers of those that go on.

  void followLists(Value rows) {
    Value most = math_.div(math_.constant(kListed), rows);
    emitFor(math_, math_.constant(0), math_.constant(treeCount_), most, [&](Value first) {
      Value trees = math_.min(math_.sub(math_.constant(treeCount_), first), most);
      listWays(rows, first, trees);
      followListed(math_.mul(rows, trees));
      forEach(math_.constant(0), rows, [&](Value row) {
        forEach(math_.constant(0), trees, [&](Value tree) {
          Value way = math_.add(math_.mul(row, trees), tree);
          addLeaf(row, math_.add(first, tree), entry(places_, way));
        });
      });
    });
  }

  /// Each row's ways side by side; and behind all, one that stays at the last node, a leaf.
  void listWays(Value rows, Value first, Value trees) {
    forEach(math_.constant(0), rows, [&](Value row) {
      Value features = math_.mul(row, row_);
      forEach(math_.constant(0), trees, [&](Value tree) {
        Value way = math_.add(math_.mul(row, trees), tree);
        Value root = entry(trees_, math_.mul(math_.add(first, tree), 2));
        setWay(way, root, features);
        setEntry(list_, way, way);
      });
    });
    setWay(math_.mul(rows, trees), math_.constant(nodeCount_ - 1), math_.constant(0));
  }

  void setWay(Value way, Value place, Value features) {
    setEntry(places_, way, place);
    setEntry(starts_, way, features);
  }

  void followListed(Value ways) {
    SmallVector<Type> types{builder_.getIndexType()};
    auto loop = builder_.create<scf::WhileOp>(math_.location, types, ValueRange{ways});
    OpBuilder::InsertionGuard guard(builder_);
    Block *test = builder_.createBlock(&loop.getBefore(), {}, types, {math_.location});
    Value left = test->getArgument(0);
    builder_.create<scf::ConditionOp>(math_.location, math_.less(math_.constant(0), left), left);
    Block *pass = builder_.createBlock(&loop.getAfter(), {}, types, {math_.location});
    left = pass->getArgument(0);
    for (int64_t i = 0; i < kWays; ++i)
      setEntry(list_, math_.add(left, i), ways);
    Ways kept = emitReduction(
        math_, math_.constant(0), left, math_.constant(kWays), {math_.constant(0)},
        [&](Value group, ValueRange kept) -> Ways { return {followGroup(group, kept[0])}; });
    builder_.create<scf::YieldOp>(math_.location, kept);
  }

  /// Some steps of the ways from `group` of the list on; those that have not ended by then are
  /// listed again, from `kept` on. Gives back where the list ends.
  Value followGroup(Value group, Value kept) {
    Ways ways, starts, places;
    for (int64_t i = 0; i < kWays; ++i)
      ways.push_back(entry(list_, math_.add(group, i)));
    for (Value way : ways) {
      places.push_back(entry(places_, way));
      starts.push_back(entry(starts_, way));
    }
    for (int64_t step = 0; step < kSteps; ++step)
      places = next(starts, places);
    for (auto [way, place] : llvm::zip_equal(ways, places))
      setEntry(places_, way, place);
    for (auto [way, place] : llvm::zip_equal(ways, places)) {
      setEntry(list_, kept, way);
      kept = math_.add(kept, builder_.create<arith::IndexCastUIOp>(
                                 math_.location, builder_.getIndexType(), leadsOn(place)));
    }
    return kept;
  }

  Value leadsOn(Value place) {
    Value word = load(word_, nodes_, math_.add(math_.mul(place, 2), 1));
    return builder_.create<arith::CmpIOp>(math_.location, arith::CmpIPredicate::uge, word,
                                          integer(int64_t(1) << (columnBits() + 2)));
  }

  // The ways.

  /// The leaves that the ways end at.
  Ways follow(const Ways &rows, Ways places) {
    Ways features;
    for (Value row : rows)
      features.push_back(math_.mul(row, row_));
    for (int64_t step = 0; step < int64_t(root_.getDepth()); ++step)
      places = next(features, places);
    return places;
  }

  /// One step of each: all loads of one kind before the next, which is the order to issue them in.
  Ways next(const Ways &features, const Ways &places) {
    Ways words, thresholds, tested, result;
    for (Value place : places) {
      Value node = math_.mul(place, 2);
      thresholds.push_back(loadElement(nodes_, node));
      words.push_back(load(word_, nodes_, math_.add(node, 1)));
    }
    for (auto [feature, word] : llvm::zip_equal(features, words)) {
      Value column = masked(word, (int64_t(1) << columnBits()) - 1);
      tested.push_back(loadElement(features0_, math_.add(feature, toIndex(column))));
    }
    for (auto [place, word, x, t] : llvm::zip_equal(places, words, tested, thresholds)) {
      Value fails = builder_.create<arith::XOrIOp>(math_.location, passes(word, x, t), bit(true));
      Value child = math_.add(place, toIndex(shifted(word, columnBits() + 2)));
      result.push_back(builder_.create<arith::AddIOp>(
          math_.location, child,
          builder_.create<arith::IndexCastUIOp>(math_.location, builder_.getIndexType(), fails)));
    }
    return result;
  }

  int64_t columnBits() { return int64_t(root_.getColumnBits()); }

  Value passes(Value word, Value x, Value t) {
    bool all = root_.getMissing() == "all", strict = root_.getStrict();
    auto ordered = strict ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OLE;
    auto orNaN = strict ? arith::CmpFPredicate::ULT : arith::CmpFPredicate::ULE;
    Value result = compare(all ? orNaN : ordered, x, t);
    if (root_.getEquality())
      result = builder_.create<arith::SelectOp>(
          math_.location, flag(word, columnBits() + 1),
          compare(all ? arith::CmpFPredicate::UEQ : arith::CmpFPredicate::OEQ, x, t), result);
    if (root_.getMissing() != "some")
      return result;
    Value missing = builder_.create<arith::AndIOp>(math_.location, flag(word, columnBits()),
                                                   compare(arith::CmpFPredicate::UNO, x, x));
    return builder_.create<arith::OrIOp>(math_.location, result, missing);
  }

  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return builder_.create<arith::CmpFOp>(math_.location, predicate, a, b);
  }
  Value integer(int64_t value) {
    return builder_.create<arith::ConstantOp>(math_.location,
                                              builder_.getIntegerAttr(word_, value));
  }
  Value bit(bool value) {
    return builder_.create<arith::ConstantOp>(math_.location, builder_.getBoolAttr(value));
  }
  Value shifted(Value word, int64_t by) {
    return builder_.create<arith::ShRUIOp>(math_.location, word, integer(by));
  }
  Value masked(Value word, int64_t mask) {
    return builder_.create<arith::AndIOp>(math_.location, word, integer(mask));
  }
  Value flag(Value word, int64_t number) {
    return builder_.create<arith::TruncIOp>(math_.location, builder_.getI1Type(),
                                            shifted(word, number));
  }

  // The sums.

  void addLeaf(Value row, Value tree, Value leaf) {
    Value sums = math_.mul(row, targets_), node = math_.mul(leaf, 2);
    if (isa<NoneType>(root_.getWeights().getType())) {
      Value target =
          targets_ == 1 ? math_.constant(0) : entry(trees_, math_.add(math_.mul(tree, 2), 1));
      return combineAt(sums_, math_.add(sums, target), loadElement(nodes_, node));
    }
    Value weights = math_.mul(toIndex(load(word_, nodes_, node)), targets_);
    forEach(targets_, [&](Value target) {
      combineAt(sums_, math_.add(sums, target),
                loadElement(emitter_.buffer(root_.getWeights()), math_.add(weights, target)));
    });
  }

  const Point &asked_;
  Value nodes_, trees_; // in memory
  Type word_;
  Value block_;
  int64_t treeCount_, nodeCount_, row_ = 0;
  Value features0_, sums_, places_, starts_, list_; // in scratch memory
};

/// Ways are independent instructions of the same kind, and LLVM would put their addresses together
/// into vectors, and take them apart for the loads: twice the time of a step.
void keepScalar(OpBuilder &builder) {
  auto function = builder.getBlock()->getParent()->getParentOfType<func::FuncOp>();
  SmallVector<mlir::Attribute> attributes(
      function->getAttrOfType<ArrayAttr>("passthrough").getValue());
  attributes.push_back(builder.getStringAttr("noimplicitfloat"));
  function->setAttr("passthrough", builder.getArrayAttr(attributes));
}

} // namespace

bool isTreeRoot(Operation *op) { return isa<graph::TreeEnsembleOp>(op); }

bool canFollowTrees(graph::TreeEnsembleOp op) {
  constexpr int64_t kMostScratch = int64_t(1) << 22; // elements
  auto forest = packedForest(op);
  // What has one element is no operand of a kernel, but written into it.
  return forest && forest->columns.size() >= 2 && forest->weights.size() != 1 &&
         forest->columns.size() + int64_t(op.getTargets()) <= kMostScratch &&
         reference::checkForest(*forest).ok();
}

static std::optional<CompleteTrees> completed(graph::TreeEnsembleOp root) {
  auto forest = packedForest(root);
  return forest ? completeTrees(*forest, root.getStrict(), root.getMissing(), root.getEquality())
                : std::nullopt;
}

/// From how many rows on masks take less time than steps or lookups: a node's test of all rows is
/// about two thirds of the time of a step of one, and lookups take a third of a walk's.
static int64_t leastMasked(const CompleteTrees &trees, bool areLookedUp) {
  int64_t rows = 2 * trees.nodes() / (3 * trees.depth) + 3;
  return std::min(areLookedUp ? 3 * rows : rows, maskLanes(trees));
}

/// Items of blocks of rows, each of which takes so many operations a row.
static WorkItems blocksOf(IndexMath &math, Value rows, Value block, int64_t work,
                          const Point &asked) {
  return {math.ceilDiv(rows, block),
          grainOf(math, math.mul(block, std::min<int64_t>(work, 1 << 20))), asked.of(kChoices)};
}

static KernelParts completeParts(graph::KernelOp kernel, graph::TreeEnsembleOp root,
                                 const Machine &machine, const Point &asked, CompleteTrees made) {
  auto trees = std::make_shared<const CompleteTrees>(std::move(made));
  auto lookups = std::make_shared<std::optional<NodeLookups>>();
  if (asked[choice::lookedUp].value_or(1))
    *lookups = nodeLookups(*trees, machine);
  int64_t lanes = maskLanes(*trees), block = asked[choice::blockRows].value_or(lanes);
  block = int64_t(llvm::alignTo(block, lanes));
  int64_t maskedRows =
      asked[choice::maskedRows].value_or(leastMasked(*trees, lookups->has_value()));
  KernelParts parts;
  parts.summary = "complete trees";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    Value rows = dimValues(math, sizes, root.getX().getType())[0];
    return blocksOf(math, rows, math.constant(block), trees->trees * (trees->depth + 2) * 2, asked);
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    keepScalar(emitter.builder());
    emitCompleteTrees(emitter, kernel, root, *trees, *lookups ? &**lookups : nullptr, block,
                      maskedRows, results, begin, end);
  };
  return parts;
}

static KernelParts treeParts(graph::KernelOp kernel, graph::TreeEnsembleOp root,
                             const Machine &machine, const Point &asked) {
  if (asked[choice::complete].value_or(1))
    if (auto trees = completed(root))
      return completeParts(kernel, root, machine, asked, std::move(*trees));
  KernelParts parts;
  parts.summary = "trees";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    Value rows = dimValues(math, sizes, root.getX().getType())[0];
    auto trees = cast<RankedTensorType>(root.getTrees().getType()).getDimSize(0);
    // A step is about eight operations.
    int64_t work = trees * std::min<int64_t>(int64_t(root.getDepth()) + 2, 64) * 8;
    return blocksOf(math, rows, blockOf(math, rows, asked), work, asked);
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    keepScalar(emitter.builder());
    TreeEmitter(emitter, kernel, root, asked, results).emitBlocks(begin, end);
  };
  return parts;
}

static void choicesOf(graph::TreeEnsembleOp root, const Machine &machine, Space &space) {
  if (auto trees = completed(root)) {
    bool areLookedUp = nodeLookups(*trees, machine).has_value();
    space.addAll(choice::complete, 1);
    Space::Dimension *rows = space.addDoubling(choice::maskedRows, maskLanes(*trees));
    rows->guard = &choice::complete;
    rows->guardValues = {1};
    if (areLookedUp) {
      Space::Dimension *lookups = space.addAll(choice::lookedUp, 1);
      lookups->guard = &choice::complete;
      lookups->guardValues = {1};
    }
  }
  space.addDoubling(choice::blockRows, choice::blockRows.most);
}

const Template kTrees = {
    .name = "trees",
    .mayBeRoot =
        [](Operation *op) {
          auto trees = dyn_cast<graph::TreeEnsembleOp>(op);
          return trees && canFollowTrees(trees);
        },
    .isRoot = isTreeRoot,
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return treeParts(kernel, cast<graph::TreeEnsembleOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *main, const Machine &machine,
                Space &space) { choicesOf(cast<graph::TreeEnsembleOp>(main), machine, space); },
    .distrusts = [](graph::KernelOp, Operation *op, const Machine &) -> const char * {
      auto trees = dyn_cast<graph::TreeEnsembleOp>(op);
      return trees && !canFollowTrees(trees) ? "its trees lead astray" : nullptr;
    },
};

} // namespace tensmith::kernel
