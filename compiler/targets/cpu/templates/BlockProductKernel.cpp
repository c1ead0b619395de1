// Products by weights in blocks of few bits, y[m, n] = sum over k of x[m, k] w[n, k], which are
// read from memory as they are stored, once.
//
// One row of x waits for memory: a few rows of w are read side by side, so that each vector of x
// serves all of them, while those behind them are prefetched. Codes become floats in registers, are
// multiplied by x, and the sum of each group is scaled once. What is added to each number of a
// group (a minimum, or the bias of its codes) is added as its product with the sum of that group of
// x, which is made once for all rows: sum (s q + o) x = s sum q x + o sum x. Where x may be rounded
// to 8 bits and the machine adds up products of bytes, codes are multiplied as such (BlockDots.h).
//
// Several rows of x wait for arithmetic: an item's rows of w are decoded into the thread's scratch,
// where all of x is multiplied by them, in tiles of registers. They are as many as the second-level
// cache holds beside x. Where x may be rounded, an item is a panel of w (BlockPanels.h) and a block
// of rows of x, as many as that cache holds, which are rounded once for all panels of a range. One
// or two, as a batch of an open size may have, wait for memory again, and take a panel as it is
// stored. Each row of x gives the very numbers that it gives alone.
//
// The last rows of a tile are repeated where there are no more, but not stored again: what is fused
// behind the product may be written over what it reads.
#include "compiler/targets/cpu/templates/BlockProductKernel.h"

#include "compiler/graph/Blocks.h"
#include "compiler/targets/cpu/templates/BlockPanels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Rows of weights that one row is multiplied by side by side.
static constexpr Choice weightRows{"weight_rows", 1, 8};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::weightRows};

constexpr int64_t kStreams = 4;       // of weights, unasked
constexpr int64_t kLeastOfRange = 32; // rows of weights: a range makes the sums of x anew
constexpr int64_t kTileRows = 4, kTileColumns = 4, kFewRegisters = 2; // of x, of w
constexpr int64_t kRoundedRows = 8;   // of x, by a panel of w, in registers
constexpr int64_t kStoredRows = 2;    // so few of x are multiplied by what is stored
constexpr int64_t kMostOfBlock = 256; // rows of x that are rounded at once
constexpr int64_t kLeastPanels = 16;  // of a range, which rounds x anew
constexpr int64_t kMostDecoded = 256, kMostScratch = int64_t(1) << 26;

/// What the code is made for.
struct Product {
  graph::BlockProductOp op;
  const BlockFormat &format;
  int64_t columns, lanes;
  bool isOneRow;

  int64_t blocks() const { return columns / format.elements; }
  int64_t rowBytes() const { return blocks() * format.bytes; }
  bool hasOffset() const { return format.hasOffset() || (format.bias && format.levels.empty()); }
};

bool isOneRow(graph::BlockProductOp op) {
  auto x = cast<RankedTensorType>(op.getX().getType());
  return llvm::all_of(x.getShape().drop_back(), [](int64_t size) { return size == 1; });
}

Product productOf(graph::BlockProductOp op, const Machine &machine) {
  const BlockFormat &format = *graph::formatOf(op);
  int64_t lanes = std::min<int64_t>({machine.lanes(4), format.group, 16});
  return {op, format, graph::columnsOf(op), lanes, isOneRow(op)};
}

int64_t streamsOf(const Product &product, const Point &asked) {
  // A table of levels takes many instructions, of which each row has its own.
  return asked[choice::weightRows].value_or(product.format.levels.empty() ? kStreams : 2);
}

/// Rows of weights that are decoded together: half of the second-level cache.
int64_t decodedRows(const Product &product, const Machine &machine) {
  int64_t rows = machine.l2Bytes / 2 / (product.columns * 4) / kTileColumns * kTileColumns;
  return std::clamp<int64_t>(rows, kTileColumns, kMostDecoded);
}

/// Rows of x that are rounded together: most of the second-level cache.
int64_t blockRows(const BlockPanels &panels, const Machine &machine) {
  int64_t rows = machine.l2Bytes / 4 * 3 / panels.rowBytes() / kRoundedRows * kRoundedRows;
  return std::clamp<int64_t>(rows, kRoundedRows, kMostOfBlock);
}

