// A depthwise convolution has one product for each tap: it is bound by loads. So a tile is
// neighbouring pixels of one row of the output, which share the vectors of weights, and the input
// pixels where their windows overlap; the pointers to these are found once for all channels. An
// image of bf16 is widened as it is loaded.
#include "compiler/kernel/DepthwiseKernel.h"

#include "compiler/kernel/Blocking.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/ImageRows.h"
#include "compiler/kernel/WindowElement.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <map>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kVectors = 2;  // of channels at a time, unless others are asked for
constexpr int64_t kHeight = 4;   // output pixels of a tile
constexpr int64_t kMaxTaps = 49; // whose pointers are kept

int64_t tapCount(graph::ConvOp conv) {
  int64_t taps = 1;
  for (int64_t size : cast<RankedTensorType>(conv.getW().getType()).getShape().drop_front(2))
    taps *= size;
  return taps;
}

class DepthwiseEmitter {
public:
  DepthwiseEmitter(ElementEmitter &emitter, graph::KernelOp kernel, graph::ConvOp root,
                   const MachineShape &machine, int64_t vectors, ValueRange results)
      : emitter_(emitter), math_(emitter.math), kernel_(kernel), root_(root), image_(emitter, root),
        results_(results), vectors_(vectors),
        accumulator_(graph::kernelElementType(getElementTypeOrSelf(root.getType()))),
        lanes_(machine.lanes(accumulator_.getIntOrFloatBitWidth() / 8)),
        outDims_(emitter.dims(root.getY())) {}

  void emitTile(Value first, int64_t height) {
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

private:
  /// An input pixel, and the products that it is in.
  struct Pixel {
    Value pointer;
    SmallVector<std::pair<int64_t, size_t>> uses; // tap, row of the tile
  };

  /// The pixels under the tile's windows, row by row of the window.
  void findPixels() {
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

  SmallVector<Value> tapIndices(int64_t tap) {
    ArrayRef<int64_t> window = image_.window();
    SmallVector<Value> at(window.size());
    for (size_t dim = window.size(); dim-- > 0; tap /= window[dim])
      at[dim] = math_.constant(tap % window[dim]);
    return at;
  }

  void emitChannels(Value channel, int64_t vectors, bool masked) {
    auto &builder = math_.builder;
    Value mask;
    if (masked)
      mask = emitter_.maskBelow(math_.sub(outDims_.back(), channel), lanes_);
    Type type = VectorType::get({lanes_}, accumulator_);
    Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
    SmallVector<Value> sums(rows_.size() * vectors, zero);
    Type element = getElementTypeOrSelf(storedOperand(root_.getX()).getType());
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
        storeVector(rows_[row], math_.add(channel, v * lanes_), sums[row * vectors + v], mask);
  }

  void storeVector(Value row, Value channel, Value sum, Value mask) {
    Position at{math_.delinear(row, ArrayRef(outDims_).drop_back()), lanes_, mask};
    at.indices.push_back(channel);
    if (!isa<NoneType>(root_.getBias().getType())) {
      Value bias = emitter_.element(root_.getBias(), {{channel}, lanes_, mask});
      sum = math_.builder.create<arith::AddFOp>(math_.location, sum, bias);
    }
    emitter_.define(root_.getY(), [sum](const Position &) { return sum; });
    Value offset = math_.add(math_.mul(row, outDims_.back()), channel);
    auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
    SmallVector<Value> elements;
    for (Value value : yield.getValues())
      elements.push_back(emitter_.element(value, at));
    for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), offset, element, mask);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::KernelOp kernel_;
  graph::ConvOp root_;
  ImageRows image_;
  ValueRange results_;
  int64_t vectors_;
  Type accumulator_;
  int64_t lanes_;
  SmallVector<Value> outDims_, rows_;
  std::vector<Pixel> pixels_;
};

/// A row of the output to each batch, so that no tile lies in two.
Blocking blockingOf(IndexMath &math, const SizeValues &sizes, graph::ConvOp root,
                    const MachineShape &machine, const Schedule &asked) {
  SmallVector<Value> out = dimValues(math, sizes, root.getType());
  Value one = math.constant(1), channels = out.pop_back_val(), columns = out.pop_back_val();
  // Loads bound it, so that a product weighs several of a register tile's.
  Value depth = math.constant(4 * tapCount(root));
  return Blocking::choose(math, machine,
                          {.batch = math.product(out),
                           .rows = columns,
                           .columns = channels,
                           .panels = one,
                           .depth = depth,
                           .rowBytes = math.mul(channels, 4),
                           .height = kHeight},
                          asked);
}

} // namespace

bool isDepthwiseRoot(graph::ConvOp conv) {
  if (!conv.getChannelsLast() || !isDepthwise(conv) ||
      !isa<BlockArgument>(storedOperand(conv.getX())) || !matchDepthwiseTaps(conv))
    return false;
  Type accumulator = graph::kernelElementType(getElementTypeOrSelf(conv.getType()));
  return accumulator && accumulator.isF32() && tapCount(conv) <= kMaxTaps;
}

Template depthwiseTemplate(graph::KernelOp kernel, graph::ConvOp root, const MachineShape &machine,
                           const Schedule &asked) {
  int64_t vectors = asked.panelVectors.value_or(kVectors);
  Template parts;
  parts.summary = "depthwise";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    Blocking blocking = blockingOf(math, sizes, root, machine, asked);
    Schedule chosen = blocking.schedule();
    chosen.panelVectors = vectors;
    return {blocking.items, blocking.grain, chosen};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Blocking blocking = blockingOf(math, emitter.sizes, root, machine, asked);
    DepthwiseEmitter tiles(emitter, kernel, root, machine, vectors, results);
    Value one = math.constant(1);
    emitFor(math, begin, end, one, [&](Value item) {
      Value line = math.mul(math.div(item, blocking.tileBlocks), blocking.rows);
      Value tile = math.mul(math.rem(item, blocking.tileBlocks), blocking.tileBlock);
      Value last = math.min(math.add(tile, blocking.tileBlock), blocking.tiles);
      emitFor(math, tile, last, one, [&](Value number) {
        emitRowTile(math, blocking, number, [&](Value column, int64_t height) {
          tiles.emitTile(math.add(line, column), height);
        });
      });
    });
  };
  return parts;
}

} // namespace tensmith::kernel
