// Tiles as code; see FourierTileEmitter.h.
#include "compiler/targets/cpu/templates/FourierTileEmitter.h"

#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::kernel {

/// x + 0 is x.
static constexpr arith::FastMathFlags kAnySign = arith::FastMathFlags::nsz;

Value VectorArithmetic::add(Value a, Value b) {
  return math_.builder.create<arith::AddFOp>(math_.location, a, b, kAnySign);
}

Value VectorArithmetic::sub(Value a, Value b) {
  return math_.builder.create<arith::SubFOp>(math_.location, a, b, kAnySign);
}

Value VectorArithmetic::negate(Value a) {
  return math_.builder.create<arith::NegFOp>(math_.location, a);
}

Value VectorArithmetic::scale(double factor, Value a) {
  return factor == 0 ? splat(0) : multiply(splat(factor), a);
}

Value VectorArithmetic::multiply(Value a, Value b) {
  return math_.builder.create<arith::MulFOp>(math_.location, a, b);
}

Value VectorArithmetic::multiplyAdd(Value a, Value b, Value to) {
  return emitMultiplyAdd(math_.builder, math_.location, a, false, b, false, to);
}

Value VectorArithmetic::splat(double number) {
  return math_.builder.create<arith::ConstantOp>(
      math_.location, DenseElementsAttr::get(type_, math_.builder.getF32FloatAttr(float(number))));
}

Value fourierImage(Operation *root) {
  bool isMade =
      isa<graph::FourierOutputOp, graph::FourierImageGradientOp, graph::FourierWeightsGradientOp>(
          root);
  return isMade ? root->getResult(0) : root->getOperand(0);
}

int64_t fourierChannels(Operation *root) {
  return cast<RankedTensorType>(fourierImage(root).getType()).getShape().back();
}

/// The window of weights, with what lies between its taps.
static SmallVector<int64_t> windowOfWeights(Operation *root) {
  auto dilations = root->getAttrOfType<DenseI64ArrayAttr>("dilations").asArrayRef();
  SmallVector<int64_t> window;
  auto type = cast<RankedTensorType>(fourierImage(root).getType());
  for (auto [size, step] : llvm::zip_equal(type.getShape().drop_front().drop_back(), dilations))
    window.push_back((size - 1) * step + 1);
  return window;
}

FourierShape FourierShape::of(Operation *root) {
  auto list = [&](StringRef name) {
    auto attribute = root->getAttrOfType<DenseI64ArrayAttr>(name);
    return attribute ? attribute.asArrayRef() : ArrayRef<int64_t>();
  };
  bool isWeights = isa<graph::FourierChangingWeightsOp, graph::FourierWeightsGradientOp>(root);
  SmallVector<int64_t> window(list("window"));
  if (isWeights)
    window = windowOfWeights(root);
  FourierShape shape{*FourierTile::of(list("tile"), window), {}, {}};
  if (auto group = root->getAttrOfType<IntegerAttr>("group"))
    shape.group = group.getInt();
  shape.pads.assign(window.size(), 0);
  if (isWeights) {
    shape.outputs.assign(window.size(), 1);
    return shape;
  }
  shape.outputs.assign(list("image").begin(), list("image").end());
  if (shape.outputs.empty()) {
    auto type = cast<RankedTensorType>(root->getOperand(0).getType());
    shape.outputs = SmallVector<int64_t>(type.getShape().drop_front().drop_back());
  }
  for (size_t dim = 0; dim < list("pads").size() / 2; ++dim) {
    shape.pads[dim] = list("pads")[dim];
    shape.outputs[dim] += shape.pads[dim] + list("pads")[dim + window.size()] - window[dim] + 1;
  }
  return shape;
}