class ProductEmitter {
public:
  ProductEmitter(ElementEmitter &emitter, graph::KernelOp kernel, const Product &product,
                 const Machine &machine, ValueRange results)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), product_(product),
        machine_(machine), results_(results), op_(product.op),
        codes_(math_, product.format, product.lanes), x_(emitter.buffer(op_.getX())),
        w_(emitter.buffer(op_.getBlocks())), f32_(emitter.builder().getF32Type()),
        vector_(withLanes(f32_, product.lanes)), dims_(emitter.dims(op_.getY())),
        rows_(math_.product(ArrayRef(dims_).drop_back())), count_(dims_.back()) {}

  void emitRoundedRow(BlockDots &dots, int64_t streams, Value begin, Value end) {
    scratch_ = emitScratch(emitter_, math_.constant(dots.scratchBytes()), begin, end);
    emitIf(math_, math_.less(begin, end), [&] { dots.round(x_, scratch_); });
    emitFor(math_, begin, end, math_.constant(1), [&](Value item) {
      Rows rows = rowsFrom(math_.mul(item, streams), streams, count_);
      Values sums = multiplyRounded(dots, rows.numbers);
      for (size_t i = 0; i < rows.size(); ++i)
        ifBoth(rows.areThere[i], {}, [&] { give(math_.constant(0), rows.numbers[i], sums[i]); });
    });
  }

  /// Items are numbered by blocks of rows of x, then by panels of w.
  void emitPanels(BlockPanels &panels, int64_t blockRows, Value begin, Value end) {
    Value most = math_.min(rows_, math_.constant(blockRows)), one = math_.constant(1);
    Value panelAt = math_.mul(most, panels.rowBytes());
    scratch_ = emitScratch(emitter_, math_.add(panelAt, panels.bytes()), begin, end);
    Value panel = bytesAt(scratch_, panelAt);
    Value all = math_.ceilDiv(count_, math_.constant(panels.lanes()));
    Value firstBlock = math_.div(begin, all);
    Value blocks = math_.select(math_.less(begin, end), math_.ceilDiv(end, all), firstBlock);
    emitFor(math_, firstBlock, blocks, one, [&](Value block) {
      Value first = math_.mul(block, blockRows), before = math_.mul(block, all);
      Value there = math_.min(math_.sub(rows_, first), math_.constant(blockRows));
      Value from = math_.max(begin, before), to = math_.min(end, math_.add(before, all));
      auto rounded = [&](llvm::function_ref<void(Value, Value)> round) {
        emitFor(math_, math_.constant(0), there, one, [&](Value row) {
          round(bytesAt(x_, math_.mul(math_.add(first, row), product_.columns * 4)),
                bytesAt(scratch_, math_.mul(row, panels.rowBytes())));
        });
      };
      auto columnOf = [&](Value item) {
        return math_.mul(math_.sub(item, before), panels.lanes());
      };
      auto multiplyMany = [&] {
        rounded([&](Value x, Value to) { panels.round(x, to); });
        emitFor(math_, from, to, one, [&](Value item) {
          unpack(panels, columnOf(item), panel);
          multiplyPanel(panels, first, there, columnOf(item), panel);
        });
      };
      auto multiplyFew = [&] {
        rounded([&](Value x, Value to) { panels.roundForStored(x, to); });
        emitFor(math_, from, to, one, [&](Value item) {
          emitFor(math_, math_.constant(0), there, one,
                  [&](Value row) { multiplyStored(panels, first, row, columnOf(item)); });
        });
      };
      auto rows = constantIndex(rows_);
      if (rows && *rows <= kStoredRows)
        return multiplyFew();
      if (rows && (*rows % blockRows == 0 || *rows % blockRows > kStoredRows))
        return multiplyMany();
      emitIf(math_, math_.less(math_.constant(kStoredRows), there), multiplyMany, multiplyFew);
    });
  }

  void emitOneRow(int64_t streams, Value begin, Value end) {
    if (product_.hasOffset())
      sumGroups(begin, end);
    emitFor(math_, begin, end, math_.constant(1), [&](Value item) {
      Rows rows = rowsFrom(math_.mul(item, streams), streams, count_);
      Values sums = multiplyRow(rows.numbers);
      for (size_t i = 0; i < rows.size(); ++i)
        ifBoth(rows.areThere[i], {}, [&] { give(math_.constant(0), rows.numbers[i], sums[i]); });
    });
  }

  void emitRows(int64_t decoded, Value begin, Value end) {
    scratch_ = emitScratch(emitter_, math_.constant(decoded * product_.columns * 4), begin, end);
    int64_t tall = machine_.vectorRegisters >= 32 ? kTileRows : kFewRegisters;
    Value zero = math_.constant(0);
    emitFor(math_, begin, end, math_.constant(1), [&](Value item) {
      Value first = math_.mul(item, decoded);
      Value there = math_.min(math_.sub(count_, first), math_.constant(decoded));
      emitFor(math_, zero, there, math_.constant(1),
              [&](Value row) { decode(math_.add(first, row), row); });
      emitFor(math_, zero, rows_, math_.constant(tall), [&](Value row) {
        emitFor(math_, zero, there, math_.constant(kTileColumns), [&](Value column) {
          multiplyTile(rowsFrom(row, tall, rows_), rowsFrom(column, kTileColumns, there), first);
        });
      });
    });
  }

