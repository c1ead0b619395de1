// Convolution, its passes and pooling: shape functions.
#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/UpperBounds.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ConvolutionOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/ConvolutionPassesOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addConvolution() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ConvolutionOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ConvolutionPassesOps.cpp.inc"
      >();
}

namespace {

struct Window {
  ArrayRef<int64_t> strides, pads, dilations;
};

/// (V3), and one stride, dilation and pair of pads for each spatial dimension.
LogicalResult checkWindow(Inference &infer, const Window &window, size_t spatial) {
  if (window.strides.size() != spatial || window.dilations.size() != spatial ||
      window.pads.size() != 2 * spatial)
    return infer.error() << "(V3) has not one stride and dilation and two pads for each of "
                         << spatial << " spatial dimensions";
  for (size_t dim = 0; dim < spatial; ++dim)
    if (window.strides[dim] <= 0 || window.dilations[dim] <= 0)
      return infer.error() << "(V3) strides and dilations are not all positive";
  return success();
}

/// How far windows can move along one dimension.
AffineExpr windowSpan(AffineExpr size, AffineExpr kernel, const Window &window, size_t dim,
                      size_t spatial) {
  return size + window.pads[dim] + window.pads[spatial + dim] -
         (kernel - 1) * window.dilations[dim] - 1;
}

/// The same rounded up, of a size that only the run knows. A window is left out that starts beyond
/// the input and its low padding: there are no more than ceil((size + low) / stride) of the others.
/// Both numbers are quotients by the stride whose numerators differ by a constant, so that which is
/// less is known.
AffineExpr windowCountRoundedUp(Inference &infer, AffineExpr size, AffineExpr span,
                                const Window &window, size_t dim) {
  int64_t stride = window.strides[dim];
  AffineExpr starts = size + window.pads[dim], all = span + stride;
  auto more = infer.known(all - starts);
  if (!more || *more > stride) // padding as large as the window: several may be left out, or none
    return freshAtMost(infer, "pool", all.ceilDiv(stride));
  return infer.shapes.simplify((*more < 0 ? all : starts).ceilDiv(stride));
}

/// Number of windows along one dimension; null where there is none. Of a size that only the run
/// knows it is rounded down. Rounded up there is a window that reaches beyond the image by less
/// than a stride, and that may be the only one.
AffineExpr windowCount(Inference &infer, AffineExpr size, AffineExpr kernel, const Window &window,
                       size_t dim, size_t spatial, bool ceilMode) {
  int64_t low = window.pads[dim], high = window.pads[spatial + dim], stride = window.strides[dim];
  AffineExpr span = windowSpan(size, kernel, window, dim, spatial);
  auto n = infer.known(size), room = infer.known(span);
  int64_t beyond = ceilMode ? stride - 1 : 0;
  std::string message =
      "(V4) the window reaches over {a} elements of an image that has {b} with its pads";
  if (beyond)
    message += " and what rounding up adds";
  if (failed(infer.requireAtMost(infer.constant(1), kernel, "(V4) the window is empty")) ||
      failed(infer.requireAtMost(infer.shapes.simplify(size - span + low + high),
                                 infer.shapes.simplify(size + low + high + beyond), message)))
    return {};
  if (!room)
    return infer.size(infer.shapes.simplify(span.floorDiv(stride) + 1));
  int64_t count = (ceilMode ? (*room + stride - 1) / stride : *room / stride) + 1;
  // A window that starts beyond the input and its low padding is left out.
  if (ceilMode && n && (count - 1) * stride >= *n + low)
    --count;
  return infer.constant(count);
}

LogicalResult checkLayout(Inference &infer, Operation *op, StringRef layout) {
  if (op->hasAttr("channels_last")) // as texts said it once
    return infer.error()
           << "(V5) has the attribute channels_last; write layout = \"channels_last\"";
  if (layout == kChannelsFirst || layout == kChannelsLast)
    return success();
  return infer.error() << "(V5) layout is '" << layout << "', but must be " << kChannelsFirst
                       << " or " << kChannelsLast;
}

template <typename Op>
LogicalResult inferPool(Op op, Inference infer, Type element, StringRef layout) {
  if (failed(checkLayout(infer, op, layout)))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(element);
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims dims = infer.dims(0);
  size_t spatial = dims.size() - 2, first = layout == kChannelsLast ? 1 : 2;
  Window window{op.getStrides(), op.getPads(), op.getDilations()};
  if (failed(checkWindow(infer, window, spatial)) || op.getKernel().size() != spatial)
    return infer.error() << "(V3) has a window of " << op.getKernel().size() << " dimensions for "
                         << spatial;
  for (size_t dim = 0; dim < spatial; ++dim) {
    AffineExpr &size = dims[first + dim], kernel = infer.constant(op.getKernel()[dim]);
    AffineExpr count = windowCount(infer, size, kernel, window, dim, spatial, op.getCeilMode());
    if (!count)
      return failure();
    AffineExpr span = windowSpan(size, kernel, window, dim, spatial);
    size = op.getCeilMode() && !infer.known(span)
               ? infer.size(windowCountRoundedUp(infer, size, span, window, dim))
               : count;
  }
  return infer.give(element, dims);
}

} // namespace

