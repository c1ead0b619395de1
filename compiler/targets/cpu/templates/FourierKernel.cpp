// A work item is one tile and one vector of channels. Its pixels are copied into the thread's
// memory, where a loop over rows transforms each in place, and one over columns takes them from
// there: straight code for a row and for a column, whatever the tile's size. What is done with a
// column's frequencies at once is what the operators differ in: it is stored as planes, made of
// planes, or multiplied and turned back (base/Fourier.h). Rows beside the image, and outputs beside
// the tile, take no time.
#include "compiler/targets/cpu/templates/FourierKernel.h"

#include "base/Fourier.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Whether neighbouring work items differ in their tiles first, and not in their channels: these
/// share the tile's pixels, those its weights.
static constexpr Choice tilesApart{"tiles_apart", 0, 1};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::tilesApart};

/// Sums and products of vectors, as code.
class VectorArithmetic {
public:
  using Number = Value;

  VectorArithmetic(IndexMath &math, VectorType type) : math_(math), type_(type) {}

  Value add(Value a, Value b) {
    return math_.builder.create<arith::AddFOp>(math_.location, a, b, anySign());
  }
  Value sub(Value a, Value b) {
    return math_.builder.create<arith::SubFOp>(math_.location, a, b, anySign());
  }
  Value negate(Value a) { return math_.builder.create<arith::NegFOp>(math_.location, a); }
  Value scale(double factor, Value a) {
    if (factor == 0)
      return splat(0);
    return math_.builder.create<arith::MulFOp>(math_.location, splat(factor), a);
  }
  Value scaleAdd(double factor, Value a, Value b) { return multiplyAdd(splat(factor), a, b); }
  Value multiply(Value a, Value b) {
    return math_.builder.create<arith::MulFOp>(math_.location, a, b);
  }
  Value multiplyAdd(Value a, Value b, Value to) {
    return emitMultiplyAdd(math_.builder, math_.location, a, false, b, false, to);
  }
  Value splat(double number) {
    return math_.builder.create<arith::ConstantOp>(
        math_.location,
        DenseElementsAttr::get(type_, math_.builder.getF32FloatAttr(float(number))));
  }

private:
  /// x + 0 is x.
  static arith::FastMathFlags anySign() { return arith::FastMathFlags::nsz; }

  IndexMath &math_;
  VectorType type_;
};

using Transform = Fourier<VectorArithmetic>;
using Complex = Transform::Complex;

SmallVector<int64_t> spatialSizes(RankedTensorType type) {
  return SmallVector<int64_t>(type.getShape().drop_front().drop_back());
}

/// How an operator's channels-last image lies under its tiles.
struct ImageShape {
  FourierTile tile;
  SmallVector<int64_t> outputs; // along one or two dimensions
  int64_t group = 1;
};

ImageShape shapeOf(Operation *root) {
  auto list = [&](StringRef name) {
    return root->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
  };
  ImageShape shape{*FourierTile::of(list("tile"), list("window")), {}};
  if (auto group = root->getAttrOfType<IntegerAttr>("group"))
    shape.group = group.getInt();
  if (root->hasAttr("image")) {
    shape.outputs = SmallVector<int64_t>(list("image"));
  } else {
    shape.outputs = spatialSizes(cast<RankedTensorType>(root->getOperand(0).getType()));
    for (auto [dim, window] : llvm::enumerate(list("window")))
      shape.outputs[dim] +=
          list("pads")[dim] + list("pads")[dim + shape.outputs.size()] - window + 1;
  }
  return shape;
}

/// The channels' vectors, none of which lies in two groups.
struct Channels {
  int64_t each, group, lanes;

  int64_t vectorsOfGroup() const { return llvm::divideCeil(each, lanes); }
  int64_t vectors() const { return group * vectorsOfGroup(); }
};

