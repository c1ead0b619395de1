// Attention of single queries to keys and values as a cache keeps them: in pages, as floats or in
// blocks of few bits, which are read from memory once and never expanded there.
//
// An item is a head of keys with a chunk of the heads of q that it serves, as many as share what is
// unpacked of a key in registers. Its keys pass a few positions at a time: each is unpacked there
// and multiplied by all of these queries, or by their rounding to 8 bits, where that may be and the
// machine adds up products of bytes (BlockDots.h). Scores stay in the thread's scratch, of which a
// softmax makes powers. Then the values pass, each times its powers, with the sums in registers.
//
// Positions of a page lie side by side; what the same run gives is one more page behind them. A run
// of positions is passed by all chunks of a head that a thread has before the next, so that it
// comes from memory once.
//
// Floats of a head that fill no whole vectors end in one that is masked. Numbers of heads may be
// open: only how many queries share a key's unpacking is a constant of the code.
//
// Invariant: the score of a position, and the order in which values are added up, are the same
// wherever a key lies and whoever else is computed. So a text has the same bits whether its last
// keys come from pages or from the run.
#include "compiler/targets/cpu/templates/CachedAttentionKernel.h"

#include "compiler/graph/Blocks.h"
#include "compiler/kernel/RowSweep.h"
#include "compiler/targets/cpu/templates/BlockDots.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kPositions = 4;   // whose scores are computed side by side
constexpr int64_t kRun = 128;       // positions that all queries pass before the next
constexpr int64_t kMostQueries = 4; // that share what is unpacked of a key
constexpr int64_t kMostPositions = int64_t(1) << 31, kMostHead = 4096, kMostHeads = 4096;
constexpr int64_t kMostLanes = 16;

/// How heads of keys or of values are read.
struct Heads {
  BlockFormat format; // floats are one of as many numbers as a vector has
  int64_t size, bytes, lanes;

  int64_t blocks() const { return size / format.elements; }
  /// Numbers behind the last whole vector; 0 where they are in blocks of a format.
  int64_t tail() const { return size % lanes; }
  int64_t padded() const { return int64_t(llvm::alignTo(size, lanes)); }
};

Heads headsOf(graph::CachedAttentionOp op, Value cache, const Machine &machine) {
  int64_t size = graph::headSizeOf(op, cache), most = std::min(machine.lanes(4), kMostLanes);
  if (graph::hasBlocks(op)) {
    const BlockFormat &format = *findBlockFormat(op.getFormat());
    return {format, size, size / format.elements * format.bytes,
            std::min<int64_t>(most, format.group)};
  }
  // sumsOfLanes needs as many lanes as there are positions.
  int64_t least = std::max(kPositions, int64_t(llvm::bit_ceil(uint64_t(size))));
  int64_t lanes = std::min(most, least);
  bool isHalf = getElementTypeOrSelf(cache.getType()).isF16();
  int64_t bytes = isHalf ? 2 : 4;
  BlockFormat format{.name = isHalf ? "f16" : "f32",
                     .elements = uint16_t(lanes),
                     .bytes = uint16_t(lanes * bytes),
                     .plain = isHalf ? DataType::F16 : DataType::F32,
                     .group = uint16_t(lanes)};
  return {format, size, size * bytes, lanes};
}

/// What the code is made for.
struct Attention {
  graph::CachedAttentionOp op;
  Heads keys, values;
  std::optional<int64_t> group; // heads of queries to one of keys; none where only the run knows

  /// Queries that are passed together.
  int64_t together() const {
    if (!group)
      return kMostQueries;
    int64_t chunks = (*group + kMostQueries - 1) / kMostQueries;
    return (*group + chunks - 1) / chunks;
  }
  bool hasWholeChunks() const { return group && *group % together() == 0; }
  /// Of a head of keys, which serves so many of queries.
  Value chunks(IndexMath &math, Value size) const {
    return math.ceilDiv(size, math.constant(together()));
  }
};

