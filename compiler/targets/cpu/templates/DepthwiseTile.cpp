// Emits the tile of a depthwise convolution; see DepthwiseTile.h.
#include "compiler/targets/cpu/templates/DepthwiseTile.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <map>

using namespace mlir;

namespace tensmith::kernel {

bool takesDepthwise(graph::ConvOp conv) {
  if (!graph::isChannelsLast(conv) || !isDepthwise(conv))
    return false;
  Type accumulator = graph::kernelElementType(getElementTypeOrSelf(conv.getType()));
  return accumulator && accumulator.isF32() && tapCount(conv) > 0;
}

namespace {

/// Whether an image of the batch may take more bytes than that.
bool isBeyond(graph::ConvOp conv, int64_t bytes) {
  auto type = cast<RankedTensorType>(imageInMemory(conv).getType());
  ArrayRef<int64_t> image = type.getShape().drop_front();
  return llvm::any_of(image, ShapedType::isDynamic) ||
         ShapedType::getNumElements(image) * type.getElementTypeBitWidth() / 8 > bytes;
}

/// The bits of two halves, the first of which is at `place`.
Value emitPair(IndexMath &math, Value pointer, Value place) {
  constexpr unsigned kAlignment = 2;
  Value address = elementPointer(math, math.builder.getI16Type(), pointer, place);
  return math.builder.create<LLVM::LoadOp>(math.location, math.builder.getI32Type(), address,
                                           kAlignment);
}

} // namespace

DepthwiseTile::DepthwiseTile(ElementEmitter &emitter, graph::ConvOp root, const Machine &machine,
                             int64_t vectors, Finish finish)
    : emitter_(emitter), math_(emitter.math), root_(root), image_(emitter, root),
      finish_(std::move(finish)), vectors_(vectors),
      step_(hasSmallGroups(root) ? stepOfGroups(machine, root) : 1),
      inputs_(cast<RankedTensorType>(root.getW().getType()).getDimSize(1) / step_),
      products_(machine.products(Number::BF16, Number::BF16, Number::F32)),
      weights_(hasSmallGroups(root) ? matchSmallGroupPanels(root) : matchDepthwiseTaps(root)),
      prefetches_(hasSmallGroups(root) && isBeyond(root, machine.l2Bytes / 2)),
      accumulator_(graph::kernelElementType(getElementTypeOrSelf(root.getType()))),
      lanes_(machine.lanes(accumulator_.getIntOrFloatBitWidth() / 8)),
      outDims_(emitter.dims(root.getY())) {}

void DepthwiseTile::emit(Value first, int64_t height) {
  beginPixels(first, height);
  int64_t channels = *constantIndex(outDims_.back());
  int64_t step = vectors_ * lanes_, whole = channels / step * step;
  if (whole)
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(step),
            [&](Value channel) { emitChannels(channel, vectors_, {}); });
  for (int64_t at = whole; at < channels; at += lanes_) {
    Value channel = math_.constant(at);
    emitChannels(channel, 1, channels - at < lanes_ ? maskFrom(channel) : Value());
  }
}

void DepthwiseTile::emitVectors(Value first, int64_t height, Value firstVector, Value lastVector) {
  beginPixels(first, height);
  bool hasRest = *constantIndex(outDims_.back()) % lanes_ != 0;
  emitFor(math_, firstVector, lastVector, math_.constant(1), [&](Value vector) {
    Value channel = math_.mul(vector, lanes_);
    emitChannels(channel, 1, hasRest ? maskFrom(channel) : Value());
  });
}

void DepthwiseTile::beginPixels(Value first, int64_t height) {
  rows_.clear();
  for (int64_t row = 0; row < height; ++row)
    rows_.push_back(math_.add(first, row));
  image_.begin(rows_);
  if (!isLooped())
    findPixels();
}

Value DepthwiseTile::maskFrom(Value channel) {
  return emitter_.maskBelow(math_.sub(outDims_.back(), channel), lanes_);
}

/// The pixels under the tile's windows, row by row of the window.
void DepthwiseTile::findPixels() {
  int64_t width = image_.window().back();
  lines_.clear();
  for (int64_t line = 0; line < tapCount(root_) / width; ++line) {
    lines_.push_back(pixelsOf(tapIndices(line * width), width));
    for (Pixel &pixel : lines_.back())
      for (auto &[tap, row] : pixel.uses)
        tap += line * width;
  }
}

