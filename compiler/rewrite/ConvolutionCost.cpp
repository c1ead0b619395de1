// Sizes of types; see ConvolutionCost.h.
#include "compiler/rewrite/ConvolutionCost.h"

#include <algorithm>

using namespace mlir;

namespace tensmith::rewrite {

/// Sizes along the image's dimensions. One that only the run knows is counted with what the type
/// says of it for a picture of that size.
static SmallVector<int64_t> imageOf(RankedTensorType type, int64_t usualSize) {
  MLIRContext *context = type.getContext();
  SmallVector<AffineExpr> usual(graph::symbolNames(type).size(),
                                getAffineConstantExpr(usualSize, context));
  SmallVector<int64_t> sizes;
  for (int64_t dim = 1; dim + 1 < type.getRank(); ++dim) {
    AffineExpr size = graph::dimExpression(type, unsigned(dim));
    auto known = size ? dyn_cast<AffineConstantExpr>(size.replaceSymbols(usual)) : nullptr;
    sizes.push_back(std::max<int64_t>(known ? known.getValue() : usualSize, 1));
  }
  return sizes;
}

std::optional<ConvolutionSizes> sizesOfStrideOne(graph::ConvOp conv, int64_t usual) {
  auto x = dyn_cast<RankedTensorType>(conv.getX().getType());
  auto w = dyn_cast<RankedTensorType>(conv.getW().getType());
  auto y = dyn_cast<RankedTensorType>(conv.getType());
  auto isOpen = [](RankedTensorType type) {
    return llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic);
  };
  bool fits = x && w && y && x.getRank() > 2 && graph::isChannelsLast(conv) && w.hasStaticShape() &&
              llvm::all_of(conv.getStrides(), [](int64_t stride) { return stride == 1; }) &&
              !x.isDynamicDim(x.getRank() - 1) && !y.isDynamicDim(x.getRank() - 1);
  if (!fits)
    return std::nullopt;
  return ConvolutionSizes{y.isDynamicDim(0) ? 1 : y.getDimSize(0),
                          x.getShape().back(),
                          y.getShape().back(),
                          int64_t(conv.getGroup()),
                          imageOf(x, usual),
                          imageOf(y, usual),
                          SmallVector<int64_t>(w.getShape().drop_front(2)),
                          isOpen(x) || isOpen(y)};
}

SmallVector<graph::ConvOp> convolutionsOf(func::FuncOp function) {
  SmallVector<graph::ConvOp> convolutions;
  function.walk([&](graph::ConvOp conv) {
    if (!conv->getParentOfType<graph::KernelOp>()) // a call of a library
      convolutions.push_back(conv);
  });
  return convolutions;
}

int64_t bytesOfConstants(func::FuncOp function) {
  int64_t bytes = 0;
  function.walk([&](graph::ConstantOp constant) {
    auto type = cast<ShapedType>(constant.getType());
    if (Type element = graph::kernelElementType(type.getElementType()))
      bytes += type.getNumElements() * int64_t(element.getIntOrFloatBitWidth()) / 8;
  });
  return bytes;
}

} // namespace tensmith::rewrite