Attention attentionOf(graph::CachedAttentionOp op, const Machine &machine) {
  int64_t heads = cast<RankedTensorType>(op.getQ().getType()).getDimSize(1);
  int64_t keyHeads = cast<RankedTensorType>(op.getKeys().getType()).getDimSize(2);
  bool isKnown = !ShapedType::isDynamic(heads) && !ShapedType::isDynamic(keyHeads);
  return {op, headsOf(op, op.getKeys(), machine), headsOf(op, op.getValues(), machine),
          isKnown ? std::optional(heads / keyHeads) : std::nullopt};
}

/// Of queries that are rounded; null where they are not.
std::optional<BlockDots> dotsOf(const Attention &of, IndexMath &math, const Machine &machine) {
  graph::CachedAttentionOp op = of.op;
  if (op.getQBits() != 8 || !graph::hasBlocks(op))
    return std::nullopt;
  return BlockDots::of(math, *findBlockFormat(op.getFormat()), of.keys.size, machine.vectorBytes,
                       machine.products(Number::U8, Number::I8, Number::I32));
}

class CachedAttentionEmitter {
public:
  CachedAttentionEmitter(ElementEmitter &emitter, graph::KernelOp kernel,
                         const Attention &attention, const Machine &machine, ValueRange results)
      : emitter_(emitter), math_(emitter.math), code_(emitter.builder(), emitter.math.location),
        kernel_(kernel), of_(attention), machine_(machine), results_(results), op_(attention.op),
        keyCodes_(math_, of_.keys.format, of_.keys.lanes),
        valueCodes_(math_, of_.values.format, of_.values.lanes), dots_(dotsOf(of_, math_, machine)),
        f32_(emitter.builder().getF32Type()), i64_(emitter.builder().getI64Type()) {
    SmallVector<Value> dims = emitter.dims(op_.getKeys()), table = emitter.dims(op_.getTable());
    pages_ = dims[0], positions_ = dims[1], listed_ = table[1];
    heads_ = emitter.dims(op_.getQ())[1], keyHeads_ = math_.max(dims[2], math_.constant(1));
    group_ = math_.div(heads_, keyHeads_);
    // An empty page has no positions to divide by.
    divisor_ = math_.max(positions_, math_.constant(1));
  }

  void emit(Value begin, Value end) {
    Value chunks = math_.max(of_.chunks(math_, group_), math_.constant(1));
    Value most = math_.constant(kMostPositions), held = math_.mul(positions_, listed_);
    capacity_ = math_.min(held, most);
    emitter_.check(math_.less(held, most), "lists of pages hold {} positions, which are too many",
                   held);
    if (!of_.group) {
      emitter_.check(math_.less(group_, math_.constant(kMostHeads + 1)),
                     "a head of keys serves {} of queries, which are too many", group_);
      group_ = math_.min(group_, math_.constant(kMostHeads));
    }
    layOut();
    scratch_ = emitScratch(emitter_, bytes_, begin, end);
    // Chunks are numbered by their heads.
    Value firstHead = math_.div(begin, chunks);
    Value heads = math_.select(math_.less(begin, end), math_.ceilDiv(end, chunks), firstHead);
    emitFor(math_, firstHead, heads, math_.constant(1), [&](Value head) {
      Value before = math_.mul(head, chunks), behind = math_.add(before, chunks);
      Value first = math_.sub(math_.max(begin, before), before);
      Value last = math_.sub(math_.min(end, behind), before);
      emitHead(head, math_.mul(first, of_.together()),
               math_.min(math_.mul(last, of_.together()), group_));
    });
  }

private:
  using Values = SmallVector<Value>;

  /// Of items: their row, their head of keys, which of its queries they are, and which positions
  /// these have.
  struct Item {
    Value row, head, begin, end, first, length, total, start;
  };
  /// A run of positions [begin, end), of which `origin` lies at `base`.
  struct Run {
    Value base, origin, begin, end;
  };