DepthwiseTile::Line DepthwiseTile::pixelsOf(ArrayRef<Value> first, int64_t columns) {
  int64_t stride = root_.getStrides().back(), dilation = root_.getDilations().back();
  std::map<int64_t, Pixel> byColumn;
  for (int64_t column = 0; column < columns; ++column)
    for (size_t row = 0; row < rows_.size(); ++row) {
      Pixel &pixel = byColumn[int64_t(row) * stride + column * dilation];
      if (pixel.uses.empty()) {
        SmallVector<Value> tap(first);
        tap.back() = math_.add(tap.back(), column);
        pixel.pointer = image_.pointer(row, tap, math_.constant(0));
      }
      pixel.uses.push_back({column, row});
    }
  Line line;
  for (auto &[column, pixel] : byColumn)
    line.push_back(std::move(pixel));
  return line;
}

/// A loop that carries sums.
static SmallVector<Value>
emitSums(IndexMath &math, int64_t count, ArrayRef<Value> sums,
         llvm::function_ref<SmallVector<Value>(Value, ArrayRef<Value>)> body) {
  auto &builder = math.builder;
  auto loop = builder.create<scf::ForOp>(math.location, math.constant(0), math.constant(count),
                                         math.constant(1), sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> carried(loop.getRegionIterArgs());
  builder.create<scf::YieldOp>(math.location, body(loop.getInductionVar(), carried));
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> DepthwiseTile::overLines(Value channel, int64_t vectors, Value mask,
                                            ArrayRef<Value> sums) {
  constexpr int64_t kLongestLine = 32, kPiece = 16; // taps that are straight code
  int64_t width = image_.window().back();
  auto overPieces = [&](Value line, ArrayRef<Value> sums) -> SmallVector<Value> {
    if (width <= kLongestLine)
      return overPiece(line, math_.constant(0), width, channel, vectors, mask, sums);
    auto piece = [&](Value number, ArrayRef<Value> sums) {
      return overPiece(line, math_.mul(number, kPiece), kPiece, channel, vectors, mask, sums);
    };
    int64_t pieces = width / kPiece, rest = width % kPiece;
    SmallVector<Value> all = emitSums(math_, pieces, sums, piece);
    return rest
               ? overPiece(line, math_.constant(pieces * kPiece), rest, channel, vectors, mask, all)
               : all;
  };
  return emitSums(math_, tapCount(root_) / width, sums, overPieces);
}

SmallVector<Value> DepthwiseTile::overPiece(Value line, Value column, int64_t columns,
                                            Value channel, int64_t vectors, Value mask,
                                            ArrayRef<Value> sums) {
  ArrayRef<int64_t> window = image_.window();
  SmallVector<Value> extents;
  for (int64_t size : window.drop_back())
    extents.push_back(math_.constant(size));
  SmallVector<Value> first = extents.empty() ? SmallVector<Value>() : math_.delinear(line, extents);
  first.push_back(column);
  firstTap_ = math_.add(math_.mul(line, window.back()), column);
  Line pixels = pixelsOf(first, columns);
  SmallVector<Value> loaded(pixels.size() * vectors), result(sums);
  emitLine(pixels, channel, vectors, 0, mask, loaded, result);
  firstTap_ = {};
  return result;
}

SmallVector<Value> DepthwiseTile::tapIndices(int64_t tap) {
  ArrayRef<int64_t> window = image_.window();
  SmallVector<Value> at(window.size());
  for (size_t dim = window.size(); dim-- > 0; tap /= window[dim])
    at[dim] = math_.constant(tap % window[dim]);
  return at;
}

void DepthwiseTile::emitChannels(Value channel, int64_t vectors, Value mask) {
  SmallVector<Value> sums = beginnings(channel, vectors, mask);
  if (prefetches_)
    prefetchNext(channel);
  if (isLooped())
    sums = overLines(channel, vectors, mask, sums);
  for (const Line &line : lines_) {
    SmallVector<Value> loaded(line.size() * vectors);
    // Inputs one after the other, so that a sum waits for none of its own products.
    for (int64_t input = 0; input < inputs_; ++input)
      emitLine(line, channel, vectors, input, mask, loaded, sums);
  }
  for (size_t row = 0; row < rows_.size(); ++row)
    for (int64_t v = 0; v < vectors; ++v)
      finishVector(rows_[row], math_.add(channel, v * lanes_), sums[row * vectors + v], mask);
}

/// The bias, or zero: to add it to a sum of products would be an operation more.
SmallVector<Value> DepthwiseTile::beginnings(Value channel, int64_t vectors, Value mask) {
  auto &builder = math_.builder;
  Type type = VectorType::get({lanes_}, accumulator_);
  bool hasBias = !isa<NoneType>(root_.getBias().getType());
  SmallVector<Value> sums;
  for (int64_t v = 0; v < vectors; ++v)
    sums.push_back(
        hasBias
            ? emitter_.element(root_.getBias(), {{math_.add(channel, v * lanes_)}, lanes_, mask})
            : Value(builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type))));
  SmallVector<Value> all;
  for (size_t row = 0; row < rows_.size(); ++row)
    llvm::append_range(all, sums);
  return all;
}