class TileEmitter {
public:
  TileEmitter(ElementEmitter &emitter, graph::KernelOp kernel, Operation *root, int64_t channels,
              const Machine &machine, ValueRange results, Value scratch, Value tilesApart)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), root_(root), shape_(shapeOf(root)),
        tile_(shape_.tile), lanes_(machine.lanes(sizeof(float))),
        channels_{channels / shape_.group, shape_.group, lanes_},
        element_(math_.builder.getF32Type()), type_(VectorType::get({lanes_}, element_)),
        results_(results), scratch_(scratch), tiles_(tilesApart), do_(math_, type_),
        transform_(do_) {}

  /// Numbers of a tile, of which a row and the next don't begin at places of a cache that are the
  /// same.
  static int64_t pitch(const FourierTile &tile) { return tile.columns | 1; }

protected:
  /// Takes an item's tile and vector of channels.
  void begin(Value item) {
    Value vectors = math_.constant(channels_.vectors());
    number_ = tiles_ ? math_.rem(item, tiles_) : math_.div(item, vectors);
    Value vector = tiles_ ? math_.div(item, tiles_) : math_.rem(item, vectors);
    Value ofGroup = math_.constant(channels_.vectorsOfGroup());
    group_ = math_.div(vector, ofGroup);
    within_ = math_.mul(math_.rem(vector, ofGroup), lanes_);
    channel_ = math_.add(math_.mul(group_, channels_.each), within_);
    mask_ = Value();
    if (channels_.each % lanes_ != 0)
      mask_ = emitter_.maskBelow(math_.sub(math_.constant(channels_.each), within_), lanes_);
    SmallVector<Value> at =
        math_.delinear(number_, {Value(), math_.constant(tile_.tilesDown(shape_.outputs)),
                                 math_.constant(tile_.tilesAcross(shape_.outputs))});
    image_ = at[0];
    top_ = math_.mul(at[1], tile_.down);
    left_ = math_.mul(at[2], tile_.across);
  }

  // --- the thread's memory ---

  Value placeOf(Value row, Value column) {
    return math_.mul(math_.add(math_.mul(row, pitch(tile_)), column), lanes_);
  }
  Value load(Value place, int64_t columns = 0) {
    return emitter_.load(scratch_, element_, math_.add(place, columns * lanes_), lanes_);
  }
  void store(Value place, Value value, int64_t columns = 0) {
    emitter_.store(scratch_, element_, math_.add(place, columns * lanes_), value);
  }
  void forEach(Value begin, Value end, llvm::function_ref<void(Value)> body) {
    emitFor(math_, begin, end, math_.constant(1), body);
  }
  void forEach(int64_t begin, int64_t end, llvm::function_ref<void(Value)> body) {
    if (begin + 1 == end)
      body(math_.constant(begin));
    else if (begin < end)
      forEach(math_.constant(begin), math_.constant(end), body);
  }

  // --- rows of pixels ---

  /// Of `count` places along a dimension, from `start` of the padded image on, those inside.
  struct Span {
    Value begin, end;
  };
  Span inside(Value start, int64_t count, int64_t low, Value size) {
    Value all = math_.constant(count), before = math_.constant(low);
    Value end = math_.add(size, before);
    return {math_.min(math_.sub(before, math_.min(before, start)), all),
            math_.min(math_.sub(end, math_.min(end, start)), all)};
  }

  /// The tile's pixels of the image x, as rows of half spectra.
  void transformImage(Value x) {
    SmallVector<Value> dims = emitter_.dims(x);
    auto pads = root_->getAttrOfType<DenseI64ArrayAttr>("pads").asArrayRef();
    Span columns =
        inside(left_, tile_.width, tile_.isLine ? pads[0] : pads[1], dims[dims.size() - 2]);
    if (tile_.isLine) {
      copyLine(x, dims, columns, pads[0]);
      forEach(0, tile_.rows, [&](Value row) { transformRow(placeOf(row, math_.constant(0))); });
      return;
    }
    Span rows = inside(top_, tile_.rows, pads[0], dims[1]);
    auto clear = [&](Value row) {
      clearColumns(row, math_.constant(0), math_.constant(tile_.columns));
    };
    forEach(math_.constant(0), rows.begin, clear);
    forEach(rows.end, math_.constant(tile_.rows), clear);
    forEach(rows.begin, rows.end, [&](Value row) {
      Value y = math_.sub(math_.add(top_, row), math_.constant(pads[0]));
      clearColumns(row, math_.constant(0), columns.begin);
      clearColumns(row, columns.end, math_.constant(tile_.columns));
      forEach(columns.begin, columns.end, [&](Value column) {
        Value from = math_.sub(math_.add(left_, column), math_.constant(pads[1]));
        store(placeOf(row, column), pixel(x, dims, {image_, y, from, channel_}));
      });
      transformRow(placeOf(row, math_.constant(0)));
    });
  }

  void copyLine(Value x, ArrayRef<Value> dims, const Span &inside, int64_t low) {
    auto clear = [&](Value at) { store(placeOnLine(at), do_.splat(0)); };
    forEach(math_.constant(0), inside.begin, clear);
    forEach(inside.end, math_.constant(tile_.width), clear);
    forEach(inside.begin, inside.end, [&](Value at) {
      Value from = math_.sub(math_.add(left_, at), math_.constant(low));
      store(placeOnLine(at), pixel(x, dims, {image_, from, channel_}));
    });
  }

  Value placeOnLine(Value at) {
    return placeOf(math_.rem(at, math_.constant(tile_.rows)),
                   math_.rem(at, math_.constant(tile_.columns)));
  }
  Value pixel(Value x, ArrayRef<Value> dims, ArrayRef<Value> at) {
    return emitter_.load(emitter_.buffer(x), element_, math_.linear(at, dims), lanes_, mask_);
  }
  void clearColumns(Value row, Value begin, Value end) {
    forEach(begin, end, [&](Value column) { store(placeOf(row, column), do_.splat(0)); });
  }

  /// In place; a complex frequency takes the place of two pixels.
  void transformRow(Value row) {
    Transform::Numbers pixels;
    for (int64_t column = 0; column < tile_.columns; ++column)
      pixels.push_back(load(row, column));
    for (auto [at, number] : llvm::enumerate(transform_.forward(pixels))) {
      int64_t column = int64_t(at);
      store(row, number.re, column == 0 ? 0 : 2 * column - 1);
      if (number.im)
        store(row, *number.im, 2 * column);
    }
  }
  void turnRowBack(Value row, int64_t wanted) {
    std::vector<Complex> frequencies;
    for (int64_t column = 0; column < tile_.halfColumns(); ++column) {
      Complex number{load(row, column == 0 ? 0 : 2 * column - 1), {}};
      if (!tile_.isRealColumn(column))
        number.im = load(row, 2 * column);
      frequencies.push_back(number);
    }
    auto pixels = transform_.inverse(frequencies, tile_.columns);
    for (int64_t column = 0; column < wanted; ++column)
      store(row, pixels[size_t(column)], column);
  }

  // --- columns of frequencies ---

  /// A column of the half spectrum: where its first number is, and its first plane.
  struct Column {
    Value place, plane;
    bool isReal;
  };
  void forColumns(int64_t parts, llvm::function_ref<void(const Column &)> body) {
    int64_t last = tile_.halfColumns() - 1;
    forEach(0, tile_.realColumns(), [&](Value number) {
      body({math_.mul(number, (tile_.columns - 1) * lanes_),
            math_.mul(number, tile_.firstPlane(last, parts)), true});
    });
    forEach(1, (tile_.columns + 1) / 2, [&](Value column) {
      Value before = math_.sub(column, math_.constant(1));
      body({placeOf(math_.constant(0), math_.add(math_.mul(before, 2), 1)),
            math_.add(math_.mul(before, parts * tile_.rows),
                      math_.constant(tile_.planesOfColumn(0, parts))),
            false});
    });
  }
  Value rowOf(const Column &column, int64_t row) {
    return math_.add(column.place, row * pitch(tile_) * lanes_);
  }

  /// The kept frequencies of a column.
  std::vector<Complex> frequenciesOf(const Column &column) {
    std::vector<Complex> numbers;
    Transform::Numbers reals;
    for (int64_t row = 0; row < tile_.rows; ++row) {
      reals.push_back(load(rowOf(column, row)));
      if (!column.isReal)
        numbers.push_back({reals.back(), load(rowOf(column, row), 1)});
    }
    return column.isReal ? transform_.forward(reals) : transform_.transform(numbers, -1);
  }
  /// And back, as far as there are outputs.
  void storeColumn(const Column &column, const std::vector<Complex> &frequencies) {
    int64_t wanted = tile_.isLine ? tile_.rows : tile_.down;
    if (column.isReal) {
      auto numbers = transform_.inverse(frequencies, tile_.rows);
      for (int64_t row = 0; row < wanted; ++row)
        store(rowOf(column, row), numbers[size_t(row)]);
      return;
    }
    auto numbers = transform_.transform(frequencies, 1);
    for (int64_t row = 0; row < wanted; ++row) {
      store(rowOf(column, row), numbers[size_t(row)].re);
      store(rowOf(column, row), *numbers[size_t(row)].im, 1);
    }
  }

  /// take(plane, whether it is real), of all that are kept of a column; planes count from its own.
  template <typename Take> void forFrequencies(const Column &column, int64_t parts, Take take) {
    int64_t plane = 0;
    for (int64_t row = 0; row < tile_.keptRows(column.isReal ? 0 : 1); ++row) {
      bool isReal = column.isReal && tile_.isReal(row, 0);
      take(plane, isReal);
      plane += isReal ? 1 : parts;
    }
  }

  // --- the image of outputs ---

  /// Rows of half spectra to pixels, with all that follows.
  void storeImage(Value y, Value bias) {
    Value addend;
    if (!isa<NoneType>(bias.getType()))
      addend = emitter_.element(bias, {{channel_}, lanes_, mask_});
    Value columns = math_.min(math_.constant(tile_.across),
                              math_.sub(math_.constant(shape_.outputs.back()), left_));
    if (tile_.isLine) {
      forEach(0, tile_.rows,
              [&](Value row) { turnRowBack(placeOf(row, math_.constant(0)), tile_.columns); });
      forEach(math_.constant(0), columns, [&](Value at) {
        storePixel(y, placeOnLine(at), addend, {image_, math_.add(left_, at), channel_});
      });
      return;
    }
    Value rows =
        math_.min(math_.constant(tile_.down), math_.sub(math_.constant(shape_.outputs[0]), top_));
    forEach(math_.constant(0), rows, [&](Value row) {
      turnRowBack(placeOf(row, math_.constant(0)), tile_.across);
      forEach(math_.constant(0), columns, [&](Value column) {
        storePixel(y, placeOf(row, column), addend,
                   {image_, math_.add(top_, row), math_.add(left_, column), channel_});
      });
    });
  }

  void storePixel(Value y, Value place, Value addend, ArrayRef<Value> at) {
    Value sum = load(place);
    if (addend)
      sum = do_.add(sum, addend);
    Position position{SmallVector<Value>(at), lanes_, mask_};
    emitter_.define(y, [sum](const Position &) { return sum; });
    auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
    SmallVector<Value> elements;
    for (Value value : yield.getValues())
      elements.push_back(emitter_.element(value, position));
    Value offset = math_.linear(at, emitter_.dims(y));
    for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), offset, element, mask_);
  }

  // --- planes [plane * group, tiles, channels / group] ---

  Value planePlace(Value tiles, Value plane) {
    Value row = math_.add(math_.mul(plane, channels_.group), group_);
    row = math_.add(math_.mul(row, tiles), number_);
    return math_.add(math_.mul(row, channels_.each), within_);
  }
  Value planeStep(Value tiles) { return math_.mul(tiles, channels_.each * channels_.group); }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  Operation *root_;
  ImageShape shape_;
  FourierTile tile_;
  int64_t lanes_;
  Channels channels_;
  Type element_;
  VectorType type_;
  ValueRange results_;
  Value scratch_;
  Value tiles_; // of all images, where neighbouring items differ in them first; null: where not
  VectorArithmetic do_;
  Transform transform_;
  // Of the item.
  Value number_, group_, within_, channel_, mask_, image_, top_, left_;
};

