// Panels of pairs of rows, by vectors; see PackKernel.h.
//
// A line of a panel has the elements of two rows by turns: two vectors are shuffled into one. As in
// LoopKernel.cpp, some rows are cut into all their panels before the next are begun, so that memory
// is read as a few streams.
//
// Where the matrix lies transposed, the two elements of a pair lie side by side, as 32 bits. A
// square of as many rows as a vector has lanes is loaded, transposed in registers, and its lines
// are stored.
#include "compiler/targets/cpu/templates/PackKernel.h"

#include "compiler/targets/cpu/templates/TransposeKernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Pairs of rows in a work item.
static constexpr Choice itemPairs{"item_pairs", 1, kAny};
} // namespace choice

namespace {

constexpr int64_t kLinesTogether = 8; // pairs of rows, unasked

constexpr const Choice *kChoices[] = {&choice::itemPairs};

/// The operand of a transposition that exchanges the last two dimensions, and nothing else.
Value turnedFrom(Value value) {
  auto op = value ? value.getDefiningOp<graph::TransposeOp>() : graph::TransposeOp();
  if (!op)
    return {};
  auto permutation = llvm::to_vector(op.getPermutation());
  if (permutation.size() < 2)
    return {};
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())) ? op.getX() : Value();
}

class PackEmitter {
public:
  PackEmitter(ElementEmitter &emitter, const PairedRows &packed, int64_t lanes, int64_t together,
              Value result)
      : emitter_(emitter), math_(emitter.math), packed_(packed), lanes_(lanes), together_(together),
        result_(result), pack_(packed.pack), dims_(emitter.dims(pack_.getResult())) {
    width_ = *constantIndex(dims_.back()) / 2;
    lines_ = dims_[dims_.size() - 2];
    panels_ = dims_[dims_.size() - 3];
    columns_ = emitter.dims(pack_.getX()).back();
    columns_ = math_.div(columns_, math_.constant(2));
  }

  /// One item: some lines of all panels of one matrix, or one panel of a matrix that lies turned.
  void emit(Value item) {
    SmallVector<Value> extents(ArrayRef(dims_).drop_back(3));
    extents.push_back(packed_.turned ? panels_ : math_.ceilDiv(lines_, math_.constant(together_)));
    prefix_ = math_.delinear(item, extents);
    Value part = prefix_.pop_back_val();
    batch_ = math_.linear(prefix_, ArrayRef(extents).drop_back());
    packed_.turned ? emitTurnedPanel(part) : emitLines(math_.mul(part, together_));
  }

private:
  void emitLines(Value first) {
    Value one = math_.constant(1), last = math_.min(math_.add(first, together_), lines_);
    emitFor(math_, math_.constant(0), panels_, one, [&](Value panel) {
      emitFor(math_, first, last, one, [&](Value line) {
        for (int64_t at = 0; at < width_; at += lanes_)
          emitPairs(panel, line, at);
      });
    });
  }

  void emitPairs(Value panel, Value line, int64_t at) {
    auto &builder = emitter_.builder();
    Value column = math_.add(math_.mul(panel, width_), at), mask;
    if (auto known = constantIndex(columns_); !known || *known % width_ != 0)
      mask = emitter_.maskBelow(math_.sub(columns_, column), lanes_);
    Value low = row(line, 0, column, mask), high = row(line, 1, column, mask);
    SmallVector<int64_t> byTurns;
    for (int64_t lane = 0; lane < lanes_; ++lane)
      byTurns.append({lane, lanes_ + lane});
    Value pairs = builder.create<vector::ShuffleOp>(math_.location, low, high, byTurns);
    emitter_.store(result_, builder.getI16Type(), place(panel, line, at), pairs);
  }

