// A transform of a tile is Y = B X B^T for a matrix of a few small numbers: vectors of channels are
// loaded from the tile's pixels (or from the frequencies' planes), combined along the columns, then
// along the rows, and stored. It is bound by the loads and stores, so the pixels' places are found
// once for all channels. Of integers (compiler/rewrite/Winograd.cpp) the matrices are whole, and
// what they make too large comes off at the end.
//
// Points of the matrices come in pairs, p and -p: of two such rows the even powers are the same and
// the odd ones differ in sign, so that y(p) = even + odd and y(-p) = even - odd; of two such
// columns x(p) + x(-p) is what even rows take, and x(p) - x(-p) odd ones.
#include "compiler/targets/cpu/templates/WinogradKernel.h"

#include "base/ToomCook.h"
#include "compiler/kernel/WindowElement.h"
#include "compiler/targets/cpu/templates/ImageRows.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Vectors of channels of a tile in a work item.
static constexpr Choice itemVectors{"item_vectors", 1, kAny};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::itemVectors};

/// Y = matrix X matrix^T of vectors, [rows, rows] from [columns, columns]; zeros of the matrix cost
/// nothing.
class Sandwich {
public:
  Sandwich(IndexMath &math, const std::vector<double> &matrix, int64_t rows, VectorType type)
      : math_(math), matrix_(matrix), rows_(rows), columns_(int64_t(matrix.size()) / rows),
        type_(type) {}

  SmallVector<Value> apply(ArrayRef<Value> x) {
    SmallVector<Value> half(rows_ * columns_), y;
    for (int64_t j = 0; j < columns_; ++j) {
      SmallVector<Value> column;
      for (int64_t i = 0; i < columns_; ++i)
        column.push_back(x[i * columns_ + j]);
      for (auto [i, value] : llvm::enumerate(product(column)))
        half[int64_t(i) * columns_ + j] = value;
    }
    for (int64_t i = 0; i < rows_; ++i)
      llvm::append_range(y, product(ArrayRef(half).slice(i * columns_, columns_)));
    return y;
  }

private:
  struct Term {
    double factor;
    Value value;
  };
  using Terms = SmallVector<Term>;

  double at(int64_t row, int64_t column) const { return matrix_[size_t(row * columns_ + column)]; }

  /// matrix * x.
  SmallVector<Value> product(ArrayRef<Value> x) {
    SmallVector<Value> y;
    SmallVector<Terms> rows = terms(x);
    for (int64_t row = 0; row < rows_; ++row) {
      if (!isPairOfRows(row)) {
        y.push_back(sum(rows[row]));
        continue;
      }
      Terms even, odd;
      for (int64_t k = 0; k < columns_; ++k)
        if (at(row, k) != 0)
          (at(row, k) == at(row + 1, k) ? even : odd).push_back({at(row, k), x[k]});
      Value evens = sum(even), odds = sum(odd);
      y.push_back(make<arith::AddFOp, arith::AddIOp>(evens, odds));
      y.push_back(make<arith::SubFOp, arith::SubIOp>(evens, odds));
      ++row;
    }
    return y;
  }

  /// What is summed up for each row; sums and differences of a pair of columns are made once.
  SmallVector<Terms> terms(ArrayRef<Value> x) {
    SmallVector<Terms> rows(rows_);
    for (int64_t k = 0; k < columns_; ++k) {
      bool isPair = isPairOfColumns(k);
      Value both = isPair ? make<arith::AddFOp, arith::AddIOp>(x[k], x[k + 1]) : Value();
      Value apart = isPair ? make<arith::SubFOp, arith::SubIOp>(x[k], x[k + 1]) : Value();
      for (int64_t row = 0; row < rows_; ++row)
        if (double factor = at(row, k); factor != 0)
          rows[row].push_back({factor, !isPair ? x[k] : factor == at(row, k + 1) ? both : apart});
      k += isPair;
    }
    return rows;
  }