class InputEmitter : TileEmitter {
public:
  using TileEmitter::TileEmitter;

  void emitItem(Value item) {
    auto root = cast<graph::FourierInputOp>(root_);
    begin(item);
    transformImage(root.getX());
    Value tiles = emitter_.dims(root.getY())[1], step = planeStep(tiles);
    forColumns(kFourierThirds, [&](const Column &column) {
      auto frequencies = frequenciesOf(column);
      Value first = planePlace(tiles, column.plane);
      auto put = [&](int64_t plane, Value value) {
        emitter_.store(results_[0], element_, math_.add(first, math_.mul(step, plane)), value,
                       mask_);
      };
      auto next = frequencies.begin();
      forFrequencies(column, kFourierThirds, [&](int64_t plane, bool isReal) {
        Complex number = *next++;
        put(plane, isReal ? number.re : do_.add(number.re, *number.im));
        if (isReal)
          return;
        put(plane + 1, number.re);
        put(plane + 2, *number.im);
      });
    });
  }
};

class OutputEmitter : TileEmitter {
public:
  using TileEmitter::TileEmitter;

  void emitItem(Value item) {
    auto root = cast<graph::FourierOutputOp>(root_);
    begin(item);
    Value tiles = emitter_.dims(root.getX())[1], step = planeStep(tiles);
    Value products = emitter_.buffer(root.getX());
    forColumns(kFourierThirds, [&](const Column &column) {
      Value first = planePlace(tiles, column.plane);
      auto product = [&](int64_t plane) {
        Value at = math_.add(first, math_.mul(step, plane));
        return emitter_.load(products, element_, at, lanes_, mask_);
      };
      std::vector<Complex> frequencies;
      forFrequencies(column, kFourierThirds, [&](int64_t plane, bool isReal) {
        Value p = product(plane);
        if (isReal)
          frequencies.push_back({p, {}});
        else
          frequencies.push_back({do_.sub(p, product(plane + 2)), do_.add(p, product(plane + 1))});
      });
      storeColumn(column, frequencies);
    });
    storeImage(root.getY(), root.getBias());
  }
};

