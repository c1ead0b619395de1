// Rows combined into a tensor at indices, as the gradient of an embedding into its table and the
// messages of a graph network: y = x, and y[index[i]] += updates[i]; or the product, the least, the
// greatest, or what was last.
//
// An item is a range of rows of the result, and goes through all indices for those that are its
// own: so threads never meet, and a row's sum has one order however many there are. Where the
// result is written over x (vm/InPlace.h), which the kernel finds by their addresses, only rows
// that indices name are touched.
#include "compiler/kernel/ScatterKernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

/// Ranges of rows: more would only go through the indices more often.
constexpr int64_t kRanges = 32;

Value rowsPerItem(IndexMath &math, Value rows) {
  return math.max(math.ceilDiv(rows, math.constant(kRanges)), math.constant(1));
}

class ScatterEmitter {
public:
  ScatterEmitter(ElementEmitter &emitter, graph::ScatterNDOp root, Value result)
      : emitter_(emitter), math_(emitter.math), root_(root), result_(result),
        element_(getElementTypeOrSelf(root.getY().getType())), dims_(emitter.dims(root.getY())),
        inner_(math_.product(ArrayRef(dims_).drop_front())) {}

  void emitRows(Value begin, Value end) {
    copyRows(begin, end);
    SmallVector<Value> places = emitter_.dims(root_.getIndices());
    places.pop_back();
    emitFor(math_, math_.constant(0), math_.product(places), math_.constant(1), [&](Value number) {
      SmallVector<Value> place;
      if (!places.empty())
        place = math_.delinear(number, places);
      Value row = rowOf(place);
      emitIf(math_, math_.less(math_.sub(row, begin), math_.sub(end, begin)),
             [&] { combineRow(row, place); });
    });
  }

private:
  void copyRows(Value begin, Value end) {
    auto copy = [&] {
      emitFor(math_, begin, end, math_.constant(1), [&](Value row) {
        eachOfRow(row, [&](const Position &at, Value offset) {
          emitter_.store(result_, element_, offset, emitter_.element(root_.getX(), at));
        });
      });
    };
    Value from = emitter_.buffer(root_.getX());
    if (!from)
      return copy();
    Value apart = emitter_.builder().create<LLVM::ICmpOp>(math_.location, LLVM::ICmpPredicate::ne,
                                                          from, result_);
    emitIf(math_, apart, copy);
  }

  void eachOfRow(Value row, llvm::function_ref<void(const Position &, Value offset)> body) {
    Value start = math_.mul(row, inner_);
    emitFor(math_, math_.constant(0), inner_, math_.constant(1),
            [&](Value column) { body(inRow({row}, column), math_.add(start, column)); });
  }

  /// The position of an element of a row, whose own indices come first.
  Position inRow(ArrayRef<Value> row, Value column) {
    Position at{SmallVector<Value>(row)};
    if (dims_.size() > 1)
      at.indices.append(math_.delinear(column, ArrayRef(dims_).drop_front()));
    return at;
  }

  Value rowOf(ArrayRef<Value> place) {
    SmallVector<Value> indices(place);
    indices.push_back(math_.constant(0));
    Value given = emitter_.element(root_.getIndices(), Position{indices});
    Value index = emitter_.builder().create<arith::IndexCastOp>(
        math_.location, emitter_.builder().getIndexType(), given);
    Value rows = dims_[0];
    // Unsigned, so that a negative number is a large one.
    Value fromEnd = math_.add(index, rows);
    index = math_.select(math_.less(index, rows), index, fromEnd);
    emitter_.check(math_.less(index, rows), "an index is outside of the rows that it changes");
    return index;
  }

  void combineRow(Value row, ArrayRef<Value> place) {
    eachOfRow(row, [&](const Position &at, Value offset) {
      Position update{SmallVector<Value>(place)};
      update.indices.append(at.indices.begin() + 1, at.indices.end());
      Value given = emitter_.element(root_.getUpdates(), update);
      if (root_.getReduction() != "none")
        given = combined(emitter_.load(result_, element_, offset), given);
      emitter_.store(result_, element_, offset, given);
    });
  }

  Value combined(Value a, Value b) {
    StringRef reduction = root_.getReduction();
    bool isFloat = isa<FloatType>(element_);
    if (reduction == "add")
      return isFloat ? create<arith::AddFOp>(a, b) : create<arith::AddIOp>(a, b);
    if (reduction == "mul")
      return isFloat ? create<arith::MulFOp>(a, b) : create<arith::MulIOp>(a, b);
    bool isLeast = reduction == "min";
    if (!isFloat)
      return isLeast ? create<arith::MinSIOp>(a, b) : create<arith::MaxSIOp>(a, b);
    // NaN stays, and comes; of equal numbers it is the later, as the reference has it.
    Value stays = create<arith::CmpFOp>(
        isLeast ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT, a, b);
    Value isNaN = create<arith::CmpFOp>(arith::CmpFPredicate::UNO, a, a);
    return create<arith::SelectOp>(create<arith::OrIOp>(stays, isNaN), a, b);
  }

  template <typename Op, typename... Operands> Value create(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::ScatterNDOp root_;
  Value result_;
  Type element_;
  SmallVector<Value> dims_;
  Value inner_;
};

} // namespace

bool isScatterRoot(Operation *op) {
  auto scatter = dyn_cast<graph::ScatterNDOp>(op);
  if (!scatter)
    return false;
  auto x = dyn_cast<RankedTensorType>(scatter.getX().getType());
  auto indices = dyn_cast<RankedTensorType>(scatter.getIndices().getType());
  auto updates = dyn_cast<RankedTensorType>(scatter.getUpdates().getType());
  if (!x || !indices || !updates || x.getRank() == 0 || indices.getRank() == 0)
    return false;
  bool whole = indices.getShape().back() == 1 &&
               updates.getRank() == indices.getRank() - 1 + x.getRank() - 1;
  auto isWhole = [](Type type) { return type.isSignlessInteger(32) || type.isSignlessInteger(64); };
  Type element = x.getElementType();
  return whole && (element.isF32() || element.isF64() || isWhole(element)) &&
         isWhole(indices.getElementType());
}

Template scatterTemplate(graph::KernelOp kernel, graph::ScatterNDOp root) {
  Template parts;
  parts.summary = "scatter";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
    Value rows = dimValues(math, sizes, root.getY().getType())[0];
    return {math.ceilDiv(rows, rowsPerItem(math, rows)), math.constant(1)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) mutable {
    IndexMath &math = emitter.math;
    Value rows = emitter.dims(root.getY())[0], block = rowsPerItem(math, rows);
    ScatterEmitter(emitter, root, results[0])
        .emitRows(math.mul(begin, block), math.min(math.mul(end, block), rows));
  };
  return parts;
}

} // namespace tensmith::kernel