  /// Whether the row and the next are the same but for signs, and differ in some, not in all.
  bool isPairOfRows(int64_t row) const {
    int64_t same = 0, opposite = 0;
    for (int64_t k = 0; k < columns_ && row + 1 < rows_; ++k) {
      if (std::abs(at(row, k)) != std::abs(at(row + 1, k)))
        return false;
      (at(row, k) == at(row + 1, k) ? same : opposite) += at(row, k) != 0;
    }
    return same && opposite;
  }

  /// The same of columns, where more than one row takes the sum, and the difference.
  bool isPairOfColumns(int64_t column) const {
    int64_t same = 0, opposite = 0;
    for (int64_t row = 0; row < rows_ && column + 1 < columns_; ++row) {
      if (std::abs(at(row, column)) != std::abs(at(row, column + 1)))
        return false;
      (at(row, column) == at(row, column + 1) ? same : opposite) += at(row, column) != 0;
    }
    return same > 1 && opposite > 1;
  }

  /// Of at least one term.
  Value sum(ArrayRef<Term> terms) {
    Value total;
    for (auto [factor, value] : terms) {
      if (!total && factor == 1)
        total = value;
      else if (total && factor == 1)
        total = make<arith::AddFOp, arith::AddIOp>(total, value);
      else if (total && factor == -1)
        total = make<arith::SubFOp, arith::SubIOp>(total, value);
      else if (total)
        total = emitMultiplyAdd(math_.builder, math_.location, splat(factor), false, value, false,
                                total);
      else
        total = make<arith::MulFOp, arith::MulIOp>(splat(factor), value);
    }
    return total;
  }

  template <typename FloatOp, typename IntegerOp> Value make(Value a, Value b) {
    if (isa<FloatType>(type_.getElementType()))
      return math_.builder.create<FloatOp>(math_.location, a, b);
    return math_.builder.create<IntegerOp>(math_.location, a, b);
  }

  Value splat(double factor) {
    Type type = type_.getElementType();
    auto element = isa<FloatType>(type)
                       ? TypedAttr(math_.builder.getFloatAttr(type, factor))
                       : TypedAttr(math_.builder.getIntegerAttr(type, int64_t(factor)));
    return math_.builder.create<arith::ConstantOp>(math_.location,
                                                   DenseElementsAttr::get(type_, element));
  }

  IndexMath &math_;
  const std::vector<double> &matrix_;
  int64_t rows_, columns_;
  VectorType type_;
};

ToomCook matricesOf(Type element, int64_t outputs, int64_t taps) {
  return isa<FloatType>(element) ? toomCook(outputs, taps) : wholeToomCook(outputs, taps);
}

/// Into which the channels of a tile are cut, an item each: one, unless others are asked for.
int64_t partsOf(int64_t channels, int64_t lanes, const Point &asked) {
  int64_t vectors = std::max<int64_t>(llvm::divideCeil(channels, lanes), 1);
  return llvm::divideCeil(vectors, asked[choice::itemVectors].value_or(vectors));
}

/// What both directions share: the tile's place in the images, and the walk over channels.
class TransformEmitter {
public:
  TransformEmitter(ElementEmitter &emitter, int64_t outputs, int64_t taps, RankedTensorType from,
                   const Machine &machine, const Point &asked)
      : emitter_(emitter), math_(emitter.math),
        matrices_(matricesOf(from.getElementType(), outputs, taps)),
        channels_(from.getShape().back()), element_(from.getElementType()),
        lanes_(machine.lanes(element_.getIntOrFloatBitWidth() / 8)),
        masksAreFree_(machine.maskRegisters), type_(VectorType::get({lanes_}, element_)),
        parts_(partsOf(channels_, lanes_, asked)) {}