FourierTileEmitter::FourierTileEmitter(ElementEmitter &emitter, graph::KernelOp kernel,
                                       Operation *root, const Machine &machine, ValueRange results,
                                       Value scratch, Value tilesApart)
    : emitter_(emitter), math_(emitter.math), kernel_(kernel), root_(root),
      shape_(FourierShape::of(root)), tile_(shape_.tile), lanes_(machine.lanes(sizeof(float))),
      channels_{fourierChannels(root) / shape_.group, shape_.group, lanes_},
      element_(math_.builder.getF32Type()), type_(VectorType::get({lanes_}, element_)),
      results_(results), scratch_(scratch), tiles_(tilesApart), do_(math_, type_), transform_(do_) {
}

void FourierTileEmitter::begin(Value item) {
  Value vectors = math_.constant(channels_.vectors());
  takeTile(tiles_ ? math_.rem(item, tiles_) : math_.div(item, vectors));
  takeVector(tiles_ ? math_.div(item, tiles_) : math_.rem(item, vectors));
}

void FourierTileEmitter::takeVector(Value vector) {
  Value ofGroup = math_.constant(channels_.vectorsOfGroup());
  group_ = math_.div(vector, ofGroup);
  within_ = math_.mul(math_.rem(vector, ofGroup), lanes_);
  channel_ = math_.add(math_.mul(group_, channels_.each), within_);
  mask_ = Value();
  if (channels_.each % lanes_ != 0)
    mask_ = emitter_.maskBelow(math_.sub(math_.constant(channels_.each), within_), lanes_);
}

void FourierTileEmitter::takeTile(Value number) {
  number_ = number;
  SmallVector<Value> at =
      math_.delinear(number_, {Value(), math_.constant(tile_.tilesDown(shape_.outputs)),
                               math_.constant(tile_.tilesAcross(shape_.outputs))});
  image_ = at[0];
  top_ = math_.mul(at[1], tile_.down);
  left_ = math_.mul(at[2], tile_.across);
}

Value FourierTileEmitter::placeOf(Value row, Value column) {
  return math_.mul(math_.add(math_.mul(row, pitch(tile_)), column), lanes_);
}

Value FourierTileEmitter::placeOnLine(Value at) {
  return placeOf(math_.rem(at, math_.constant(tile_.rows)),
                 math_.rem(at, math_.constant(tile_.columns)));
}

Value FourierTileEmitter::load(Value place, int64_t columns) {
  return emitter_.load(scratch_, element_, math_.add(place, columns * lanes_), lanes_);
}

void FourierTileEmitter::store(Value place, Value value, int64_t columns) {
  emitter_.store(scratch_, element_, math_.add(place, columns * lanes_), value);
}

void FourierTileEmitter::forEach(Value begin, Value end, llvm::function_ref<void(Value)> body) {
  emitFor(math_, begin, end, math_.constant(1), body);
}

void FourierTileEmitter::forEach(int64_t begin, int64_t end, llvm::function_ref<void(Value)> body) {
  if (begin + 1 == end)
    body(math_.constant(begin));
  else if (begin < end)
    forEach(math_.constant(begin), math_.constant(end), body);
}

FourierTileEmitter::Span FourierTileEmitter::inside(Value start, int64_t count, int64_t low,
                                                    Value size) {
  Value all = math_.constant(count), before = math_.constant(low);
  Value end = math_.add(size, before);
  return {math_.min(math_.sub(before, math_.min(before, start)), all),
          math_.min(math_.sub(end, math_.min(end, start)), all)};
}