private:
  using Values = SmallVector<Value>;

  /// `count` rows from `first` on, the last one again where there are no more.
  struct Rows {
    Values numbers, areThere; // the second null where that is certain
    size_t size() const { return numbers.size(); }
  };
  Rows rowsFrom(Value first, int64_t count, Value size) {
    Rows rows;
    for (int64_t i = 0; i < count; ++i) {
      Value row = i ? math_.add(first, i) : first, isThere = i ? math_.less(row, size) : Value();
      rows.numbers.push_back(i ? math_.select(isThere, row, math_.sub(size, math_.constant(1)))
                               : row);
      rows.areThere.push_back(isThere);
    }
    return rows;
  }

  // One row of x.

  /// The sum of each group of x, in scratch.
  void sumGroups(Value begin, Value &end) {
    int64_t group = product_.format.group, groups = product_.columns / group;
    scratch_ = emitScratch(emitter_, math_.constant(groups * 4), begin, end);
    emitFor(math_, math_.constant(0), math_.constant(groups), math_.constant(1), [&](Value index) {
      Value first = math_.mul(index, group), sum = loadX(first);
      for (int64_t at = product_.lanes; at < group; at += product_.lanes)
        sum = make<arith::AddFOp>(sum, loadX(math_.add(first, at)));
      emitter_.store(scratch_, f32_, index, sumOfLanes(math_, sum));
    });
  }

  /// The products of the row and those rows of w.
  Values multiplyRow(const Values &rows) {
    const BlockFormat &format = product_.format;
    Values starts, sums(rows.size(), zeros(vector_));
    for (Value row : rows)
      starts.push_back(bytesAt(w_, math_.mul(row, product_.rowBytes())));
    sums.append(product_.hasOffset() ? rows.size() : 0, zeros(f32_));
    sums = emitReduction(math_, math_.constant(0), math_.constant(product_.blocks()),
                         math_.constant(1), sums, [&](Value index, ValueRange carried) {
                           prefetchBehind(starts[0], index, starts.size(), format.bytes);
                           Values blocks;
                           for (Value start : starts)
                             blocks.push_back(bytesAt(start, math_.mul(index, format.bytes)));
                           Values next(carried);
                           addBlocks(blocks, index, next);
                           return next;
                         });
    Values result;
    for (size_t row = 0; row < rows.size(); ++row) {
      Value sum = sumOfLanes(math_, sums[row]);
      result.push_back(product_.hasOffset() ? make<arith::AddFOp>(sum, sums[rows.size() + row])
                                            : sum);
    }
    return result;
  }

  /// As much of the rows behind these as part `index` of these is, `bytes` of each row: all of them
  /// are one piece of memory. A core's own prefetcher follows a row, stops at its end, and begins
  /// anew with the next, which a row of a few KB is too short for. What is more than the
  /// first-level cache keeps goes to the second-level one.
  void prefetchBehind(Value start, Value index, size_t rows, int64_t bytes) {
    constexpr int64_t kAhead = 4096, kLine = 64;
    constexpr int kFirstLevel = 3, kSecondLevel = 2, kData = 1; // operands
    int64_t together = int64_t(rows) * product_.rowBytes(), part = int64_t(rows) * bytes;
    Value behind = bytesAt(start, math_.constant(int64_t(llvm::alignTo(kAhead, together))));
    Value first = bytesAt(behind, math_.mul(index, part));
    int level = 2 * together <= machine_.l1Bytes ? kFirstLevel : kSecondLevel;
    for (int64_t line = 0; line < part; line += kLine)
      math_.builder.create<LLVM::Prefetch>(math_.location, bytesAt(first, math_.constant(line)),
                                           /*rw=*/0, level, kData);
  }

  /// Adds the products of block number `index` of each row: `sums` are vectors, then what offsets
  /// give.
  void addBlocks(const Values &blocks, Value index, Values &sums) {
    const BlockFormat &format = product_.format;
    SmallVector<BlockCodes::Scales> scales;
    for (Value block : blocks)
      scales.push_back(codes_.scales(block));
    Value first = math_.mul(index, format.elements);
    Value firstGroup = math_.mul(index, format.groups());
    for (int64_t group = 0; group < format.groups(); ++group) {
      Values parts(blocks.size());
      for (int64_t at = 0; at < format.group; at += product_.lanes) {
        int64_t element = group * format.group + at;
        Value x = loadX(math_.add(first, element));
        for (auto [block, part] : llvm::zip_equal(blocks, parts)) {
          Value code = codes_.codes(block, element);
          part = part ? multiplyAdd(code, x, part) : make<arith::MulFOp>(code, x);
        }
      }
      for (size_t row = 0; row < blocks.size(); ++row)
        sums[row] =
            multiplyAdd(parts[row], codes_.splat(scales[row].scale[size_t(group)]), sums[row]);
      if (!product_.hasOffset())
        continue;
      Value sum = emitter_.load(scratch_, f32_, math_.add(firstGroup, group));
      for (size_t row = 0; row < blocks.size(); ++row) {
        Value &offsets = sums[blocks.size() + row];
        offsets = multiplyAdd(scales[row].offset[size_t(group)], sum, offsets);
      }
    }
  }

  // Rounded rows of x.

  /// The products of the row in the scratch and those rows of w.
  Values multiplyRounded(BlockDots &dots, const Values &rows) {
    Values starts, initial, result;
    for (Value row : rows) {
      starts.push_back(bytesAt(w_, math_.mul(row, product_.rowBytes())));
      BlockDots::Sums zeros = dots.zeros();
      initial.append({zeros.products, zeros.offsets});
    }
    Values last =
        emitReduction(math_, math_.constant(0), math_.constant(dots.strips()), math_.constant(1),
                      initial, [&](Value index, ValueRange carried) {
                        Values strips, next;
                        for (Value start : starts)
                          strips.push_back(bytesAt(start, math_.mul(index, dots.stripBytes())));
                        prefetchBehind(starts[0], index, starts.size(), dots.stripBytes());
                        SmallVector<BlockDots::Sums> sums = sumsOf(carried);
                        dots.add(strips, index, scratch_, sums);
                        for (const BlockDots::Sums &sum : sums)
                          next.append({sum.products, sum.offsets});
                        return next;
                      });
    for (const BlockDots::Sums &sum : sumsOf(last))
      result.push_back(dots.total(sum));
    return result;
  }

  static SmallVector<BlockDots::Sums> sumsOf(ValueRange values) {
    SmallVector<BlockDots::Sums> sums;
    for (size_t i = 0; i < values.size(); i += 2)
      sums.push_back({values[i], values[i + 1]});
    return sums;
  }

  /// Where a row of w begins, the last one where there are no more.
  Value rowOf(Value row) {
    row = math_.min(row, math_.sub(count_, math_.constant(1)));
    return bytesAt(w_, math_.mul(row, product_.rowBytes()));
  }
  void unpack(BlockPanels &panels, Value column, Value panel) {
    panels.unpack([&](Value lane) { return rowOf(math_.add(column, lane)); }, panel);
  }
  /// Null where all lanes are columns that there are.
  Value maskFrom(Value column, int64_t lanes) {
    auto columns = constantIndex(count_);
    bool isWhole = columns && *columns % lanes == 0;
    return isWhole ? Value() : emitter_.maskBelow(math_.sub(count_, column), lanes);
  }
  /// Rounded row `row` of the block by a panel's rows of w as they are stored.
  void multiplyStored(BlockPanels &panels, Value first, Value row, Value column) {
    Values starts;
    for (int64_t lane = 0; lane < panels.lanes(); ++lane)
      starts.push_back(rowOf(math_.add(column, lane)));
    Value sum = panels.multiplyStored(
        starts, bytesAt(scratch_, math_.mul(row, panels.rowBytes())),
        [&](Value strip) { prefetchBehind(starts[0], strip, starts.size(), panels.stripBytes()); });
    give(math_.add(first, row), column, sum, panels.lanes(), maskFrom(column, panels.lanes()));
  }

  /// Rounded rows, `there` of them from row `first` of x on, by the panel, whose first row is
  /// `column` of w: in tiles of halving heights.
  void multiplyPanel(BlockPanels &panels, Value first, Value there, Value column, Value panel) {
    Value begin = math_.constant(0), mask = maskFrom(column, panels.lanes());
    for (int64_t height = kRoundedRows; height > 0; height /= 2) {
      Value end = math_.mul(math_.div(there, math_.constant(height)), height);
      emitFor(math_, begin, end, math_.constant(height), [&](Value row) {
        Values rows;
        for (int64_t i = 0; i < height; ++i)
          rows.push_back(bytesAt(scratch_, math_.mul(math_.add(row, i), panels.rowBytes())));
        Values sums = panels.multiply(rows, panel);
        for (int64_t i = 0; i < height; ++i) {
          Value number = math_.add(math_.add(first, row), i);
          give(number, column, sums[size_t(i)], panels.lanes(), mask);
        }
      });
      begin = end;
    }
  }

  // Several rows of x.

  /// Row `row` of w as floats, in row `to` of the scratch.
  void decode(Value row, Value to) {
    const BlockFormat &format = product_.format;
    Value start = bytesAt(w_, math_.mul(row, product_.rowBytes()));
    Value target = math_.mul(to, product_.columns);
    emitFor(math_, math_.constant(0), math_.constant(product_.blocks()), math_.constant(1),
            [&](Value index) {
              Value block = bytesAt(start, math_.mul(index, format.bytes));
              BlockCodes::Scales scales = codes_.scales(block);
              Value first = math_.add(target, math_.mul(index, format.elements));
              for (int64_t at = 0; at < format.elements; at += product_.lanes) {
                auto group = size_t(at / format.group);
                Value scale = codes_.splat(scales.scale[group]), code = codes_.codes(block, at);
                Value offset = scales.offset[group];
                Value number = offset ? multiplyAdd(code, scale, codes_.splat(offset))
                                      : make<arith::MulFOp>(code, scale);
                emitter_.store(scratch_, f32_, math_.add(first, at), number);
              }
            });
  }

  /// `columns` are rows of the scratch, the first of which is row `first` of w.
  void multiplyTile(const Rows &rows, const Rows &columns, Value first) {
    Values fromX, fromW, sums(rows.size() * columns.size(), zeros(vector_));
    for (Value row : rows.numbers)
      fromX.push_back(math_.mul(row, product_.columns));
    for (Value column : columns.numbers)
      fromW.push_back(math_.mul(column, product_.columns));
    sums = emitReduction(
        math_, math_.constant(0), math_.constant(product_.columns), math_.constant(product_.lanes),
        sums, [&](Value k, ValueRange carried) {
          Values next(carried), x, w;
          for (Value row : fromX)
            x.push_back(loadX(math_.add(row, k)));
          for (Value column : fromW)
            w.push_back(emitter_.load(scratch_, f32_, math_.add(column, k), product_.lanes));
          for (size_t i = 0; i < next.size(); ++i)
            next[i] = multiplyAdd(x[i / w.size()], w[i % w.size()], next[i]);
          return next;
        });
    for (size_t i = 0; i < sums.size(); ++i) {
      size_t row = i / columns.size(), column = i % columns.size();
      ifBoth(rows.areThere[row], columns.areThere[column], [&] {
        give(rows.numbers[row], math_.add(first, columns.numbers[column]),
             sumOfLanes(math_, sums[i]));
      });
    }
  }

  // Of both.

  /// Null conditions hold.
  void ifBoth(Value a, Value b, llvm::function_ref<void()> then) {
    Value both = a && b ? make<arith::AndIOp>(a, b) : a ? a : b;
    both ? emitIf(math_, both, then) : then();
  }

  /// Stores a result, or `lanes` of them that lie side by side.
  void give(Value row, Value column, Value sum, int64_t lanes = 1, Value mask = {}) {
    emitter_.define(op_.getY(), [sum](const Position &) { return sum; });
    Position at{{}, lanes, mask};
    if (dims_.size() > 1)
      at.indices = math_.delinear(row, ArrayRef(dims_).drop_back());
    at.indices.push_back(column);
    storeResults(emitter_, kernel_, results_, at, row);
  }

  Value loadX(Value offset) { return emitter_.load(x_, f32_, offset, product_.lanes); }

  Value bytesAt(Value pointer, Value bytes) { return bytePointer(math_, pointer, bytes); }

  Value zeros(Type type) { return make<arith::ConstantOp>(emitter_.builder().getZeroAttr(type)); }

  Value multiplyAdd(Value a, Value b, Value sum) {
    auto flags = arith::FastMathFlagsAttr::get(emitter_.builder().getContext(),
                                               arith::FastMathFlags::contract);
    Value product = make<arith::MulFOp>(a, b, flags);
    return make<arith::AddFOp>(product, sum, flags);
  }

  template <typename Op, typename... Operands> Value make(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  const Product product_;
  const Machine &machine_;
  ValueRange results_;
  graph::BlockProductOp op_;
  BlockCodes codes_;
  Value x_, w_;
  Type f32_, vector_;
  Values dims_;
  Value rows_, count_; // of x, and of w
  Value scratch_;
};