  // In the scratch: queries, their roundings, sums, the sums' factors, a page, rows of scores.
  void layOut() {
    auto behind = [&](Value at, int64_t bytesOfQuery) {
      Value bytes = math_.mul(group_, bytesOfQuery);
      return math_.add(at, math_.mul(math_.ceilDiv(bytes, math_.constant(64)), 64));
    };
    roundedAt_ = behind(math_.constant(0), of_.keys.padded() * 4);
    roundedBytes_ = dots_ ? int64_t(llvm::alignTo(dots_->scratchBytes(), 64)) : 0;
    sumsAt_ = behind(roundedAt_, roundedBytes_);
    factorsAt_ = behind(sumsAt_, of_.values.padded() * 4);
    pageAt_ = behind(factorsAt_, 4);
    scoresAt_ = math_.add(pageAt_, 64);
    // A tile may store behind the last score.
    Value most = math_.add(math_.add(capacity_, emitter_.dims(op_.getQ())[0]), kPositions);
    stride_ = math_.mul(math_.ceilDiv(most, math_.constant(16)), 16);
    bytes_ = math_.add(math_.mul(math_.mul(stride_, group_), 4), scoresAt_);
  }
  Value sums() { return bytesAt(scratch_, sumsAt_); }
  Value factors() { return bytesAt(scratch_, factorsAt_); }
  Value scoresOf(Value query) {
    return bytesAt(scratch_, math_.add(math_.mul(math_.mul(query, stride_), 4), scoresAt_));
  }

  void emitHead(Value number, Value begin, Value end) {
    Item item = itemOf(math_.div(number, keyHeads_), math_.rem(number, keyHeads_));
    item.begin = begin, item.end = end;
    eachQuery(item, [&](Value query) { takeQuery(item, query); });
    eachRun(item, op_.getKeys(), op_.getNewKeys(), of_.keys.bytes,
            [&](const Run &run) { score(item, run); });
    eachQuery(item, [&](Value query) { normalise(item, query); });
    clearSums(item);
    eachRun(item, op_.getValues(), op_.getNewValues(), of_.values.bytes,
            [&](const Run &run) { addValues(item, run); });
    eachQuery(item, [&](Value query) { give(item, query); });
  }
  void eachQuery(const Item &item, llvm::function_ref<void(Value)> visit) {
    emitFor(math_, item.begin, item.end, math_.constant(1), visit);
  }

  Item itemOf(Value row, Value head) {
    Value first = indexAt(op_.getFirsts(), row), length = indexAt(op_.getLengths(), row);
    emitter_.check(math_.less(first, math_.add(row, 1)),
                   "a query has {} as the first row of new keys, which is behind its own", first);
    emitter_.check(math_.less(length, math_.add(capacity_, 1)),
                   "a query has {} former keys, which are more than its pages hold", length);
    first = math_.min(first, row), length = math_.min(length, capacity_);
    Value total = math_.add(length, math_.add(math_.sub(row, first), 1));
    Value seen = math_.min(total, math_.constant(int64_t(op_.getWindow())));
    Value start = op_.getWindow() ? math_.sub(total, seen) : math_.constant(0);
    return {row, head, {}, {}, first, length, total, start};
  }
  Value indexAt(Value tensor, Value offset) {
    return index(emitter_.load(emitter_.buffer(tensor), i64_, offset));
  }
  Value index(Value integer) {
    return make<arith::IndexCastOp>(emitter_.builder().getIndexType(), integer);
  }