  /// The part of the channels that an item does.
  void beginItem(Value item) {
    if (parts_ == 1)
      return;
    Value part = math_.rem(item, math_.constant(parts_));
    int64_t each = llvm::divideCeil(llvm::divideCeil(channels_, lanes_), parts_) * lanes_;
    firstChannel_ = math_.mul(part, each);
    lastChannel_ = math_.min(math_.add(firstChannel_, each), math_.constant(channels_));
  }
  Value tileOf(Value item) { return math_.div(item, math_.constant(parts_)); }

protected:
  /// Image, and the first pixel of its outputs, of a tile: `image` are those along both dimensions.
  SmallVector<Value> placeOf(Value tile, ArrayRef<Value> image) {
    Value outputs = math_.constant(matrices_.outputs);
    SmallVector<Value> at = math_.delinear(
        tile, {Value(), math_.ceilDiv(image[0], outputs), math_.ceilDiv(image[1], outputs)});
    at[1] = math_.mul(at[1], matrices_.outputs);
    at[2] = math_.mul(at[2], matrices_.outputs);
    return at;
  }

  /// The code of a tile is long: where a mask costs nothing, the last vector's serves all.
  void forChannels(llvm::function_ref<void(Value channel, Value mask)> body) {
    Value first = firstChannel_ ? firstChannel_ : math_.constant(0);
    Value last = lastChannel_ ? lastChannel_ : math_.constant(channels_);
    if (masksAreFree_ && channels_ % lanes_ != 0)
      return emitFor(math_, first, last, math_.constant(lanes_), [&](Value channel) {
        Value left = math_.sub(math_.constant(channels_), channel);
        body(channel, emitter_.maskBelow(left, lanes_));
      });
    int64_t whole = channels_ / lanes_ * lanes_;
    emitFor(math_, first, math_.min(last, math_.constant(whole)), math_.constant(lanes_),
            [&](Value channel) { body(channel, {}); });
    if (whole == channels_)
      return;
    auto rest = [&] {
      body(math_.constant(whole), emitter_.maskBelow(math_.constant(channels_ - whole), lanes_));
    };
    parts_ == 1 ? rest() : emitIf(math_, math_.less(math_.constant(whole), last), rest);
  }

  int64_t frequencies() const { return matrices_.size * matrices_.size; }

  ElementEmitter &emitter_;
  IndexMath &math_;
  ToomCook matrices_;
  int64_t channels_;
  Type element_;
  int64_t lanes_;
  bool masksAreFree_;
  VectorType type_;
  int64_t parts_;
  Value firstChannel_, lastChannel_; // of the item; null: all
};

class InputEmitter : TransformEmitter {
public:
  InputEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::WinogradInputOp root,
               const Machine &machine, const Point &asked, ValueRange results)
      : TransformEmitter(emitter, root.getOutputs(), root.getTaps(),
                         cast<RankedTensorType>(root.getX().getType()), machine, asked),
        kernel_(kernel), root_(root), results_(results), tiles_(emitter.dims(root.getY())[1]) {}

  void emitItem(Value item) {
    beginItem(item);
    Value tile = tileOf(item);
    SmallVector<Value> pixels = findPixels(tile);
    Sandwich transform(math_, matrices_.input, matrices_.size, type_);
    forChannels([&](Value channel, Value mask) {
      SmallVector<Value> x;
      for (Value pixel : pixels)
        x.push_back(emitter_.load(pixel, element_, channel, lanes_, mask));
      for (auto [plane, value] : llvm::enumerate(transform.apply(x))) {
        Value row = math_.add(math_.mul(tiles_, plane), tile), made = value;
        emitter_.define(root_.getY(), [made](const Position &) { return made; });
        storeResults(emitter_, kernel_, results_,
                     {{math_.constant(int64_t(plane)), tile, channel}, lanes_, mask}, row);
      }
    });
  }

