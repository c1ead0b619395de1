// Tables of nodes are laid out for vectors; then a row is ranked, compared, walked and summed up.
// See LookupTreeCode.h.
#include "compiler/targets/cpu/templates/LookupTreeCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <bit>
#include <numeric>

using namespace mlir;

namespace tensmith::kernel {

namespace {

constexpr int64_t kFan = NodeLookups::kFan, kAbreast = NodeLookups::kAbreast;
constexpr int64_t kTogether = 64; // trees; a multiple of kAbreast
constexpr int64_t kRanked = 4;    // columns side by side: more have no registers
constexpr int64_t kAdded = 8;     // leaves
constexpr int64_t kWordBits = 64;
constexpr int64_t kMostRegisters = 8;
constexpr int64_t kByte = 256;
constexpr int64_t kFanBits = std::countr_zero(uint64_t(kFan));

/// Numbers of so many bits, as a table's of 32.
std::vector<uint32_t> joined(ArrayRef<uint32_t> numbers, int64_t bits) {
  int64_t each = 32 / bits;
  std::vector<uint32_t> result((numbers.size() + size_t(each) - 1) / size_t(each), 0);
  for (auto [at, number] : llvm::enumerate(numbers))
    result[at / size_t(each)] |= (number & ((1u << bits) - 1)) << bits * (int64_t(at) % each);
  return result;
}

/// Gives each slot that a node tests a place, in the order of the slots; returns how many.
int64_t placeSlots(const CompleteTrees &trees, std::vector<uint32_t> &places) {
  std::vector<bool> isTested(size_t(2 * trees.columns), false);
  for (int32_t slot : trees.slot)
    isTested[size_t(slot)] = true;
  uint32_t count = 0;
  for (bool tested : isTested)
    places.push_back(tested ? count++ : UINT32_MAX);
  return count;
}

/// The last keys of a level's nodes are the level above it. A key that is filled in is below none,
/// and each level ends with one, so a search stays within the tree.
void placeSearchTrees(const CompleteTrees &trees, NodeLookups &made) {
  for (int64_t column = 0; column < trees.columns; ++column) {
    std::vector<uint32_t> keys = trees.thresholds[size_t(column)];
    keys.resize(size_t(trees.mostRank + 1), UINT32_MAX);
    std::vector<std::vector<uint32_t>> levels; // from the last one up
    do {
      keys.resize(llvm::alignTo(keys.size(), kFan), UINT32_MAX);
      levels.push_back(keys);
      keys.clear();
      for (size_t at = kFan - 1; at < levels.back().size(); at += kFan)
        keys.push_back(levels.back()[at]);
    } while (levels.back().size() > kFan);
    made.levels = {0};
    for (const std::vector<uint32_t> &level : llvm::reverse(levels)) {
      made.searched.insert(made.searched.end(), level.begin(), level.end());
      made.levels.push_back(made.levels.back() + int64_t(level.size()));
    }
  }
}

} // namespace

std::optional<NodeLookups> nodeLookups(const CompleteTrees &trees, const Machine &machine) {
  if (machine.lookup.bits == 0 || trees.columns * trees.searchDepth > trees.trees * trees.depth)
    return std::nullopt;
  NodeLookups made;
  made.lookup = machine.lookup;
  int64_t slots = placeSlots(trees, made.slotPlaces);
  // A tree of fewer nodes than a vector has bytes is a vector of 16-bit numbers anyway.
  bool fitsBytes = trees.mostRank < kByte && trees.nodes() >= kWordBits;
  made.bits = fitsBytes ? machine.lookup.bits : 16;
  made.isPacked = made.bits == 16 && trees.mostRank < kByte && slots <= kByte;
  int64_t lanes = made.lanes();
  made.registers = int64_t(std::bit_ceil(llvm::divideCeil(uint64_t(slots), uint64_t(lanes))));
  if (made.registers > kMostRegisters)
    return std::nullopt;
  for (uint32_t &place : made.slotPlaces)
    place = std::min(place, uint32_t(made.registers * lanes));
  made.groups = std::max<int64_t>(trees.nodes() / lanes, 1);
  int64_t row = made.groups * lanes;
  int64_t count = int64_t(llvm::alignTo(trees.trees, kAbreast));
  std::vector<uint32_t> places(size_t(count * row), 0), ranks(size_t(count * row), 0);
  for (int64_t tree = 0; tree < trees.trees; ++tree)
    for (int64_t node = 1; node < trees.nodes(); ++node) {
      auto from = size_t(tree * trees.nodes() + node), to = size_t(tree * row + node);
      places[to] = made.slotPlaces[size_t(trees.slot[from])];
      // That of a node which decides nothing may be cut off.
      ranks[to] = trees.ranks[from];
      if (made.isPacked)
        places[to] |= (ranks[to] & 0xff) << 8;
    }
  made.places = joined(places, made.bits);
  if (!made.isPacked)
    made.ranks = joined(ranks, made.bits);
  placeSearchTrees(trees, made);
  return made;
}

LookupTreeCode::LookupTreeCode(ElementEmitter &emitter, graph::KernelOp kernel,
                               graph::TreeEnsembleOp root, const CompleteTrees &trees,
                               const NodeLookups &lookups, ValueRange results)
    : CompleteTreeFrame(emitter, kernel, root, trees, results), tables_(lookups),
      number_(builder_.getIntegerType(unsigned(lookups.bits))),
      vector_(VectorType::get({lookups.lanes()}, number_)),
      wordCount_(std::max<int64_t>(trees.nodes() / kWordBits, 1)) {}

/// The row's ranks, one number behind them, the words of kTogether trees, and their leaves.
int64_t LookupTreeCode::scratchBytes() const {
  return (tables_.registers + 1) * 64 + (wordCount_ + 1) * kTogether * 8;
}

void LookupTreeCode::begin(Value sums, Value scratch) {
  sums_ = sums;
  row_ = scratch;
  masks_ = bytesFrom(row_, (tables_.registers + 1) * 64);
  reached_ = bytesFrom(masks_, wordCount_ * kTogether * 8);
  placeTables();
  places_ = table("places", tables_.places);
  ranks_ = tables_.isPacked ? places_ : table("bounds", tables_.ranks);
  slotPlaces_ = table("slots", tables_.slotPlaces);
  searchTrees_ = table("searchTrees", tables_.searched);
}

VectorType LookupTreeCode::words() const {
  return VectorType::get({kAbreast}, builder_.getI64Type());
}

Value LookupTreeCode::loadVector(Type type, Value base, Value bytes) {
  return builder_.create<LLVM::LoadOp>(math_.location, type, bytePointer(math_, base, bytes),
                                       /*alignment=*/64);
}

void LookupTreeCode::follow(Value row) {
  emitFor(math_, math_.constant(0), math_.constant(forest_.columns), math_.constant(kRanked),
          [&](Value first) { rankColumns(row, first); });
  registers_.clear();
  for (int64_t at = 0; at < tables_.registers; ++at)
    registers_.push_back(loadVector(vector_, row_, math_.constant(at * 64)));
  Values sums;
  if (targets_ == 1)
    sums = {nothing()};
  else
    clearSums(sums_, math_.constant(0));
  sums = emitReduction(
      math_, math_.constant(0), math_.constant(forest_.trees), math_.constant(kTogether), sums,
      [&](Value first, ValueRange sums) {
        Value count =
            math_.min(math_.sub(math_.constant(forest_.trees), first), math_.constant(kTogether));
        Value abreast = math_.mul(math_.ceilDiv(count, math_.constant(kAbreast)), kAbreast);
        forEach(math_.constant(0), abreast,
                [&](Value number) { compareNodes(math_.add(first, number), number); });
        emitFor(math_, math_.constant(0), abreast, math_.constant(kAbreast),
                [&](Value number) { walkAbreast(number); });
        return addLeaves(first, count, sums);
      });
  if (targets_ == 1)
    store(sums[0], sums_, math_.constant(0));
  giveRow(sums_, row, math_.constant(0));
}

/// Ranks of kRanked columns; the last column stands in for those that there are not.
void LookupTreeCode::rankColumns(Value row, Value first) {
  std::vector<Key> keys;
  Values columns;
  for (int64_t way = 0; way < kRanked; ++way) {
    columns.push_back(math_.min(math_.add(first, way), math_.constant(forest_.columns - 1)));
    keys.push_back(keyAt(row, columns.back()));
  }
  Value low = constant(number_, tables_.isPacked ? 0xff : 0), all = constant(number_, -1);
  for (auto [column, key] : llvm::zip_equal(columns, keys)) {
    Value rank =
        builder_.create<arith::TruncIOp>(math_.location, number_, rankOf(key.number, column));
    if (tables_.isPacked)
      rank = made<arith::OrIOp>(made<arith::ShLIOp>(rank, constant(number_, 8)), low);
    Value slot = math_.mul(column, 2);
    store(choose(key.isMissing, low, rank), row_, entry(slotPlaces_, slot));
    store(choose(key.isMissing, all, rank), row_, entry(slotPlaces_, math_.add(slot, 1)));
  }
}

Value LookupTreeCode::rankOf(Value key, Value column) {
  auto type = VectorType::get({kFan}, integer_);
  Value keys = builder_.create<vector::BroadcastOp>(math_.location, type, key);
  Value base = math_.mul(column, tables_.levels.back()), place = constant(integer_, 0);
  for (int64_t level : ArrayRef(tables_.levels).drop_back()) {
    Value node = math_.mul(math_.add(base, level), int64_t(sizeof(uint32_t)));
    Value from = math_.add(node, math_.mul(toIndex(place), kFan * int64_t(sizeof(uint32_t))));
    Value isBelow = compare(arith::CmpIPredicate::ult, loadVector(type, searchTrees_, from), keys);
    Value bits =
        builder_.create<LLVM::BitcastOp>(math_.location, builder_.getIntegerType(kFan), isBelow);
    Value count = builder_.create<LLVM::CtPopOp>(
        math_.location, builder_.create<arith::ExtUIOp>(math_.location, integer_, bits));
    place = made<arith::AddIOp>(made<arith::ShLIOp>(place, constant(integer_, kFanBits)), count);
  }
  return place;
}

/// The tree's words, as those of that number.
void LookupTreeCode::compareNodes(Value tree, Value number) {
  Value begin = math_.mul(tree, tables_.groups * 64);
  Values fails;
  for (int64_t group = 0; group < tables_.groups; ++group) {
    Value at = math_.add(begin, group * 64);
    Value places = loadVector(vector_, places_, at);
    Value bounds = tables_.isPacked ? places : loadVector(vector_, ranks_, at);
    Value tested = tables_.lookup.emit(builder_, math_.location, registers_, places);
    fails.push_back(compare(arith::CmpIPredicate::uge, tested, bounds));
  }
  for (int64_t word = 0; word < wordCount_; ++word) {
    Value bits = fails[size_t(word)];
    if (tables_.groups > wordCount_) { // two halves
      SmallVector<int32_t> lanes(kWordBits);
      std::iota(lanes.begin(), lanes.end(), 0);
      bits = builder_.create<LLVM::ShuffleVectorOp>(math_.location, fails[size_t(2 * word)],
                                                    fails[size_t(2 * word + 1)], lanes);
    }
    int64_t count = cast<VectorType>(bits.getType()).getNumElements();
    bits = builder_.create<LLVM::BitcastOp>(math_.location,
                                            builder_.getIntegerType(unsigned(count)), bits);
    if (count < kWordBits)
      bits = builder_.create<arith::ExtUIOp>(math_.location, builder_.getI64Type(), bits);
    store(bits, masks_, math_.add(number, word * kTogether));
  }
}

/// Bit i of each tree's words, where node i is of the level.
Value LookupTreeCode::bitsAt(ArrayRef<Value> words, Value nodes, int64_t level) {
  Value word = words[0], place = nodes;
  if (int64_t first = int64_t(1) << level; first >= kWordBits) {
    place = made<arith::AndIOp>(nodes, constant(nodes.getType(), kWordBits - 1));
    word = words[size_t(first / kWordBits)];
    for (int64_t next = 1; next < first / kWordBits; ++next) {
      Value above = constant(nodes.getType(), first + next * kWordBits);
      word = choose(compare(arith::CmpIPredicate::uge, nodes, above),
                    words[size_t(first / kWordBits + next)], word);
    }
  }
  return made<arith::AndIOp>(made<arith::ShRUIOp>(word, place), constant(nodes.getType(), 1));
}

/// kAbreast trees from that number on: from words to the leaves' numbers, 2^depth too great.
void LookupTreeCode::walkAbreast(Value number) {
  SmallVector<Value> read;
  for (int64_t word = 0; word < wordCount_; ++word)
    read.push_back(loadVector(
        words(), masks_, math_.mul(math_.add(number, word * kTogether), int64_t(sizeof(int64_t)))));
  Value nodes = constant(words(), 1);
  for (int64_t level = 0; level < forest_.depth; ++level)
    nodes = made<arith::AddIOp>(made<arith::AddIOp>(nodes, nodes), bitsAt(read, nodes, level));
  builder_.create<LLVM::StoreOp>(math_.location, nodes,
                                 elementPointer(math_, builder_.getI64Type(), reached_, number),
                                 /*alignment=*/64);
}

Value LookupTreeCode::reachedLeaf(Value first, Value number) {
  Value node = toIndex(load(builder_.getI64Type(), reached_, number));
  Value base = math_.mul(math_.add(first, number), forest_.nodes());
  return loadElement(leaves_, math_.sub(math_.add(base, node), math_.constant(forest_.nodes())));
}

/// To the sum, or where there are several targets to those in memory.
TreeCode::Values LookupTreeCode::addLeaves(Value first, Value count, ValueRange sums) {
  if (targets_ > 1) {
    forEach(math_.constant(0), count, [&](Value number) {
      combineAt(sums_, entry(targetTable_, math_.add(first, number)), reachedLeaf(first, number));
    });
    return {};
  }
  auto add = [&](Value number, Value sum, int64_t leaves) -> Values {
    for (int64_t next = 0; next < leaves; ++next)
      sum = combined(sum, reachedLeaf(first, math_.add(number, next)));
    return {sum};
  };
  Value whole = math_.mul(math_.div(count, math_.constant(kAdded)), kAdded);
  Values sum =
      emitReduction(math_, math_.constant(0), whole, math_.constant(kAdded), sums,
                    [&](Value number, ValueRange sum) { return add(number, sum[0], kAdded); });
  return emitReduction(math_, whole, count, math_.constant(1), sum,
                       [&](Value number, ValueRange sum) { return add(number, sum[0], 1); });
}

} // namespace tensmith::kernel