void FourierTileEmitter::transformImage(Value x, int64_t countOfRows, int64_t countOfColumns) {
  SmallVector<Value> dims = emitter_.dims(x);
  Span columns = inside(left_, countOfColumns, shape_.pads.back(), dims[dims.size() - 2]);
  if (tile_.isLine) {
    copyLine(x, dims, columns);
    forEach(0, tile_.rows, [&](Value row) { transformRow(placeOf(row, math_.constant(0))); });
    return;
  }
  Span rows = inside(top_, countOfRows, shape_.pads[0], dims[1]);
  auto clear = [&](Value row) {
    clearColumns(row, math_.constant(0), math_.constant(tile_.columns));
  };
  forEach(math_.constant(0), rows.begin, clear);
  forEach(rows.end, math_.constant(tile_.rows), clear);
  forEach(rows.begin, rows.end, [&](Value row) {
    Value y = math_.sub(math_.add(top_, row), math_.constant(shape_.pads[0]));
    clearColumns(row, math_.constant(0), columns.begin);
    clearColumns(row, columns.end, math_.constant(tile_.columns));
    forEach(columns.begin, columns.end, [&](Value column) {
      Value from = math_.sub(math_.add(left_, column), math_.constant(shape_.pads[1]));
      store(placeOf(row, column), pixel(x, dims, {image_, y, from, channel_}));
    });
    transformRow(placeOf(row, math_.constant(0)));
  });
}

void FourierTileEmitter::copyLine(Value x, ArrayRef<Value> dims, const Span &inside) {
  auto clear = [&](Value at) { store(placeOnLine(at), do_.splat(0)); };
  forEach(math_.constant(0), inside.begin, clear);
  forEach(inside.end, math_.constant(tile_.width), clear);
  forEach(inside.begin, inside.end, [&](Value at) {
    Value from = math_.sub(math_.add(left_, at), math_.constant(shape_.pads[0]));
    store(placeOnLine(at), pixel(x, dims, {image_, from, channel_}));
  });
}

void FourierTileEmitter::clearColumns(Value row, Value begin, Value end) {
  forEach(begin, end, [&](Value column) { store(placeOf(row, column), do_.splat(0)); });
}

Value FourierTileEmitter::pixel(Value x, ArrayRef<Value> dims, ArrayRef<Value> at) {
  return emitter_.load(emitter_.buffer(x), element_, math_.linear(at, dims), lanes_, mask_);
}

