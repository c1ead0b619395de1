// See CompleteTreeCode.h. Tables lie in the kernel's image.
#include "compiler/targets/cpu/templates/CompleteTreeCode.h"

#include "compiler/targets/cpu/templates/CompleteTreeFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {

namespace {

constexpr int64_t kWays = 16; // of rows that are ranked, and trees whose leaves are kept
constexpr int64_t kWalks = 8; // side by side: more have no registers
constexpr int64_t kSums = 8;  // of rows, whose leaves are added side by side
constexpr uint32_t kMissingGreatest = 0xffffffff;

class CompleteTreeEmitter : CompleteTreeFrame {
public:
  CompleteTreeEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                      const CompleteTrees &trees, const NodeLookups *lookups, ValueRange results)
      : CompleteTreeFrame(emitter, kernel, root, trees, results), lanes_(maskLanes(trees)),
        rank_(builder_.getIntegerType(512 / lanes_)) {
    if (lookups)
      lookups_.emplace(emitter, kernel, root, trees, *lookups, results);
  }

  void emit(int64_t block, int64_t maskedRows, Value begin, Value end) {
    Value memory = emitScratch(emitter_, math_.constant(scratchBytes()), begin, end);
    takeScratch(memory);
    checkColumns(begin, end);
    placeTables();
    if (!lookups_)
      nodes_ = table("nodes", nodeTable());
    ranked_ = table("ranks", rankTable());
    searched_ = table("searched", forest_.searched);
    forEach(begin, end, [&](Value item) {
      Value first = math_.mul(item, block);
      Value last = math_.min(math_.add(first, block), rows_);
      emitFor(math_, first, last, math_.constant(lanes_), [&](Value at) {
        Value count = math_.min(math_.sub(last, at), math_.constant(lanes_));
        emitIf(
            math_, math_.less(count, math_.constant(maskedRows)),
            [&] {
              forEach(math_.constant(0), count, [&](Value row) { follow(math_.add(at, row)); });
            },
            [&] { followByMasks(at, count); });
      });
    });
  }

private:
  // Memory: sums, the keys of a row, or ranks and leaves of all lanes.

  int64_t slots() const { return 2 * forest_.columns; }
  int64_t sharedBytes() const { return lanes_ * targets_ * 4 + (slots() + kWays) * 64; }
  int64_t scratchBytes() const { return sharedBytes() + (lookups_ ? lookups_->scratchBytes() : 0); }

  void takeScratch(Value memory) {
    sums_ = memory;
    keys_ = bytesFrom(memory, lanes_ * targets_ * 4);
    reached_ = bytesFrom(keys_, slots() * 64);
    if (lookups_)
      lookups_->begin(sums_, bytesFrom(memory, sharedBytes()));
  }

  /// One row.
  void follow(Value row) {
    if (lookups_)
      lookups_->follow(row);
    else
      walk(row);
  }

  // Tables.

  /// Of each node what its test fails above, and the slot.
  std::vector<uint32_t> nodeTable() const {
    std::vector<uint32_t> numbers;
    for (auto [least, slot] : llvm::zip_equal(forest_.least, forest_.slot))
      numbers.insert(numbers.end(), {least, uint32_t(slot)});
    return numbers;
  }

  /// Of each node the rank, as often as it fits, and the slot.
  std::vector<uint32_t> rankTable() const {
    std::vector<uint32_t> numbers;
    for (auto [rank, slot] : llvm::zip_equal(forest_.ranks, forest_.slot)) {
      // That of a node which decides nothing may be cut off.
      uint32_t repeated = lanes_ == 64 ? (rank & 0xff) * 0x01010101 : (rank & 0xffff) * 0x00010001;
      numbers.insert(numbers.end(), {repeated, uint32_t(slot)});
    }
    return numbers;
  }

  // Steps.