class ConvEmitter : TileEmitter {
public:
  using TileEmitter::TileEmitter;

  void emitItem(Value item) {
    auto root = cast<graph::FourierConvOp>(root_);
    begin(item);
    transformImage(root.getX());
    int64_t channels = channels_.each;
    Value weights = emitter_.buffer(root.getW());
    forColumns(kFourierPairs, [&](const Column &column) {
      auto frequencies = frequenciesOf(column);
      Value first = math_.add(math_.mul(column.plane, channels), channel_);
      auto weight = [&](int64_t plane) {
        return emitter_.load(weights, element_, math_.add(first, plane * channels), lanes_, mask_);
      };
      auto next = frequencies.begin();
      forFrequencies(column, kFourierPairs, [&](int64_t plane, bool isReal) {
        Complex &x = *next++;
        x = isReal ? Complex{do_.multiply(x.re, weight(plane)), {}}
                   : product(x, weight(plane), weight(plane + 1));
      });
      storeColumn(column, frequencies);
    });
    storeImage(root.getY(), root.getBias());
  }

private:
  Complex product(const Complex &x, Value re, Value im) {
    Value sine = do_.negate(do_.multiply(*x.im, im));
    return {do_.multiplyAdd(x.re, re, sine), do_.multiplyAdd(x.re, im, do_.multiply(*x.im, re))};
  }
};

