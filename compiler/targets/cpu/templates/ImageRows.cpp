// Pixels under a convolution's windows; see ImageRows.h.
#include "compiler/targets/cpu/templates/ImageRows.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {

namespace {
constexpr char kZerosSymbol[] = "tensmith_kernel.zeros.";
} // namespace

Value zeroPixel(IndexMath &math, Type imageElement, int64_t channels) {
  auto &builder = math.builder;
  auto module = builder.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  Type element = storageType(imageElement);
  // Images of a kernel differ.
  std::string symbol = kZerosSymbol + std::to_string(channels * element.getIntOrFloatBitWidth());
  auto global = module.lookupSymbol<LLVM::GlobalOp>(symbol);
  if (!global) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto value = builder.getZeroAttr(RankedTensorType::get({channels}, element));
    global =
        builder.create<LLVM::GlobalOp>(math.location, LLVM::LLVMArrayType::get(element, channels),
                                       true, LLVM::Linkage::Internal, symbol, value, 64);
  }
  return builder.create<LLVM::AddressOfOp>(math.location, global);
}

ImageRows::ImageRows(ElementEmitter &emitter, graph::ConvOp conv)
    : emitter_(emitter), math_(emitter.math), conv_(conv) {
  auto weights = cast<RankedTensorType>(conv_.getW().getType());
  window_.assign(weights.getShape().begin() + 2, weights.getShape().end());
  padded_ = llvm::any_of(conv_.getPads(), [](int64_t pad) { return pad != 0; });
  pointwise_ = isPointwise(conv_);
}

void ImageRows::begin(ArrayRef<Value> outputPixels) {
  numbers_.assign(outputPixels.begin(), outputPixels.end());
  SmallVector<Value> out = emitter_.dims(conv_.getY());
  pixels_.clear();
  for (Value number : outputPixels) {
    SmallVector<Value> at = math_.delinear(number, ArrayRef(out).drop_back());
    Pixel pixel{at[0], {}};
    for (size_t dim = 0; dim < window_.size(); ++dim) {
      Value start = math_.mul(at[1 + dim], conv_.getStrides()[dim]);
      pixel.start.push_back(math_.sub(start, math_.constant(conv_.getPads()[dim])));
    }
    pixels_.push_back(pixel);
  }
}

SmallVector<Value> ImageRows::indices(size_t number, ValueRange tap, Value &inside) {
  const Pixel &pixel = pixels_[number];
  auto type = cast<RankedTensorType>(image().getType());
  SmallVector<Value> indices{pixel.image};
  inside = {};
  for (size_t dim = 0; dim < window_.size(); ++dim) {
    Value at = math_.add(pixel.start[dim], math_.mul(tap[dim], conv_.getDilations()[dim]));
    if (padded_) {
      Value fits = math_.less(at, dimValue(math_, emitter_.sizes, type, 1 + dim));
      inside =
          inside ? Value(math_.builder.create<arith::AndIOp>(math_.location, inside, fits)) : fits;
    }
    indices.push_back(at);
  }
  return indices;
}

SmallVector<Value> ImageRows::clampedIndices(size_t number, ValueRange tap, Value &inside) {
  SmallVector<Value> at = indices(number, tap, inside);
  if (inside)
    for (Value &index : llvm::drop_begin(at))
      index = math_.select(inside, index, math_.constant(0));
  return at;
}

Value ImageRows::number(size_t number) {
  if (pointwise_)
    return numbers_[number];
  Value inside;
  SmallVector<Value> tap(window_.size(), math_.constant(0));
  return math_.linear(indices(number, tap, inside),
                      ArrayRef(emitter_.dims(conv_.getX())).drop_back());
}

Value ImageRows::pixel(ArrayRef<Value> indices, Value channel) {
  auto type = cast<RankedTensorType>(image().getType());
  SmallVector<Value> at(indices);
  at.push_back(channel);
  Value pointer = emitter_.pixel(image(), at), inside;
  if (!padded_)
    return pointer;
  for (size_t dim = 0; dim < window_.size(); ++dim) {
    Value fits = math_.less(indices[1 + dim], dimValue(math_, emitter_.sizes, type, 1 + dim));
    inside =
        inside ? Value(math_.builder.create<arith::AndIOp>(math_.location, inside, fits)) : fits;
  }
  return math_.select(inside, pointer, zeros());
}

Value ImageRows::pointer(size_t number, ValueRange tap, Value channel) {
  if (pointwise_)
    return elementPointer(math_, getElementTypeOrSelf(image().getType()),
                          emitter_.pixel(image(), numbers_[number]), channel);
  Value inside;
  SmallVector<Value> at = indices(number, tap, inside);
  at.push_back(channel);
  Value pointer = emitter_.pixel(image(), at);
  if (!inside)
    return pointer;
  return math_.select(inside, pointer, zeros());
}

/// The image's type may not say how many channels it has: (n floordiv 2) of them, where the
/// weights tell that these are 2.
Value ImageRows::zeros() {
  auto weights = cast<RankedTensorType>(conv_.getW().getType());
  return zeroPixel(math_, getElementTypeOrSelf(image().getType()),
                   weights.getDimSize(1) * int64_t(conv_.getGroup()));
}

} // namespace tensmith::kernel
