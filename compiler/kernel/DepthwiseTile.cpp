// Emits the tile of a depthwise convolution; see DepthwiseTile.h.
#include "compiler/kernel/DepthwiseTile.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <map>

using namespace mlir;

namespace tensmith::kernel {

int64_t tapCount(graph::ConvOp conv) {
  int64_t taps = 1;
  for (int64_t size : cast<RankedTensorType>(conv.getW().getType()).getShape().drop_front(2))
    taps *= size;
  return taps;
}

DepthwiseTile::DepthwiseTile(ElementEmitter &emitter, graph::ConvOp root,
                             const MachineShape &machine, int64_t vectors, Finish finish)
    : emitter_(emitter), math_(emitter.math), root_(root), image_(emitter, root),
      finish_(std::move(finish)), vectors_(vectors),
      accumulator_(graph::kernelElementType(getElementTypeOrSelf(root.getType()))),
      lanes_(machine.lanes(accumulator_.getIntOrFloatBitWidth() / 8)),
      outDims_(emitter.dims(root.getY())) {}

void DepthwiseTile::emit(Value first, int64_t height) {
  rows_.clear();
  for (int64_t row = 0; row < height; ++row)
    rows_.push_back(math_.add(first, row));
  image_.begin(rows_);
  findPixels();
  int64_t channels = *constantIndex(outDims_.back());
  int64_t step = vectors_ * lanes_, whole = channels / step * step;
  if (whole)
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(step),
            [&](Value channel) { emitChannels(channel, vectors_, false); });
  for (int64_t channel = whole; channel < channels; channel += lanes_)
    emitChannels(math_.constant(channel), 1, channels - channel < lanes_);
}

/// The pixels under the tile's windows, row by row of the window.
void DepthwiseTile::findPixels() {
  ArrayRef<int64_t> window = image_.window();
  int64_t width = window.back(), stride = root_.getStrides().back(),
          dilation = root_.getDilations().back();
  pixels_.clear();
  for (int64_t line = 0; line < tapCount(root_) / width; ++line) {
    std::map<int64_t, Pixel> byColumn;
    for (int64_t column = 0; column < width; ++column)
      for (size_t row = 0; row < rows_.size(); ++row) {
        int64_t tap = line * width + column;
        Pixel &pixel = byColumn[int64_t(row) * stride + column * dilation];
        if (pixel.uses.empty())
          pixel.pointer = image_.pointer(row, tapIndices(tap), math_.constant(0));
        pixel.uses.push_back({tap, row});
      }
    for (auto &[column, pixel] : byColumn)
      pixels_.push_back(std::move(pixel));
  }
}

SmallVector<Value> DepthwiseTile::tapIndices(int64_t tap) {
  ArrayRef<int64_t> window = image_.window();
  SmallVector<Value> at(window.size());
  for (size_t dim = window.size(); dim-- > 0; tap /= window[dim])
    at[dim] = math_.constant(tap % window[dim]);
  return at;
}

void DepthwiseTile::emitChannels(Value channel, int64_t vectors, bool masked) {
  auto &builder = math_.builder;
  Value mask;
  if (masked)
    mask = emitter_.maskBelow(math_.sub(outDims_.back(), channel), lanes_);
  Type type = VectorType::get({lanes_}, accumulator_);
  Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
  SmallVector<Value> sums(rows_.size() * vectors, zero);
  Type element = getElementTypeOrSelf(imageInMemory(root_).getType());
  Value taps = matchDepthwiseTaps(root_);
  for (const Pixel &pixel : pixels_)
    for (int64_t v = 0; v < vectors; ++v) {
      Value at = math_.add(channel, v * lanes_);
      Value x = emitter_.load(pixel.pointer, element, at, lanes_, mask);
      for (auto [tap, row] : pixel.uses) {
        Value weights = emitter_.element(taps, {{math_.constant(tap), at}, lanes_, mask});
        Value &sum = sums[row * vectors + v];
        sum = emitMultiplyAdd(builder, math_.location, x, false, weights, false, sum);
      }
    }
  for (size_t row = 0; row < rows_.size(); ++row)
    for (int64_t v = 0; v < vectors; ++v)
      finishVector(rows_[row], math_.add(channel, v * lanes_), sums[row * vectors + v], mask);
}

void DepthwiseTile::finishVector(Value row, Value channel, Value sum, Value mask) {
  Position at{math_.delinear(row, ArrayRef(outDims_).drop_back()), lanes_, mask};
  at.indices.push_back(channel);
  if (!isa<NoneType>(root_.getBias().getType())) {
    Value bias = emitter_.element(root_.getBias(), {{channel}, lanes_, mask});
    sum = math_.builder.create<arith::AddFOp>(math_.location, sum, bias);
  }
  emitter_.define(root_.getY(), [sum](const Position &) { return sum; });
  finish_(at, math_.add(math_.mul(row, outDims_.back()), channel));
}

} // namespace tensmith::kernel