  /// The query, scaled, into the scratch, and its rounding. Behind it are zeros.
  void takeQuery(const Item &item, Value query) {
    int64_t size = of_.keys.size, lanes = of_.keys.lanes;
    Value head = math_.add(math_.mul(item.head, group_), query);
    Value from = math_.mul(math_.add(math_.mul(item.row, heads_), head), size);
    Value to = math_.mul(query, of_.keys.padded());
    double scale = op_.getScale().convertToDouble();
    for (int64_t at = 0; at < size; at += lanes) {
      Value part = emitter_.load(emitter_.buffer(op_.getQ()), f32_, math_.add(from, at), lanes,
                                 maskAt(of_.keys, at));
      emitter_.store(scratch_, f32_, math_.add(to, at), code_.mul(part, code_.real(part, scale)));
    }
    if (dots_)
      dots_->round(bytesAt(scratch_, math_.mul(to, 4)), roundedQuery(query));
  }
  /// Of the vector of a head from `at` on; null where it is whole.
  Value maskAt(const Heads &heads, int64_t at) {
    return at + heads.lanes <= heads.size
               ? Value()
               : emitter_.maskBelow(math_.constant(heads.size - at), heads.lanes);
  }
  Value roundedQuery(Value query) {
    return bytesAt(scratch_, math_.add(math_.mul(query, roundedBytes_), roundedAt_));
  }

  // Where positions lie.

  /// All pages of the list that the item sees, and what is new as one more.
  void eachRun(const Item &item, Value kept, Value fresh, int64_t headBytes,
               llvm::function_ref<void(const Run &)> visit) {
    Value ofToken = math_.mul(keyHeads_, headBytes);
    Value used = math_.ceilDiv(item.length, divisor_);
    Value firstPage = math_.min(math_.div(item.start, divisor_), used);
    emitFor(math_, firstPage, math_.add(used, 1), math_.constant(1), [&](Value number) {
      Value isPaged = math_.less(number, used);
      Value page = pageOf(item, number, isPaged);
      Value offset = math_.mul(math_.mul(page, positions_), ofToken);
      Value base = math_.select(isPaged, bytesAt(emitter_.buffer(kept), offset),
                                bytesAt(emitter_.buffer(fresh), math_.mul(item.first, ofToken)));
      base = bytesAt(base, math_.mul(item.head, headBytes));
      Value behind = math_.mul(number, positions_);
      Value origin = math_.select(isPaged, behind, item.length);
      Value begin = math_.max(origin, item.start);
      Value end =
          math_.select(isPaged, math_.min(math_.add(behind, positions_), item.length), item.total);
      emitFor(math_, begin, end, math_.constant(kRun),
              [&](Value at) { visit({base, origin, at, math_.min(math_.add(at, kRun), end)}); });
    });
  }

  Value pageOf(const Item &item, Value number, Value isPaged) {
    Value slot = bytesAt(scratch_, pageAt_), zero = math_.constant(0);
    emitter_.store(slot, i64_, zero, math_.toI64(zero));
    emitIf(math_, isPaged, [&] {
      Value page = indexAt(op_.getTable(), math_.add(math_.mul(item.row, listed_), number));
      Value isThere = math_.less(page, pages_);
      emitter_.check(isThere, "a list has page {}, which is not there", page);
      emitter_.store(slot, i64_, zero, math_.toI64(math_.select(isThere, page, zero)));
    });
    return index(emitter_.load(slot, i64_, zero));
  }

  Value placeOf(const Run &run, Value position, int64_t headBytes) {
    return bytesAt(run.base,
                   math_.mul(math_.sub(position, run.origin), math_.mul(keyHeads_, headBytes)));
  }

  /// The queries of each chunk; the last again where there are no more.
  void eachChunk(const Item &item, llvm::function_ref<void(const Values &)> visit) {
    int64_t together = of_.together();
    Value last = math_.sub(group_, math_.constant(1));
    emitFor(math_, item.begin, item.end, math_.constant(together), [&](Value first) {
      Values queries;
      for (int64_t i = 0; i < together; ++i) {
        Value query = math_.add(first, i);
        queries.push_back(of_.hasWholeChunks() ? query : math_.min(query, last));
      }
      visit(queries);
    });
  }

  // Keys.