private:
  SmallVector<Value> outputImage(ArrayRef<Value> dims) {
    ArrayRef<int64_t> pads = root_.getPads();
    int64_t rim = int64_t(root_.getTaps()) - 1;
    return {math_.add(dims[1], pads[0] + pads[2] - rim),
            math_.add(dims[2], pads[1] + pads[3] - rim)};
  }

  /// Pointers to the pixels under the tile, to zeros where it reaches out of the image.
  SmallVector<Value> findPixels(Value tile) {
    SmallVector<Value> dims = emitter_.dims(root_.getX()), at = placeOf(tile, outputImage(dims));
    Value buffer = emitter_.buffer(root_.getX());
    SmallVector<Value> pixels;
    for (int64_t i = 0; i < matrices_.size; ++i)
      for (int64_t j = 0; j < matrices_.size; ++j) {
        Value y = math_.add(at[1], math_.constant(i - root_.getPads()[0]));
        Value x = math_.add(at[2], math_.constant(j - root_.getPads()[1]));
        Value inside = math_.builder.create<arith::AndIOp>(math_.location, math_.less(y, dims[1]),
                                                           math_.less(x, dims[2]));
        Value offset = math_.linear({at[0], y, x, math_.constant(0)}, dims);
        pixels.push_back(math_.select(inside, elementPointer(math_, element_, buffer, offset),
                                      zeroPixel(math_, element_, channels_)));
      }
    return pixels;
  }

  graph::KernelOp kernel_;
  graph::WinogradInputOp root_;
  ValueRange results_;
  Value tiles_;
};

class OutputEmitter : TransformEmitter {
public:
  OutputEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::WinogradOutputOp root,
                const Machine &machine, const Point &asked, ValueRange results)
      : TransformEmitter(emitter, root.getOutputs(), root.getTaps(),
                         cast<RankedTensorType>(root.getX().getType()), machine, asked),
        kernel_(kernel), root_(root), results_(results), tiles_(emitter.dims(root.getX())[1]),
        dims_(emitter.dims(root.getY())) {}

  void emitItem(Value item) {
    beginItem(item);
    Value tile = tileOf(item);
    SmallVector<Value> at = placeOf(tile, ArrayRef(dims_).slice(1, 2));
    Sandwich transform(math_, matrices_.output, matrices_.outputs, type_);
    Value buffer = emitter_.buffer(root_.getX());
    forChannels([&](Value channel, Value mask) {
      SmallVector<Value> x;
      for (int64_t plane = 0; plane < frequencies(); ++plane) {
        Value row = math_.add(math_.mul(tiles_, plane), tile);
        x.push_back(emitter_.load(buffer, element_, math_.add(math_.mul(row, channels_), channel),
                                  lanes_, mask));
      }
      SmallVector<Value> y = transform.apply(x);
      if (isa<IntegerType>(element_))
        llvm::transform(y, y.begin(), [&](Value value) { return unscaled(value); });
      Value bias;
      if (!isa<NoneType>(root_.getBias().getType()))
        bias = emitter_.element(root_.getBias(), {{channel}, lanes_, mask});
      for (int64_t i = 0; i < matrices_.outputs; ++i)
        for (int64_t j = 0; j < matrices_.outputs; ++j) {
          Value sum = y[i * matrices_.outputs + j];
          if (bias)
            sum = math_.builder.create<arith::AddFOp>(math_.location, sum, bias);
          Position position{
              {at[0], math_.add(at[1], i), math_.add(at[2], j), channel}, lanes_, mask};
          whereInside(i, j, position, [&] { storePixel(position, sum); });
        }
    });
  }

private:
  Value unscaled(Value value) {
    Unscaling off = unscaling(matrices_.factor);
    auto &builder = math_.builder;
    auto splat = [&](int64_t number) {
      return builder.create<arith::ConstantOp>(
          math_.location,
          DenseElementsAttr::get(type_, builder.getI32IntegerAttr(int32_t(number))));
    };
    if (off.inverse != 1)
      value = builder.create<arith::MulIOp>(math_.location, value, splat(off.inverse));
    return builder.create<arith::ShRSIOp>(math_.location, value, splat(off.twos));
  }

  /// The last tiles reach out of the image unless its size is a multiple of theirs.
  void whereInside(int64_t i, int64_t j, const Position &position,
                   llvm::function_ref<void()> body) {
    auto always = [&](int64_t offset, int64_t size) { // negative: only the run knows
      return offset == 0 ||
             (size >= 0 && (size % matrices_.outputs == 0 || offset < size % matrices_.outputs));
    };
    Value inside;
    if (!always(i, root_.getImage()[0]))
      inside = math_.less(position.indices[1], dims_[1]);
    if (!always(j, root_.getImage()[1])) {
      Value fits = math_.less(position.indices[2], dims_[2]);
      inside =
          inside ? Value(math_.builder.create<arith::AndIOp>(math_.location, inside, fits)) : fits;
    }
    if (inside)
      emitIf(math_, inside, body);
    else
      body();
  }

  void storePixel(const Position &position, Value sum) {
    emitter_.define(root_.getY(), [sum](const Position &) { return sum; });
    ArrayRef<Value> pixel = ArrayRef(position.indices).drop_back();
    storeResults(emitter_, kernel_, results_, position,
                 math_.linear(pixel, ArrayRef(dims_).drop_back()));
  }

  graph::KernelOp kernel_;
  graph::WinogradOutputOp root_;
  ValueRange results_;
  Value tiles_;
  SmallVector<Value> dims_;
};

