// Rows of A for a register tile; see RowSource.h.
#include "compiler/kernel/RowSource.h"

#include "compiler/kernel/KernelFrame.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {
// Rows of the copy are set apart by more than their length, so that they don't fall into the same
// cache sets.
constexpr int64_t kCopyPadding = 16;
} // namespace

RowSource::RowSource(ElementEmitter &emitter, const Contraction &contraction)
    : emitter_(emitter), math_(emitter.math), contraction_(contraction),
      element_(getElementTypeOrSelf(contraction.left.getType())),
      copies_(!emitter.buffer(contraction.left)) {
  auto type = cast<RankedTensorType>(contraction.left.getType());
  graph::ConvOp conv = contraction_.conv();
  if (!conv) {
    depth_ = dimValue(math_, emitter.sizes, type, type.getRank() - 1);
    return;
  }
  image_.emplace(emitter, conv);
  int64_t channels = cast<RankedTensorType>(conv.getW().getType()).getDimSize(1);
  depth_ = math_.constant(channels);
  bool window = llvm::any_of(image_->window(), [](int64_t size) { return size != 1; });
  copies_ = copies_ || (window && channels < kFewChannels);
  if (!copies_)
    taps_.assign(image_->window().begin(), image_->window().end());
}

int64_t RowSource::elementBytes() const {
  return std::max<int64_t>(storageType(element_).getIntOrFloatBitWidth() / 8, 1);
}

Value RowSource::totalDepth() {
  Value total = depth_;
  if (image_)
    for (int64_t tap : image_->window())
      total = math_.mul(total, tap);
  return total;
}

Value RowSource::bytesPerRow() {
  Value elements = depth_;
  if (graph::ConvOp conv = contraction_.conv())
    for (int64_t stride : conv.getStrides())
      elements = math_.mul(elements, stride);
  return math_.mul(elements, elementBytes());
}

Value RowSource::copyStride() { return math_.add(totalDepth(), kCopyPadding); }

Value RowSource::scratchBytes(int64_t rows) {
  return math_.mul(copyStride(), rows * elementBytes());
}

SmallVector<Value> RowSource::matrixIndices(Value batch, Value row) {
  auto type = cast<RankedTensorType>(contraction_.left.getType());
  if (cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3)
    return math_.delinear(row, ArrayRef(emitter_.dims(contraction_.left)).drop_back());
  // The batch runs over the result's leading dimensions, over some of which A may be broadcast.
  SmallVector<Value> dims = dimValues(math_, emitter_.sizes, contraction_.result());
  Position at{math_.delinear(batch, ArrayRef(dims).drop_back(2))};
  at.indices.append({row, row});
  SmallVector<Value> own = broadcastPosition(math_, at, type).indices;
  own.pop_back();
  own.back() = row;
  return own;
}

void RowSource::beginTile(Value batch, ArrayRef<Value> rows) {
  batch_ = batch;
  bases_.clear();
  if (image_)
    image_->begin(rows);
  if (copies_) {
    image_ ? copyImageRows(batch) : copyMatrixRows(batch, rows);
    for (size_t row = 0; row < rows.size(); ++row)
      bases_.push_back(elementPointer(math_, element_, scratch_, math_.mul(copyStride(), row)));
    return;
  }
  if (image_)
    return;
  SmallVector<Value> dims = emitter_.dims(contraction_.left);
  bool oneMatrix = cast<RankedTensorType>(contraction_.panels.getType()).getRank() == 3;
  for (Value row : rows) {
    Value number =
        oneMatrix ? row : math_.linear(matrixIndices(batch, row), ArrayRef(dims).drop_back());
    bases_.push_back(elementPointer(math_, element_, emitter_.buffer(contraction_.left),
                                    math_.mul(number, depth_)));
  }
}

SmallVector<Value> RowSource::rowPointers(ValueRange tap) {
  if (copies_ || !image_)
    return bases_;
  SmallVector<Value> pointers;
  Value channel = math_.mul(batch_, depth_);
  for (size_t row = 0; row < image_->count(); ++row)
    pointers.push_back(image_->pointer(row, tap, channel));
  return pointers;
}

void RowSource::copyMatrixRows(Value batch, ArrayRef<Value> rows) {
  for (auto [number, row] : llvm::enumerate(rows)) {
    SmallVector<Value> prefix = matrixIndices(batch, row);
    Value base = math_.mul(copyStride(), number);
    emitFor(math_, math_.constant(0), depth_, math_.constant(1), [&](Value k) {
      Position at{prefix};
      at.indices.push_back(k);
      emitter_.store(scratch_, element_, math_.add(base, k),
                     emitter_.element(contraction_.left, at));
    });
  }
}

/// Each row of the copy: the window's pixels side by side, those outside of the image as zeros.
void RowSource::copyImageRows(Value batch) {
  ArrayRef<int64_t> window = image_->window();
  for (size_t row = 0; row < image_->count(); ++row) {
    SmallVector<Value> tap;
    std::function<void(Value)> nest = [&](Value place) {
      if (tap.size() == window.size())
        return copyPixel(row, batch, tap, place);
      int64_t extent = window[tap.size()];
      emitFor(math_, math_.constant(0), math_.constant(extent), math_.constant(1),
              [&](Value index) {
                tap.push_back(index);
                nest(math_.add(math_.mul(place, extent), index));
                tap.pop_back();
              });
    };
    nest(math_.constant(0));
  }
}

void RowSource::copyPixel(size_t row, Value batch, ValueRange tap, Value place) {
  Value inside;
  SmallVector<Value> indices = image_->clampedIndices(row, tap, inside);
  Value base = math_.add(math_.mul(copyStride(), row), math_.mul(place, depth_));
  auto copy = [&](Value channel) {
    Position at{indices};
    at.indices.push_back(math_.add(math_.mul(batch, depth_), channel));
    Value element = emitter_.element(contraction_.left, at);
    if (inside) {
      auto &builder = math_.builder;
      Value zero =
          builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(element.getType()));
      element = math_.select(inside, element, zero);
    }
    emitter_.store(scratch_, element_, math_.add(base, channel), element);
  };
  int64_t channels = *constantIndex(depth_);
  if (channels >= kFewChannels)
    return emitFor(math_, math_.constant(0), depth_, math_.constant(1), copy);
  for (int64_t channel = 0; channel < channels; ++channel)
    copy(math_.constant(channel));
}

} // namespace tensmith::kernel