  void score(const Item &item, const Run &run) {
    Value last = math_.sub(run.end, math_.constant(1));
    eachChunk(item, [&](const Values &queries) {
      emitFor(math_, run.begin, run.end, math_.constant(kPositions), [&](Value position) {
        Values places;
        for (int64_t i = 0; i < kPositions; ++i)
          places.push_back(placeOf(run, math_.min(math_.add(position, i), last), of_.keys.bytes));
        Values scores = dots_ ? roundedScores(queries, places) : exactScores(queries, places);
        for (auto [query, score] : llvm::zip_equal(queries, scores))
          emitter_.store(scoresOf(query), f32_, math_.sub(position, item.start), score);
      });
    });
  }

  /// Of each query a vector of a score for each place.
  Values exactScores(const Values &queries, const Values &places) {
    Values fromQ, sums(queries.size() * places.size(), zeros(of_.keys.lanes));
    for (Value query : queries)
      fromQ.push_back(math_.mul(query, of_.keys.padded()));
    sums = emitReduction(math_, math_.constant(0), math_.constant(of_.keys.blocks()),
                         math_.constant(1), sums, [&](Value index, ValueRange carried) {
                           Values next(carried);
                           addBlock(fromQ, places, index, {}, next);
                           return next;
                         });
    if (of_.keys.tail())
      addBlock(fromQ, places, math_.constant(of_.keys.blocks()),
               maskAt(of_.keys, of_.keys.blocks() * of_.keys.lanes), sums);
    Values scores;
    for (size_t i = 0; i < queries.size(); ++i)
      scores.push_back(sumsOfLanes(ArrayRef(sums).slice(i * places.size(), places.size())));
    return scores;
  }

  /// Adds the products of block number `index` of each place and query.
  void addBlock(const Values &fromQ, const Values &places, Value index, Value mask, Values &sums) {
    const BlockFormat &format = of_.keys.format;
    Values blocks;
    SmallVector<BlockCodes::Scales> scales;
    for (Value place : places) {
      blocks.push_back(bytesAt(place, math_.mul(index, format.bytes)));
      scales.push_back(keyCodes_.scales(blocks.back()));
    }
    Value first = math_.mul(index, format.elements);
    for (int64_t at = 0; at < format.elements; at += of_.keys.lanes) {
      Values q;
      for (Value from : fromQ)
        q.push_back(
            emitter_.load(scratch_, f32_, math_.add(math_.add(from, first), at), of_.keys.lanes));
      for (size_t p = 0; p < places.size(); ++p) {
        Value number = numberOf(keyCodes_, format, blocks[p], at, scales[p], mask);
        for (size_t i = 0; i < q.size(); ++i) {
          Value &sum = sums[i * places.size() + p];
          sum = code_.multiplyAdd(q[i], number, sum);
        }
      }
    }
  }

  Values roundedScores(const Values &queries, const Values &places) {
    Values initial, scores;
    for (size_t i = 0; i < queries.size() * places.size(); ++i) {
      BlockDots::Sums zeros = dots_->zeros();
      initial.append({zeros.products, zeros.offsets});
    }
    Values last =
        emitReduction(math_, math_.constant(0), math_.constant(dots_->strips()), math_.constant(1),
                      initial, [&](Value index, ValueRange carried) {
                        Values strips, next;
                        for (Value place : places)
                          strips.push_back(bytesAt(place, math_.mul(index, dots_->stripBytes())));
                        for (size_t i = 0; i < queries.size(); ++i) {
                          SmallVector<BlockDots::Sums> sums;
                          for (size_t p = 0; p < places.size(); ++p) {
                            size_t at = 2 * (i * places.size() + p);
                            sums.push_back({carried[at], carried[at + 1]});
                          }
                          dots_->add(strips, index, roundedQuery(queries[i]), sums);
                          for (const BlockDots::Sums &sum : sums)
                            next.append({sum.products, sum.offsets});
                        }
                        return next;
                      });
    for (size_t i = 0; i < queries.size(); ++i) {
      Values joined;
      for (size_t p = 0; p < places.size(); ++p) {
        size_t at = 2 * (i * places.size() + p);
        joined.push_back(dots_->lanesOf({last[at], last[at + 1]}));
      }
      scores.push_back(sumsOfLanes(joined));
    }
    return scores;
  }