template <typename Emitter>
void emitItems(IndexMath &math, Value begin, Value end, Emitter emitter) {
  emitFor(math, begin, end, math.constant(1), [&](Value item) { emitter.emitItem(item); });
}

} // namespace

bool isWinogradTransform(Operation *op) {
  if (!isa<graph::WinogradInputOp, graph::WinogradOutputOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || ShapedType::isDynamic(type.getShape().back()))
    return false;
  if (type.getElementType().isF32())
    return true;
  bool isInput = isa<graph::WinogradInputOp>(op);
  bool hasBias = !isInput && !isa<NoneType>(op->getOperand(1).getType());
  auto integer = [&](StringRef name) { return op->getAttrOfType<IntegerAttr>(name).getInt(); };
  return type.getElementType().isSignlessInteger(isInput ? 16 : 32) && !hasBias &&
         hasWholeToomCook(integer("outputs"), integer("taps"));
}

static KernelParts winogradParts(graph::KernelOp kernel, Operation *root, const Machine &machine,
                                 const Point &asked) {
  KernelParts parts;
  auto from = cast<RankedTensorType>(root->getOperand(0).getType());
  int64_t channels = from.getShape().back();
  int64_t lanes = machine.lanes(from.getElementType().getIntOrFloatBitWidth() / 8);
  int64_t ofTile = partsOf(channels, lanes, asked);
  parts.summary = isa<graph::WinogradInputOp>(root) ? "winograd input" : "winograd output";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    // The planes of frequencies are the larger side, in each direction.
    bool isInput = isa<graph::WinogradInputOp>(root);
    Type planes = isInput ? root->getResult(0).getType() : root->getOperand(0).getType();
    SmallVector<Value> dims = dimValues(math, sizes, planes);
    Value work = math.div(math.mul(dims[0], dims[2]), math.constant(2 * ofTile));
    Point chosen;
    chosen.set(choice::itemVectors, llvm::divideCeil(llvm::divideCeil(channels, lanes), ofTile));
    return {math.mul(dims[1], ofTile), grainOf(math, work), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    if (auto input = dyn_cast<graph::WinogradInputOp>(root))
      return emitItems(emitter.math, begin, end,
                       InputEmitter(emitter, kernel, input, machine, asked, results));
    emitItems(emitter.math, begin, end,
              OutputEmitter(emitter, kernel, cast<graph::WinogradOutputOp>(root), machine, asked,
                            results));
  };
  return parts;
}

const Template kWinograd = {
    .name = algorithm::winograd,
    .mayBeRoot = isWinogradTransform,
    .isRoot = isWinogradTransform,
    .parts = [](graph::KernelOp kernel, Operation *main, const Machine &machine,
                const Point &asked) { return winogradParts(kernel, main, machine, asked); },
    .choices = kChoices,
    .space =
        [](graph::KernelOp, Operation *main, const Machine &machine, Space &space) {
          auto from = cast<RankedTensorType>(main->getOperand(0).getType());
          int64_t bytes = from.getElementType().getIntOrFloatBitWidth() / 8;
          space.addDoubling(choice::itemVectors,
                            llvm::divideCeil(from.getShape().back(), machine.lanes(bytes)));
        },
    .storesAtPitch = [](Operation *main) { return isa<graph::WinogradOutputOp>(main); },
    .multiplies = true,
};

} // namespace tensmith::kernel