template <typename Emitter>
void emitItems(IndexMath &math, Value begin, Value end, Emitter emitter) {
  emitFor(math, begin, end, math.constant(1), [&](Value item) { emitter.emitItem(item); });
}

/// Of the image that the operator reads, or makes of planes.
int64_t channelsOf(Operation *root) {
  Value image = isa<graph::FourierOutputOp>(root) ? root->getResult(0) : root->getOperand(0);
  return cast<RankedTensorType>(image.getType()).getShape().back();
}

} // namespace

bool isFourierRoot(Operation *op) {
  if (!isa<graph::FourierInputOp, graph::FourierOutputOp, graph::FourierConvOp>(op))
    return false;
  auto isF32 = [](Type type) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    return isa<NoneType>(type) || (ranked && ranked.getElementType().isF32());
  };
  return llvm::all_of(op->getOperandTypes(), isF32) && isF32(op->getResult(0).getType()) &&
         !ShapedType::isDynamic(channelsOf(op)) && channelsOf(op) > 0;
}

/// Of all images.
static Value tilesOf(IndexMath &math, const SizeValues &sizes, Operation *root) {
  ImageShape shape = shapeOf(root);
  bool makesImage = !isa<graph::FourierInputOp>(root);
  Value image = makesImage ? root->getResult(0) : root->getOperand(0);
  return math.mul(dimValues(math, sizes, image.getType())[0], shape.tile.tilesOf(shape.outputs));
}