  /// Scores become powers, and what their sum is divided by a factor.
  void normalise(const Item &item, Value query) {
    Value row = scoresOf(query);
    RowSweep sweep(emitter_, math_.sub(item.total, item.start), machine_.lanes(4));
    double cap = op_.getSoftcap().convertToDouble();
    if (cap != 0)
      sweep.each([&](const RowSweep::Columns &at) {
        Value score = emitter_.load(row, f32_, at.first, at.lanes, at.mask);
        Value bent = graph::emitTanh(code_, code_.div(score, code_.real(score, cap)));
        emitter_.store(row, f32_, at.first, code_.mul(bent, code_.real(bent, cap)), at.mask);
      });
    Value largest = sweep.reduce(vector::CombiningKind::MAXIMUMF, [&](const RowSweep::Columns &at) {
      return emitter_.load(row, f32_, at.first, at.lanes, at.mask);
    });
    emitter_.store(factors(), f32_, query, exponentiate(emitter_, sweep, row, largest));
  }

  // Values.

  void clearSums(const Item &item) {
    int64_t lanes = of_.values.lanes, padded = of_.values.padded();
    emitFor(math_, math_.mul(item.begin, padded), math_.mul(item.end, padded),
            math_.constant(lanes),
            [&](Value at) { emitter_.store(sums(), f32_, at, zeros(lanes)); });
  }

  /// Whole vectors of a head whose sums stay in registers: whole blocks, and a part of the head.
  int64_t vectorsTogether() const {
    int64_t least = of_.values.format.elements / of_.values.lanes;
    int64_t all = of_.values.size / of_.values.lanes;
    int64_t most = std::max<int64_t>(machine_.vectorRegisters / 2 / of_.together(), least);
    int64_t vectors = most / least * least;
    while (all % vectors)
      vectors -= least;
    return vectors;
  }