LogicalResult ConvOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(checkLayout(infer, *this, getLayout())))
    return failure();
  Type element = infer.element(0);
  if (getAccumulateI32())
    element = IntegerType::get(getContext(), 32);
  else if (failed(infer.requireSameElement(0, 1, "(V1)")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(element);
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims x = infer.dims(0), w = infer.dims(1);
  if (x.size() != w.size())
    return infer.error() << "(V1) x and w have ranks " << x.size() << " and " << w.size();
  size_t spatial = x.size() - 2, first = isChannelsLast(*this) ? 1 : 2,
         channel = isChannelsLast(*this) ? x.size() - 1 : 1;
  int64_t group = getGroup();
  auto outputs = infer.known(w[0]);
  if (group <= 0 || (outputs && *outputs % group != 0))
    return infer.error() << "(V2) the number of outputs is not a multiple of group " << group;
  if (failed(infer.requireMultiple(w[0], group, "(V2)", "the number of outputs")) ||
      failed(infer.requireEqual(x[channel], w[1] * group, "(V1)",
                                "channels of x and group times those of w")))
    return failure();
  Window window{getStrides(), getPads(), getDilations()};
  if (failed(checkWindow(infer, window, spatial)) || failed(infer.requireBias(2, w[0], "(V1)")))
    return failure();
  x[channel] = w[0];
  for (size_t dim = 0; dim < spatial; ++dim)
    if (AffineExpr &size = x[first + dim];
        !(size = windowCount(infer, size, w[2 + dim], window, dim, spatial, false)))
      return failure();
  return infer.give(element, x);
}

LogicalResult ConvTransposeOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(infer.requireSameElement(0, 1, "(V1)")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims x = infer.dims(0), w = infer.dims(1);
  if (x.size() != w.size())
    return infer.error() << "(V1) x and w have ranks " << x.size() << " and " << w.size();
  size_t spatial = x.size() - 2;
  Window window{getStrides(), getPads(), getDilations()};
  if (failed(checkWindow(infer, window, spatial)) || getOutputPadding().size() != spatial ||
      int64_t(getGroup()) <= 0)
    return infer.error() << "(V3) has not one output padding for each of " << spatial
                         << " spatial dimensions";
  if (failed(infer.requireEqual(x[1], w[0], "(V1)", "channels of x and w")) ||
      failed(infer.requireMultiple(x[1], int64_t(getGroup()), "(V2)", "the number of channels")) ||
      failed(infer.requireBias(2, w[1] * int64_t(getGroup()), "(V1)")))
    return failure();
  x[1] = w[1] * int64_t(getGroup());
  for (size_t dim = 0; dim < spatial; ++dim)
    x[2 + dim] = (x[2 + dim] - 1) * getStrides()[dim] + getOutputPadding()[dim] +
                 (w[2 + dim] - 1) * getDilations()[dim] + 1 - getPads()[dim] -
                 getPads()[spatial + dim];
  return infer.give(infer.element(0), x);
}

LogicalResult ConvWeightsGradientOp::inferResults(ShapeContext &shapes,
                                                  SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (failed(infer.requireSameElement(0, 1, "(V1)")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims x = infer.dims(0), g = infer.dims(1);
  size_t spatial = x.size() - 2;
  int64_t group = getGroup();
  Window window{getStrides(), getPads(), getDilations()};
  if (g.size() != x.size() || getKernel().size() != spatial || group <= 0)
    return infer.error() << "(V1) x and g have ranks " << x.size() << " and " << g.size()
                         << ", the window " << getKernel().size() << " dimensions";
  if (failed(checkWindow(infer, window, spatial)) ||
      failed(infer.requireEqual(x[0], g[0], "(V1)", "images of x and g")) ||
      failed(infer.requireMultiple(x[1], group, "(V2)", "the number of channels")) ||
      failed(infer.requireMultiple(g[1], group, "(V2)", "the number of outputs")))
    return failure();
  Dims w{g[1], shapes.simplify(x[1].floorDiv(group))};
  for (size_t dim = 0; dim < spatial; ++dim) {
    AffineExpr kernel = infer.constant(getKernel()[dim]);
    AffineExpr count = windowCount(infer, x[2 + dim], kernel, window, dim, spatial, false);
    if (!count || failed(infer.requireEqual(count, g[2 + dim], "(V4)",
                                            "positions of the window and those of g")))
      return failure();
    w.push_back(kernel);
  }
  return infer.give(infer.element(0), w);
}

LogicalResult DeformConvOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims x = infer.dims(0), w = infer.dims(1);
  size_t spatial = x.size() - 2;
  Window window{getStrides(), getPads(), getDilations()};
  int64_t group = getGroup(), offsetGroup = getOffsetGroup();
  if (w.size() != x.size() || failed(checkWindow(infer, window, spatial)))
    return infer.error() << "(V1) x and w have ranks " << x.size() << " and " << w.size();
  if (group <= 0 || offsetGroup <= 0)
    return infer.error() << "(V2) group and offset_group are not positive";
  if (failed(infer.requireMultiple(w[0], group, "(V2)", "the number of outputs")) ||
      failed(infer.requireMultiple(x[1], offsetGroup, "(V2)", "the number of channels")) ||
      failed(infer.requireEqual(x[1], w[1] * group, "(V1)",
                                "channels of x and group times those of w")) ||
      failed(infer.requireBias(3, w[0], "(V1)")))
    return failure();
  AffineExpr masks = infer.constant(offsetGroup);
  x[1] = w[0];
  for (size_t dim = 0; dim < spatial; ++dim) {
    masks = masks * w[2 + dim];
    if (!(x[2 + dim] = windowCount(infer, x[2 + dim], w[2 + dim], window, dim, spatial, false)))
      return failure();
  }
  // Each element of the window has its numbers at each position.
  auto requirePlaces = [&](unsigned operand, AffineExpr numbers, StringRef name) {
    if (!infer.present(operand))
      return success();
    if (failed(infer.requireRank(operand, x.size(), x.size(), name)))
      return failure();
    Dims places = x;
    places[1] = numbers;
    for (auto [size, wanted] : llvm::zip_equal(infer.dims(operand), places))
      if (failed(
              infer.requireEqual(size, wanted, "(V1)",
                                 ("sizes of the " + name + " and of its window's places").str())))
        return failure();
    return success();
  };
  if (failed(requirePlaces(2, masks * int64_t(spatial), "offset")) ||
      failed(requirePlaces(4, masks, "mask")))
    return failure();
  return infer.give(infer.element(0), x);
}

LogicalResult MaxPoolOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return inferPool(*this, infer, infer.element(0), getLayout());
}
LogicalResult AveragePoolOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return inferPool(*this, infer, infer.element(0), getLayout());
}
LogicalResult LpPoolOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  return inferPool(*this, infer, infer.element(0), getLayout());
}
LogicalResult MaxPoolIndicesOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return inferPool(*this, Inference(shapes, *this, results), IntegerType::get(getContext(), 64),
                   kChannelsFirst);
}