bool isBlockProduct(Operation *op) {
  auto product = dyn_cast<graph::BlockProductOp>(op);
  if (!product || !isa<RankedTensorType>(product.getX().getType()))
    return false;
  int64_t columns = graph::columnsOf(product);
  auto x = cast<RankedTensorType>(product.getX().getType());
  return columns > 0 && columns <= kMostScratch / (4 * kTileColumns) && x.getRank() > 0 &&
         x.getElementType().isF32() && x.getShape().back() == columns;
}

KernelParts blockProductParts(graph::KernelOp kernel, graph::BlockProductOp root,
                              const Machine &machine, const Point &asked) {
  Product product = productOf(root, machine);
  auto dotsOf = [=, &machine](IndexMath &math) -> std::optional<BlockDots> {
    if (graph::BlockProductOp(root).getXBits() != 8)
      return std::nullopt;
    return BlockDots::of(math, product.format, product.columns, machine.vectorBytes,
                         machine.products(Number::U8, Number::I8, Number::I32));
  };
  auto panelsOf = [=, &machine](const BlockDots &dots) {
    return BlockPanels(dots, std::min<int64_t>(machine.lanes(4), 16));
  };
  KernelParts parts;
  parts.summary = "block product, " + std::string(product.format.name);
  parts.items = [=, &machine](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    auto dims = dimValues(math, sizes, root.getY().getType());
    Value rows = math.product(ArrayRef(dims).drop_back()), blocks = math.constant(1);
    auto dots = dotsOf(math);
    int64_t together = product.isOneRow ? streamsOf(product, asked) : decodedRows(product, machine);
    int64_t least = product.isOneRow ? (kLeastOfRange + together - 1) / together : 1;
    if (dots && !product.isOneRow) {
      BlockPanels panels = panelsOf(*dots);
      Value ofBlock = math.constant(blockRows(panels, machine));
      blocks = math.ceilDiv(rows, ofBlock), rows = math.min(rows, ofBlock);
      together = panels.lanes(), least = kLeastPanels;
    }
    Value grain = grainOf(math, math.mul(rows, together * product.columns));
    return {math.mul(blocks, math.ceilDiv(dims.back(), math.constant(together))),
            math.max(grain, math.constant(least)), asked.of(kChoices)};
  };
  parts.body = [=, &machine](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    ProductEmitter code(emitter, kernel, product, machine, results);
    auto dots = dotsOf(emitter.math);
    if (product.isOneRow) {
      int64_t streams = streamsOf(product, asked);
      return dots ? code.emitRoundedRow(*dots, streams, begin, end)
                  : code.emitOneRow(streams, begin, end);
    }
    if (!dots)
      return code.emitRows(decodedRows(product, machine), begin, end);
    BlockPanels panels = panelsOf(*dots);
    code.emitPanels(panels, blockRows(panels, machine), begin, end);
  };
  return parts;
}

} // namespace

const Template kBlockProduct = {
    .name = "block product",
    .mayBeRoot = isBlockProduct,
    .isRoot = isBlockProduct,
    .parts =
        [](graph::KernelOp kernel, Operation *main, const Machine &machine, const Point &asked) {
          return blockProductParts(kernel, cast<graph::BlockProductOp>(main), machine, asked);
        },
    .choices = kChoices,
    .space =
        [](graph::KernelOp, Operation *main, const Machine &, Space &space) {
          if (isOneRow(cast<graph::BlockProductOp>(main)))
            space.addDoubling(choice::weightRows, choice::weightRows.most);
        },
    .multiplies = true,
};

} // namespace tensmith::kernel