void DepthwiseTile::prefetchNext(Value channel) {
  constexpr int kSecondLevel = 2, kData = 1;
  Type element = getElementTypeOrSelf(imageInMemory(root_).getType());
  Value channels = emitter_.dims(imageInMemory(root_)).back();
  int64_t columns = int64_t(rows_.size()) * root_.getStrides().back();
  size_t lines = std::min<size_t>(root_.getStrides().front(), lines_.size());
  for (const Line &line : ArrayRef(lines_).take_back(lines))
    for (const Pixel &pixel : ArrayRef(line).take_back(std::min<size_t>(columns, line.size()))) {
      Value place = math_.add(channel, math_.mul(channels, columns));
      math_.builder.create<LLVM::Prefetch>(math_.location,
                                           elementPointer(math_, element, pixel.pointer, place),
                                           /*rw=*/0, kSecondLevel, kData);
    }
}

void DepthwiseTile::emitLine(const Line &line, Value channel, int64_t vectors, int64_t input,
                             Value mask, MutableArrayRef<Value> loaded,
                             MutableArrayRef<Value> sums) {
  std::map<std::pair<int64_t, int64_t>, Value> weights; // by tap and vector
  for (auto [number, pixel] : llvm::enumerate(line))
    for (int64_t v = 0; v < vectors; ++v) {
      Value at = math_.add(channel, v * lanes_);
      Value x = inputOf(pixel, at, input, mask, loaded[number * vectors + v]);
      for (auto [tap, row] : pixel.uses) {
        Value &w = weights[{tap, v}];
        if (!w)
          w = weightsOf(tap, input, at, mask);
        Value &sum = sums[row * vectors + v];
        sum = step_ == 1 ? emitMultiplyAdd(math_.builder, math_.location, x, false, w, false, sum)
                         : products_->emit(math_.builder, math_.location, x, w, sum);
      }
    }
}

Value DepthwiseTile::inputOf(const Pixel &pixel, Value channel, int64_t input, Value mask,
                             Value &loaded) {
  bool pairs = step_ > 1;
  Type stored = getElementTypeOrSelf(imageInMemory(root_).getType());
  Type element = pairs ? Type(math_.builder.getI16Type()) : stored; // halves as their bits
  int64_t channels = inputs_ * step_;                               // of a group
  if (channels >= lanes_) {
    Value group = math_.mul(math_.div(channel, math_.constant(channels)), channels);
    Value place = math_.add(group, input * step_);
    Value scalar = pairs ? emitPair(math_, pixel.pointer, place)
                         : emitter_.load(pixel.pointer, element, place);
    return emitter_.splat(scalar, lanes_);
  }
  if (!loaded) {
    loaded = emitter_.load(pixel.pointer, element, channel, lanes_, mask);
    loaded = pairs ? asPairs(loaded) : loaded;
  }
  if (inputs_ == 1 && !pairs)
    return loaded;
  SmallVector<int64_t> lanes;
  for (int64_t lane = 0; lane < lanes_; ++lane)
    lanes.push_back(lane / channels * inputs_ + input);
  return math_.builder.create<vector::ShuffleOp>(math_.location, loaded, loaded, lanes);
}

Value DepthwiseTile::weightsOf(int64_t tap, int64_t input, Value channel, Value mask) {
  if (!hasSmallGroups(root_)) {
    Value number = firstTap_ ? math_.add(firstTap_, tap) : math_.constant(tap);
    return emitter_.element(weights_, {{number, channel}, lanes_, mask});
  }
  // Panels are a vector wide, and so begin at the channels before them times the rows.
  int64_t rows = tapCount(root_) * inputs_, width = lanes_ * step_;
  Value place =
      math_.mul(math_.add(math_.mul(channel, rows), (tap * inputs_ + input) * lanes_), step_);
  if (step_ == 1)
    return emitter_.load(emitter_.buffer(weights_), accumulator_, place, width);
  return asPairs(
      emitter_.load(emitter_.buffer(weights_), math_.builder.getI16Type(), place, width));
}

Value DepthwiseTile::asPairs(Value elements) {
  int64_t count = cast<VectorType>(elements.getType()).getNumElements();
  Type pairs = VectorType::get({count / 2}, math_.builder.getI32Type());
  return math_.builder.create<LLVM::BitcastOp>(math_.location, pairs, elements);
}

void DepthwiseTile::finishVector(Value row, Value channel, Value sum, Value mask) {
  Position at{math_.delinear(row, ArrayRef(outDims_).drop_back()), lanes_, mask};
  at.indices.push_back(channel);
  emitter_.define(root_.getY(), [sum](const Position &) { return sum; });
  finish_(at, row);
}

} // namespace tensmith::kernel