  /// The bits of one of the rows of a pair; zeros behind its end.
  Value row(Value line, int64_t number, Value column, Value mask) {
    Position at{prefix_, lanes_, mask};
    if (packed_.rows)
      at.indices.append({math_.add(math_.mul(line, 2), number), column});
    else
      at.indices.append({line, math_.constant(number), column});
    Value value = packed_.rows ? packed_.rows : packed_.pairs;
    Value numbers = bits(emitter_.element(value, at), emitter_.builder().getI16Type());
    if (!mask)
      return numbers;
    auto &builder = emitter_.builder();
    Value zero =
        builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(numbers.getType()));
    return builder.create<arith::SelectOp>(math_.location, mask, numbers, zero);
  }

  /// Rounded to bf16, as vectors of whole words of that type.
  Value bits(Value numbers, Type word) {
    auto &builder = emitter_.builder();
    int64_t count = cast<VectorType>(numbers.getType()).getNumElements();
    Type halves = VectorType::get({count}, builder.getBF16Type());
    Value rounded = builder.create<arith::TruncFOp>(math_.location, halves, numbers);
    int64_t words = count * 16 / word.getIntOrFloatBitWidth();
    return builder.create<LLVM::BitcastOp>(math_.location, VectorType::get({words}, word), rounded);
  }

  /// In elements, of a panel's line.
  Value place(Value panel, Value line, int64_t at) {
    Value number = math_.add(math_.mul(batch_, panels_), panel);
    Value lines = math_.add(math_.mul(number, lines_), line);
    return math_.add(math_.mul(lines, 2 * width_), 2 * at);
  }

  void emitTurnedPanel(Value panel) {
    emitFor(math_, math_.constant(0), lines_, math_.constant(lanes_), [&](Value line) {
      for (int64_t at = 0; at < width_; at += lanes_) {
        Value column = math_.add(math_.mul(panel, width_), at);
        emitIf(
            math_, math_.less(column, columns_),
            [&] { storeSquare(panel, line, at, transposedSquare(math_, square(line, column))); },
            [&] { storeSquare(panel, line, at, zeros()); });
      }
    });
  }

  SmallVector<Value> square(Value line, Value column) {
    SmallVector<Value> rows;
    for (int64_t lane = 0; lane < lanes_; ++lane) {
      Position at{prefix_, 2 * lanes_};
      at.indices.append({math_.add(column, lane), math_.mul(line, 2)});
      rows.push_back(bits(emitter_.element(packed_.rows, at), emitter_.builder().getI32Type()));
    }
    return rows;
  }

  SmallVector<Value> zeros() {
    auto &builder = emitter_.builder();
    auto type = VectorType::get({lanes_}, builder.getI32Type());
    Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
    return SmallVector<Value>(lanes_, zero);
  }

  void storeSquare(Value panel, Value line, int64_t at, ArrayRef<Value> lines) {
    for (auto [number, words] : llvm::enumerate(lines)) {
      Value offset = place(panel, math_.add(line, number), at);
      Value pointer = elementPointer(math_, emitter_.builder().getI16Type(), result_, offset);
      emitter_.builder().create<LLVM::StoreOp>(math_.location, words, pointer, sizeof(int16_t));
    }
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const PairedRows &packed_;
  int64_t lanes_, together_, width_ = 0;
  Value result_;
  graph::PackOp pack_;
  SmallVector<Value> dims_, prefix_;
  Value lines_, panels_, columns_, batch_;
};

} // namespace

std::optional<PairedRows> matchPairedRows(graph::KernelOp kernel, const Machine &machine) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  PairedRows match;
  match.pack = yield.getValues().front().getDefiningOp<graph::PackOp>();
  if (yield.getValues().size() != 1 || !match.pack || match.pack.getTransposed() ||
      !getElementTypeOrSelf(match.pack.getType()).isBF16())
    return std::nullopt;
  int64_t lanes = machine.lanes(sizeof(float));
  auto joined = match.pack.getX().getDefiningOp<graph::ReshapeOp>();
  Value pairs = joined ? turnedFrom(joined.getX()) : Value();
  auto type = pairs ? cast<RankedTensorType>(pairs.getType()) : RankedTensorType();
  auto whole = cast<RankedTensorType>(match.pack.getX().getType());
  if (!type || type.getRank() != whole.getRank() + 1 || type.getRank() < 3 ||
      type.getDimSize(type.getRank() - 2) != 2 || int64_t(match.pack.getWidth()) % (2 * lanes))
    return std::nullopt;
  match.pairs = pairs;
  if (auto split = pairs.getDefiningOp<graph::ReshapeOp>()) {
    auto rows = cast<RankedTensorType>(split.getX().getType());
    if (rows.getRank() != whole.getRank() || rows.getShape().back() != type.getShape().back() ||
        rows.getDimSize(rows.getRank() - 2) != 2 * type.getDimSize(type.getRank() - 3))
      return std::nullopt;
    match.rows = split.getX();
    if (Value turned = turnedFrom(match.rows); turned && rows.getShape().back() % lanes == 0 &&
                                               type.getDimSize(type.getRank() - 3) % lanes == 0) {
      match.rows = turned;
      match.turned = true;
    }
  }
  return match;
}

static KernelParts packParts(const PairedRows &packed, const Machine &machine, const Point &asked) {
  KernelParts parts;
  int64_t together = asked[choice::itemPairs].value_or(kLinesTogether);
  int64_t lanes = machine.lanes(sizeof(float));
  parts.summary = packed.turned ? "pairs of a transposed matrix's rows" : "pairs of rows";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    graph::PackOp pack = packed.pack;
    SmallVector<Value> dims = dimValues(math, sizes, pack.getType());
    Value lines = dims[dims.size() - 2], panels = dims[dims.size() - 3];
    Value groups = math.ceilDiv(lines, math.constant(together));
    Value parts = packed.turned ? panels : groups;
    Value items = math.mul(math.product(ArrayRef(dims).drop_back(3)), parts);
    Value all = math.div(math.product(dims), math.constant(lanes / 2));
    Point chosen;
    chosen.set(choice::itemPairs, together);
    return {items, grainOf(math, math.div(all, math.max(items, math.constant(1)))), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    emitFor(emitter.math, begin, end, emitter.math.constant(1), [&](Value item) {
      PackEmitter(emitter, packed, lanes, together, results[0]).emit(item);
    });
  };
  return parts;
}

const Template kPack = {
    .name = "pack",
    .takes = [](graph::KernelOp kernel, Operation *,
                const Machine &machine) { return matchPairedRows(kernel, machine).has_value(); },
    .parts =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, const Point &asked) {
          return packParts(*matchPairedRows(kernel, machine), machine, asked);
        },
    .choices = kChoices,
    .space =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, Space &space) {
          if (!matchPairedRows(kernel, machine)->turned)
            space.addDoubling(choice::itemPairs, 64);
        },
};

} // namespace tensmith::kernel