void FourierTileEmitter::transformRow(Value row) {
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

void FourierTileEmitter::turnRowBack(Value row, int64_t wanted) {
  Complexes frequencies;
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

void FourierTileEmitter::forColumns(int64_t parts, llvm::function_ref<void(const Column &)> body) {
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

/// Of a column, so many rows below its first number.
static Value below(IndexMath &math, Value place, int64_t row, int64_t pitch, int64_t lanes) {
  return math.add(place, row * pitch * lanes);
}

FourierTileEmitter::Complexes FourierTileEmitter::frequenciesOf(const Column &column) {
  Complexes numbers;
  Transform::Numbers reals;
  for (int64_t row = 0; row < tile_.rows; ++row) {
    Value place = below(math_, column.place, row, pitch(tile_), lanes_);
    reals.push_back(load(place));
    if (!column.isReal)
      numbers.push_back({reals.back(), load(place, 1)});
  }
  return column.isReal ? transform_.forward(reals) : transform_.transform(numbers, -1);
}

void FourierTileEmitter::storeColumn(const Column &column, const Complexes &frequencies,
                                     int64_t wanted) {
  auto place = [&](int64_t row) { return below(math_, column.place, row, pitch(tile_), lanes_); };
  if (column.isReal) {
    auto numbers = transform_.inverse(frequencies, tile_.rows);
    for (int64_t row = 0; row < wanted; ++row)
      store(place(row), numbers[size_t(row)]);
    return;
  }
  auto numbers = transform_.transform(frequencies, 1);
  for (int64_t row = 0; row < wanted; ++row) {
    store(place(row), numbers[size_t(row)].re);
    store(place(row), *numbers[size_t(row)].im, 1);
  }
}

void FourierTileEmitter::storeImage(Value y, Value bias) {
  Value addend;
  if (!isa<NoneType>(bias.getType()))
    addend = emitter_.element(bias, {{channel_}, lanes_, mask_});
  Value columns = math_.min(math_.constant(tile_.across),
                            math_.sub(math_.constant(shape_.outputs.back()), left_));
  if (tile_.isLine)
    return storeLine(y, addend, columns);
  Value rows =
      math_.min(math_.constant(tile_.down), math_.sub(math_.constant(shape_.outputs[0]), top_));
  forEach(math_.constant(0), rows, [&](Value row) {
    turnRowBack(placeOf(row, math_.constant(0)), tile_.across);
    forEach(math_.constant(0), columns, [&](Value column) {
      Value sum = load(placeOf(row, column));
      storeElements(y, addend ? do_.add(sum, addend) : sum,
                    {image_, math_.add(top_, row), math_.add(left_, column), channel_});
    });
  });
}

void FourierTileEmitter::storeLine(Value y, Value addend, Value columns) {
  forEach(0, tile_.rows,
          [&](Value row) { turnRowBack(placeOf(row, math_.constant(0)), tile_.columns); });
  forEach(math_.constant(0), columns, [&](Value at) {
    Value sum = load(placeOnLine(at));
    storeElements(y, addend ? do_.add(sum, addend) : sum, {image_, math_.add(left_, at), channel_});
  });
}

void FourierTileEmitter::storeElements(Value y, Value made, ArrayRef<Value> at) {
  Position position{SmallVector<Value>(at), lanes_, mask_};
  emitter_.define(y, [made](const Position &) { return made; });
  auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
  SmallVector<Value> elements;
  for (Value value : yield.getValues())
    elements.push_back(emitter_.element(value, position));
  Value offset = math_.linear(at, emitter_.dims(y));
  for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results_))
    emitter_.store(pointer, getElementTypeOrSelf(value.getType()), offset, element, mask_);
}

Value FourierTileEmitter::planePlace(Value tiles, Value plane) {
  Value row = math_.add(math_.mul(plane, channels_.group), group_);
  row = math_.add(math_.mul(row, tiles), number_);
  return math_.add(math_.mul(row, channels_.each), within_);
}

Value FourierTileEmitter::planeStep(Value tiles) {
  return math_.mul(tiles, channels_.each * channels_.group);
}

void FourierTileEmitter::storePlanes(
    llvm::function_ref<std::array<Value, 3>(const Complex &)> put) {
  Value planes = root_->getResult(0);
  forColumns(kFourierThirds, [&](const Column &column) {
    auto frequencies = frequenciesOf(column);
    auto storePlane = [&](int64_t plane, Value value) {
      Value of = math_.mul(math_.add(column.plane, plane), channels_.group);
      storeElements(planes, value, {math_.add(of, group_), number_, within_});
    };
    auto next = frequencies.begin();
    forFrequencies(column, kFourierThirds, [&](int64_t plane, bool isReal) {
      Complex number = *next++;
      if (isReal)
        return storePlane(plane, number.re);
      for (auto [part, value] : llvm::enumerate(put(number)))
        storePlane(plane + int64_t(part), value);
    });
  });
}

void FourierTileEmitter::turnPlanesBack(llvm::function_ref<Complex(ArrayRef<Value>)> take,
                                        int64_t wanted) {
  Value tiles = emitter_.dims(root_->getOperand(0))[1], step = planeStep(tiles);
  Value products = emitter_.buffer(root_->getOperand(0));
  forColumns(kFourierThirds, [&](const Column &column) {
    Value first = planePlace(tiles, column.plane);
    auto product = [&](int64_t plane) {
      Value at = math_.add(first, math_.mul(step, plane));
      return emitter_.load(products, element_, at, lanes_, mask_);
    };
    Complexes frequencies;
    forFrequencies(column, kFourierThirds, [&](int64_t plane, bool isReal) {
      if (isReal) {
        frequencies.push_back({product(plane), {}});
        return;
      }
      SmallVector<Value, 3> parts{product(plane), product(plane + 1), product(plane + 2)};
      frequencies.push_back(take(parts));
    });
    storeColumn(column, frequencies, wanted);
  });
}

} // namespace tensmith::kernel