LogicalResult MaxUnpoolOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 64, "x")))
    return failure();
  Dims x = infer.dims(0);
  size_t spatial = x.size() - 2;
  if (infer.present(2)) {
    auto given = infer.contents(2);
    for (size_t dim = 0; dim < x.size(); ++dim)
      x[dim] = given && given->size() == x.size() ? (*given)[dim] : infer.fresh("unpool");
    return infer.give(infer.element(0), x);
  }
  if (getKernel().size() != spatial || getStrides().size() != spatial ||
      getPads().size() != 2 * spatial)
    return infer.error() << "(V3) has a window of other dimensions than its operand";
  for (size_t dim = 0; dim < spatial; ++dim)
    x[2 + dim] = (x[2 + dim] - 1) * getStrides()[dim] + getKernel()[dim] - getPads()[dim] -
                 getPads()[spatial + dim];
  return infer.give(infer.element(0), x);
}

LogicalResult Col2ImOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 3, 3, "x")) || failed(infer.requireRank(1, 1, 1, "image_shape")))
    return failure();
  Dims x = infer.dims(0);
  auto image = infer.contents(1), block = infer.contents(2);
  auto spatial = infer.known(infer.dims(1)[0]);
  if (!spatial)
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.checkRank(2 + *spatial)))
    return failure();
  Dims result{x[0], block ? shapes.simplify(x[1].floorDiv(shapes.product(*block)))
                          : infer.fresh("channels")};
  for (int64_t dim = 0; dim < *spatial; ++dim)
    result.push_back(image ? (*image)[dim] : infer.fresh("image"));
  return infer.give(infer.element(0), result);
}

} // namespace tensmith::graph