static KernelParts fourierParts(graph::KernelOp kernel, Operation *root, const Machine &machine,
                                const Point &asked) {
  ImageShape shape = shapeOf(root);
  int64_t lanes = machine.lanes(sizeof(float)), apart = asked[choice::tilesApart].value_or(0);
  Channels channels{channelsOf(root) / shape.group, shape.group, lanes};
  KernelParts parts;
  parts.summary = isa<graph::FourierInputOp>(root)    ? "fourier input"
                  : isa<graph::FourierOutputOp>(root) ? "fourier output"
                                                      : "fourier convolution";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    constexpr int64_t kOperations = 8; // of a number of the tile, at least
    Point chosen;
    chosen.set(choice::tilesApart, apart);
    return {math.mul(tilesOf(math, sizes, root), channels.vectors()),
            grainOf(math, math.constant(shape.tile.numbers() * lanes * kOperations)), chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    int64_t bytes = shape.tile.rows * TileEmitter::pitch(shape.tile) * machine.vectorBytes;
    Value scratch = emitScratch(emitter, math.constant(bytes), begin, end);
    Value tiles = apart ? tilesOf(math, emitter.sizes, root) : Value();
    auto emit = [&](auto items) { emitItems(math, begin, end, items); };
    if (isa<graph::FourierInputOp>(root))
      emit(InputEmitter(emitter, kernel, root, channelsOf(root), machine, results, scratch, tiles));
    else if (isa<graph::FourierOutputOp>(root))
      emit(
          OutputEmitter(emitter, kernel, root, channelsOf(root), machine, results, scratch, tiles));
    else
      emit(ConvEmitter(emitter, kernel, root, channelsOf(root), machine, results, scratch, tiles));
  };
  return parts;
}

const Template kFourier = {
    .name = algorithm::fourier,
    .mayBeRoot = isFourierRoot,
    .isRoot = isFourierRoot,
    .parts = [](graph::KernelOp kernel, Operation *main, const Machine &machine,
                const Point &asked) { return fourierParts(kernel, main, machine, asked); },
    .choices = kChoices,
    .space = [](graph::KernelOp, Operation *, const Machine &,
                Space &space) { space.addAll(choice::tilesApart, 1); },
    .multiplies = true,
};

} // namespace tensmith::kernel