  void walk(Value row) {
    forEach(forest_.columns, [&](Value column) {
      Key key = keyAt(row, column);
      Value slot = math_.mul(column, 2);
      store(choose(key.isMissing, constant(integer_, 0), key.number), keys_, slot);
      store(choose(key.isMissing, constant(integer_, int32_t(kMissingGreatest)), key.number), keys_,
            math_.add(slot, 1));
    });
    clearSums(sums_, math_.constant(0));
    int64_t whole = forest_.trees / kWalks * kWalks;
    if (targets_ == 1)
      return giveSum(row, whole);
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(kWalks),
            [&](Value tree) { addToTargets(tree, walkTrees(tree, kWalks)); });
    forEach(math_.constant(whole), math_.constant(forest_.trees),
            [&](Value tree) { addToTargets(tree, walkTrees(tree, 1)); });
    giveRow(sums_, row, math_.constant(0));
  }

  /// Of one target, whose sum stays in a register.
  void giveSum(Value row, int64_t whole) {
    auto add = [&](Value tree, Value sum, int64_t count) -> Values {
      for (Value leaf : walkTrees(tree, count))
        sum = combined(sum, leaf);
      return {sum};
    };
    Values sum = emitReduction(
        math_, math_.constant(0), math_.constant(whole), math_.constant(kWalks), {nothing()},
        [&](Value tree, ValueRange sum) { return add(tree, sum[0], kWalks); });
    if (int64_t left = forest_.trees - whole)
      sum = add(math_.constant(whole), sum[0], left);
    store(sum[0], sums_, math_.constant(0));
    giveRow(sums_, row, math_.constant(0));
  }

  void addToTargets(Value first, const Values &leaves) {
    for (auto [number, leaf] : llvm::enumerate(leaves))
      combineAt(sums_, entry(targetTable_, math_.add(first, int64_t(number))), leaf);
  }

  /// The leaves of so many trees for the row whose keys are in memory. Addresses are those of the
  /// first tree and a constant for each other, which take one register for all. All loads of one
  /// kind stand before the next, which is the order to issue them in.
  Values walkTrees(Value first, int64_t count) {
    Value base = math_.mul(first, forest_.nodes());
    Value nodes = elementPointer(math_, integer_, nodes_, math_.mul(base, 2));
    Value leaves = at(leaves_, base);
    Values places(size_t(count), math_.constant(1)), reached;
    auto nodeAt = [&](int64_t way, int64_t field) {
      return load(integer_, nodes,
                  math_.add(math_.mul(places[size_t(way)], 2), 2 * way * forest_.nodes() + field));
    };
    for (int64_t level = 0; level < forest_.depth; ++level) {
      Values keys;
      for (int64_t way = 0; way < count; ++way)
        keys.push_back(load(integer_, keys_, toIndex(nodeAt(way, 1))));
      for (int64_t way = 0; way < count; ++way)
        places[size_t(way)] = below(places[size_t(way)], nodeAt(way, 0), keys[size_t(way)]);
    }
    for (int64_t way = 0; way < count; ++way)
      reached.push_back(
          loadElement(leaves, math_.add(places[size_t(way)], (way - 1) * forest_.nodes())));
    return reached;
  }

  // Masks.

  void followByMasks(Value first, Value count) {
    forEach(forest_.columns, [&](Value column) {
      emitFor(math_, math_.constant(0), count, math_.constant(kWays),
              [&](Value group) { rankRows(first, count, column, group); });
    });
    forEach(math_.constant(0), count, [&](Value row) { clearSums(sums_, row); });
    emitFor(math_, math_.constant(0), math_.constant(forest_.trees), math_.constant(kWays),
            [&](Value tree) {
              Value left = math_.sub(math_.constant(forest_.trees), tree);
              Value trees = math_.min(left, math_.constant(kWays));
              forEach(math_.constant(0), trees,
                      [&](Value number) { reach(math_.add(tree, number), number); });
              addLeaves(tree, trees, count);
            });
    forEach(math_.constant(0), count,
            [&](Value row) { giveRow(sums_, math_.add(first, row), row); });
  }

  /// The ranks of a column in kWays rows; the last row stands in for those that there are not.
  void rankRows(Value first, Value count, Value column, Value group) {
    Value last = math_.sub(count, math_.constant(1));
    std::vector<Key> keys;
    for (int64_t way = 0; way < kWays; ++way)
      keys.push_back(keyAt(math_.add(first, math_.min(math_.add(group, way), last)), column));
    Values ranks = ranksOf(keys, Values(kWays, column));
    for (int64_t way = 0; way < kWays; ++way) {
      Value rank = builder_.create<arith::IndexCastUIOp>(math_.location, rank_, ranks[size_t(way)]);
      Value least = choose(keys[size_t(way)].isMissing, constant(rank_, 0), rank);
      Value most = choose(keys[size_t(way)].isMissing, constant(rank_, -1), rank);
      Value at = math_.add(math_.mul(column, 2 * lanes_), math_.add(group, way));
      store(least, keys_, at);
      store(most, keys_, math_.add(at, lanes_));
    }
  }

  VectorType ranks() { return VectorType::get({lanes_}, rank_); }

  /// For all rows at once the numbers of the leaves of a tree, which become the ones of that number
  /// among those in memory.
  void reach(Value tree, Value number) {
    Value base = math_.mul(tree, forest_.nodes());
    Value leaves = constant(ranks(), 0);
    visit(base, 1, 0, nullptr, leaves);
    builder_.create<LLVM::StoreOp>(
        math_.location, leaves, elementPointer(math_, rank_, reached_, math_.mul(number, lanes_)),
        512 / lanes_ / 8);
  }

  /// The node's test, of the rows in the mask; null: of all.
  void visit(Value base, int64_t node, int64_t level, Value mask, Value &leaves) {
    if (level == forest_.depth)
      return;
    Value at = math_.mul(math_.add(base, node), 2);
    Value bound = spread(load(integer_, ranked_, at));
    Value fails =
        compare(arith::CmpIPredicate::uge, rowsAt(entry(ranked_, math_.add(at, 1))), bound);
    Value right = mask ? made<arith::AndIOp>(fails, mask) : fails;
    int64_t bit = int64_t(1) << (forest_.depth - 1 - level);
    leaves = choose(right, made<arith::AddIOp>(leaves, constant(ranks(), bit)), leaves);
    if (level + 1 == forest_.depth)
      return;
    Value passes = made<arith::XOrIOp>(fails, constant(fails.getType(), 1));
    visit(base, 2 * node, level + 1, mask ? made<arith::AndIOp>(passes, mask) : passes, leaves);
    visit(base, 2 * node + 1, level + 1, right, leaves);
  }

  /// A number of 32 bits in all places of a vector, taken as ranks.
  Value spread(Value bits) {
    auto type = VectorType::get({16}, integer_);
    Value vector = builder_.create<LLVM::UndefOp>(math_.location, type);
    vector =
        builder_.create<LLVM::InsertElementOp>(math_.location, vector, bits, constant(integer_, 0));
    SmallVector<int32_t> places(16, 0);
    vector = builder_.create<LLVM::ShuffleVectorOp>(math_.location, vector, vector, places);
    return builder_.create<LLVM::BitcastOp>(math_.location, ranks(), vector);
  }

  Value rowsAt(Value slot) {
    return builder_.create<LLVM::LoadOp>(
        math_.location, ranks(), elementPointer(math_, rank_, keys_, math_.mul(slot, lanes_)),
        512 / lanes_ / 8);
  }

  Value reachedLeaf(Value tree, Value number, Value row) {
    Value leaf = toIndex(load(rank_, reached_, math_.add(math_.mul(number, lanes_), row)));
    return loadElement(leaves_, math_.add(math_.mul(tree, forest_.nodes()), leaf));
  }

  void addLeaves(Value first, Value trees, Value count) {
    if (targets_ > 1)
      return forEach(math_.constant(0), trees, [&](Value number) {
        Value tree = math_.add(first, number), target = entry(targetTable_, tree);
        forEach(math_.constant(0), count, [&](Value row) {
          combineAt(sums_, math_.add(math_.mul(row, targets_), target),
                    reachedLeaf(tree, number, row));
        });
      });
    emitFor(math_, math_.constant(0), count, math_.constant(kSums), [&](Value group) {
      Values sums, rows;
      for (int64_t way = 0; way < kSums; ++way) {
        rows.push_back(math_.add(group, way));
        sums.push_back(loadElement(sums_, rows.back()));
      }
      sums = emitReduction(
          math_, math_.constant(0), trees, math_.constant(1), sums,
          [&](Value number, ValueRange sums) {
            Values next;
            for (auto [row, sum] : llvm::zip_equal(rows, sums))
              next.push_back(combined(sum, reachedLeaf(math_.add(first, number), number, row)));
            return next;
          });
      for (auto [row, sum] : llvm::zip_equal(rows, sums))
        store(sum, sums_, row);
    });
  }

  /// 2i, or 2i + 1 where `bound` is below the key.
  Value below(Value place, Value bound, Value key) {
    Value isBelow = compare(arith::CmpIPredicate::ult, bound, key);
    return math_.add(math_.add(place, place), toIndex(isBelow));
  }

  /// How many thresholds of its column are below each key, as an index. They are searched side by
  /// side.
  Values ranksOf(const std::vector<Key> &keys, const Values &columns) {
    Values places(keys.size(), math_.constant(1)), bases;
    for (Value column : columns)
      bases.push_back(math_.mul(column, int64_t(1) << forest_.searchDepth));
    for (int64_t level = 0; level < forest_.searchDepth; ++level)
      for (auto [place, base, key] : llvm::zip_equal(places, bases, keys))
        place = below(place, load(integer_, searched_, math_.add(base, place)), key.number);
    for (Value &place : places)
      place = math_.sub(place, math_.constant(int64_t(1) << forest_.searchDepth));
    return places;
  }

  int64_t lanes_;
  Type rank_;
  std::optional<LookupTreeCode> lookups_;
  Value sums_, keys_, reached_;     // in scratch memory
  Value nodes_, ranked_, searched_; // in the image
};

} // namespace

int64_t maskLanes(const CompleteTrees &trees) { return trees.mostRank <= 255 ? 64 : 32; }

void emitCompleteTrees(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                       const CompleteTrees &trees, const NodeLookups *lookups, int64_t block,
                       int64_t maskedRows, ValueRange results, Value begin, Value end) {
  CompleteTreeEmitter(emitter, kernel, root, trees, lookups, results)
      .emit(block, maskedRows, begin, end);
}

} // namespace tensmith::kernel