  void addValues(const Item &item, const Run &run) {
    const Heads &heads = of_.values;
    int64_t vectors = heads.size < heads.lanes ? 1 : vectorsTogether();
    int64_t width = vectors * heads.lanes, whole = heads.size / width;
    int64_t widthBytes = width / heads.format.elements * heads.format.bytes;
    eachChunk(item, [&](const Values &queries) {
      emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(1), [&](Value part) {
        Vectors of{math_.mul(part, width), math_.mul(part, widthBytes), vectors, {}};
        addVectors(item, run, queries, of);
      });
      if (int64_t at = heads.size - heads.tail(); heads.tail()) {
        int64_t bytes = at / heads.lanes * heads.format.bytes;
        addVectors(item, run, queries,
                   {math_.constant(at), math_.constant(bytes), 1, maskAt(heads, at)});
      }
    });
  }

  /// Vectors of a head from number `first` on, which is so many bytes from its begin.
  struct Vectors {
    Value first, bytes;
    int64_t count;
    Value mask;
  };

  /// Adds those of all positions of the run, each times its powers.
  void addVectors(const Item &item, const Run &run, const Values &queries, const Vectors &of) {
    Values at, loaded;
    for (Value query : queries)
      for (int64_t i = 0; i < of.count; ++i) {
        Value column = math_.add(of.first, i * of_.values.lanes);
        at.push_back(math_.add(math_.mul(query, of_.values.padded()), column));
        loaded.push_back(emitter_.load(sums(), f32_, at.back(), of_.values.lanes));
      }
    Values last = emitReduction(math_, run.begin, run.end, math_.constant(1), loaded,
                                [&](Value position, ValueRange carried) {
                                  Value place =
                                      bytesAt(placeOf(run, position, of_.values.bytes), of.bytes);
                                  Value column = math_.sub(position, item.start);
                                  return addValue(queries, place, column, of, carried);
                                });
    for (auto [offset, sum] : llvm::zip_equal(at, last))
      emitter_.store(sums(), f32_, offset, sum);
  }

  Values addValue(const Values &queries, Value place, Value column, const Vectors &of,
                  ValueRange carried) {
    const BlockFormat &format = of_.values.format;
    int64_t lanes = of_.values.lanes, ofBlock = format.elements / lanes;
    Values powers, next(carried);
    for (Value query : queries)
      powers.push_back(emitter_.splat(emitter_.load(scoresOf(query), f32_, column), lanes));
    for (int64_t i = 0; i < of.count; i += ofBlock) {
      Value block = bytesAt(place, math_.constant(i / ofBlock * format.bytes));
      BlockCodes::Scales scales = valueCodes_.scales(block);
      for (int64_t j = 0; j < ofBlock; ++j) {
        Value number = numberOf(valueCodes_, format, block, j * lanes, scales, of.mask);
        for (size_t query = 0; query < powers.size(); ++query) {
          Value &sum = next[query * size_t(of.count) + size_t(i + j)];
          sum = code_.multiplyAdd(powers[query], number, sum);
        }
      }
    }
    return next;
  }

  void give(const Item &item, Value query) {
    Value factor = emitter_.load(factors(), f32_, query);
    Value from = math_.mul(query, of_.values.padded());
    emitter_.define(op_.getY(), [&, factor, from](const Position &at) {
      Value sum =
          emitter_.load(sums(), f32_, math_.add(from, at.indices.back()), at.lanes, at.mask);
      return code_.mul(sum, emitter_.splat(factor, at.lanes));
    });
    Value head = math_.add(math_.mul(item.head, group_), query);
    Value row = math_.add(math_.mul(item.row, heads_), head);
    for (int64_t at = 0; at < of_.values.size; at += of_.values.lanes) {
      Position place{
          {item.row, head, math_.constant(at)}, of_.values.lanes, maskAt(of_.values, at)};
      storeResults(emitter_, kernel_, results_, place, row);
    }
  }

  // Of both.

  Value numberOf(BlockCodes &codes, const BlockFormat &format, Value block, int64_t first,
                 const BlockCodes::Scales &scales, Value mask) {
    if (mask) { // of floats
      Type f16 = emitter_.builder().getF16Type();
      return emitter_.load(block, format.plain == DataType::F16 ? f16 : f32_, math_.constant(first),
                           format.elements, mask);
    }
    Value code = codes.codes(block, first);
    if (format.plain != DataType::Undefined)
      return code;
    auto group = size_t(first / format.group);
    Value scale = codes.splat(scales.scale[group]), offset = scales.offset[group];
    return offset ? code_.multiplyAdd(code, scale, codes.splat(offset)) : code_.mul(code, scale);
  }

  /// Of so many vectors, a power of two up to their lanes, the sum of each. Neighbours are added
  /// up, of two vectors at a time, until each has one lane left.
  Value sumsOfLanes(ArrayRef<Value> vectors) {
    Values left(vectors);
    auto halved = [&](Value a, Value b) -> Value {
      auto lanes = cast<VectorType>(a.getType()).getDimSize(0) * (a == b ? 1 : 2);
      SmallVector<int64_t> even, odd;
      for (int64_t lane = 0; lane < lanes; lane += 2)
        even.push_back(lane), odd.push_back(lane + 1);
      return code_.add(make<vector::ShuffleOp>(a, b, even), make<vector::ShuffleOp>(a, b, odd));
    };
    while (left.size() > 1) {
      Values pairs;
      for (size_t i = 0; i < left.size(); i += 2)
        pairs.push_back(halved(left[i], left[i + 1]));
      left = std::move(pairs);
    }
    Value sum = left[0];
    while (cast<VectorType>(sum.getType()).getDimSize(0) > int64_t(vectors.size()))
      sum = halved(sum, sum);
    return sum;
  }

  Value zeros(int64_t lanes) {
    return make<arith::ConstantOp>(emitter_.builder().getZeroAttr(withLanes(f32_, lanes)));
  }
  Value bytesAt(Value pointer, Value bytes) { return bytePointer(math_, pointer, bytes); }
  template <typename Op, typename... Operands> Value make(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::ScalarCode code_;
  graph::KernelOp kernel_;
  const Attention of_;
  const Machine &machine_;
  ValueRange results_;
  graph::CachedAttentionOp op_;
  BlockCodes keyCodes_, valueCodes_;
  std::optional<BlockDots> dots_; // where queries are rounded
  Type f32_, i64_;
  Value heads_, keyHeads_, group_;                        // of queries, of keys, and their quotient
  Value pages_, positions_, listed_, divisor_, capacity_; // pages of a list, positions that it has
  Value roundedAt_, sumsAt_, factorsAt_, pageAt_, scoresAt_;
  int64_t roundedBytes_ = 0;       // of a query
  Value scratch_, stride_, bytes_; // of a row of scores, in floats
};

bool isCachedAttention(Operation *op) {
  auto attention = dyn_cast<graph::CachedAttentionOp>(op);
  if (!attention)
    return false;
  for (Value operand : op->getOperands())
    if (!isa<RankedTensorType>(operand.getType()))
      return false;
  auto q = cast<RankedTensorType>(attention.getQ().getType());
  auto keys = cast<RankedTensorType>(attention.getKeys().getType());
  auto isSize = [](int64_t size, int64_t most) { return size > 0 && size <= most; };
  auto isCount = [&](int64_t count) {
    return ShapedType::isDynamic(count) || isSize(count, kMostHeads);
  };
  if (q.getRank() != 3 || keys.getRank() != 4 || !isCount(q.getDimSize(1)) ||
      !isCount(keys.getDimSize(2)))
    return false;
  bool isKnown = !q.isDynamicDim(1) && !keys.isDynamicDim(2);
  if (isKnown && q.getDimSize(1) % keys.getDimSize(2))
    return false;
  int64_t size = graph::headSizeOf(attention, attention.getKeys());
  int64_t valueSize = graph::headSizeOf(attention, attention.getValues());
  return isSize(size, kMostHead) && isSize(valueSize, kMostHead) && q.getDimSize(2) == size;
}

KernelParts cachedAttentionParts(graph::KernelOp kernel, graph::CachedAttentionOp root,
                                 const Machine &machine) {
  Attention attention = attentionOf(root, machine);
  KernelParts parts;
  parts.summary = "attention to a cache, " + std::string(attention.keys.format.name);
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    auto q = dimValues(math, sizes, root.getQ().getType());
    auto keys = dimValues(math, sizes, root.getKeys().getType());
    Value positions = math.mul(dimValues(math, sizes, root.getTable().getType())[1], keys[1]);
    Value group = math.div(q[1], math.max(keys[2], math.constant(1)));
    Value work = math.mul(math.add(positions, 1),
                          attention.together() * (attention.keys.size + attention.values.size));
    return {math.mul(math.mul(q[0], keys[2]), attention.chunks(math, group)),
            grainOf(math, math.div(work, math.constant(8)))};
  };
  parts.body = [=, &machine](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    CachedAttentionEmitter(emitter, kernel, attention, machine, results).emit(begin, end);
  };
  return parts;
}

} // namespace

const Template kCachedAttention = {
    .name = "cached attention",
    .mayBeRoot = isCachedAttention,
    .isRoot = isCachedAttention,
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &) {
          return cachedAttentionParts(kernel, cast<graph::CachedAttentionOp>(main), machine);
        },
    .multiplies = true,
};

} // namespace tensmith::kernel
