// Convolutions of all kinds.
#include "frontends/onnx/Bits.h"
#include "frontends/onnx/IntegerProducts.h"
#include "frontends/onnx/Windows.h"

namespace tensmith::onnx_import {
namespace {

/// The window of a convolution with weights w.
FailureOr<Window> convolutionWindow(NodeImport &n, size_t w, size_t x = 0) {
  if (failed(n.needRank(x)) || failed(n.needRank(w)))
    return failure();
  if (n.rank(n.input(x)) != n.rank(n.input(w)))
    return n.error("operands x and w have ranks " + llvm::Twine(n.rank(n.input(x))) + " and " +
                   llvm::Twine(n.rank(n.input(w))));
  if (n.rank(n.input(w)) < 2)
    return n.error("operands x and w have fewer than 2 dimensions");
  auto window = windowOf(n, n.input(x), n.input(w));
  if (succeeded(window))
    for (auto [given, own] :
         llvm::zip_equal(window->kernel, ArrayRef(n.dims(n.input(w))).drop_front(2)))
      if (auto known = NodeImport::known(own); known && *known != given)
        return n.error("kernel_shape is not the shape of the weights");
  return window;
}

Value convolve(NodeImport &n, const Window &window, Value x, Value w, Value bias) {
  auto attributes = window.attributes(n);
  attributes.push_back(n.integer("group", n.intAttr("group", 1)));
  return n("graph.conv", {paddedFor(n, window, x), w, bias ? bias : n.none()}, attributes);
}

LogicalResult conv(NodeImport &n) {
  auto window = convolutionWindow(n, 1);
  return failed(window) ? failure()
                        : n.give({convolve(n, *window, n.input(0), n.input(1), n.input(2))});
}

/// A vector of one value for each output channel, along dimension `dim`.
Value ofChannels(NodeImport &n, Value vector, int64_t dim, int64_t rank) {
  bool isVector = vector && n.isRanked(vector) && n.rank(vector) == 1;
  return isVector ? n.alongDimension(vector, dim, rank) : vector;
}

LogicalResult convInteger(NodeImport &n) {
  auto window = convolutionWindow(n, 1);
  if (failed(window))
    return failure();
  int64_t rank = n.rank(n.input(1));
  Value x = shifted(n, n.input(0), n.input(2));
  Value w = shifted(n, n.input(1), ofChannels(n, n.input(3), 0, rank));
  return n.give({convolve(n, *window, x, w, Value())});
}

/// Operands: x, its scale and zero point; w, the same; y's scale and zero point; bias.
LogicalResult qlinearConv(NodeImport &n) {
  if (n.inputCount() < 8)
    return n.error("has " + llvm::Twine(n.inputCount()) + " operands, not 8 or 9");
  auto window = convolutionWindow(n, 3);
  if (failed(window))
    return failure();
  int64_t rank = n.rank(n.input(3));
  Value x = shifted(n, n.input(0), n.input(2));
  Value w = shifted(n, n.input(3), ofChannels(n, n.input(5), 0, rank));
  Value sum = convolve(n, *window, x, w, n.input(8));
  Value scale = n.mul(widened(n, n.input(1)), widened(n, ofChannels(n, n.input(4), 1, rank)));
  return n.give({requantized(n, sum, scale, n.input(6), n.input(7))});
}

/// What a transposed convolution takes off both sides of its sums, and adds behind them.
struct Trimming {
  Window window;
  Ints extra;
  /// The sizes that the result shall have where only the run tells how much is to be taken off, as
  /// expressions and as i64 scalars; empty: window and extra say it.
  SmallVector<AffineExpr> sizes;
  SmallVector<Value> values;

  void ask(AffineExpr size, Value value) {
    sizes.push_back(size);
    values.push_back(value);
  }
};

/// The first of both parts that a padding has; the odd one is at the end for SAME_UPPER alone.
int64_t firstOf(int64_t total, bool upper) { return upper ? total / 2 : total - total / 2; }

/// Pads such that the result has the given size, or the operand's times the stride.
LogicalResult trimTo(NodeImport &n, ArrayRef<int64_t> result, Trimming &trimming) {
  Window &window = trimming.window;
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  size_t spatial = window.kernel.size();
  auto dims = n.dims(n.input(0));
  bool upper = automatic == "SAME_UPPER";
  if (result.empty() && !upper && automatic != "SAME_LOWER")
    return success();
  if (!result.empty() && result.size() != spatial)
    return n.error("output_shape has " + llvm::Twine(result.size()) + " sizes for " +
                   llvm::Twine(spatial) + " dimensions");
  auto isOpen = [](AffineExpr size) { return !NodeImport::known(size); };
  auto kernel = n.dims(n.input(1));
  if (llvm::any_of(ArrayRef(kernel).drop_front(2), isOpen) ||
      (!result.empty() && llvm::any_of(ArrayRef(dims).drop_front(2), isOpen))) {
    window.pads.assign(2 * spatial, 0);
    for (size_t dim = 0; dim < spatial; ++dim)
      if (result.empty())
        trimming.ask(n.graph.shapes.simplify(dims[2 + dim] * window.strides[dim]),
                     n.mul(n.sizeOf(n.input(0), int64_t(2 + dim)), double(window.strides[dim])));
      else
        trimming.ask(n.size(result[dim]), n.integerScalar(result[dim]));
    return success();
  }
  for (size_t dim = 0; dim < spatial; ++dim) {
    int64_t &extra = trimming.extra[dim], stride = window.strides[dim];
    int64_t total = window.reach(dim) + extra - stride; // for a result of stride * size
    if (!result.empty())
      total = stride * (*NodeImport::known(dims[2 + dim]) - 1) + extra + window.reach(dim) -
              result[dim];
    if (total < 0)
      extra -= total; // a larger result than there are elements: zeros at its end
    total = std::max<int64_t>(total, 0);
    window.pads[dim] = firstOf(total, upper);
    window.pads[spatial + dim] = total - window.pads[dim];
  }
  return success();
}

/// The sums with as much taken off in front, and off or added behind, that the sizes are those
/// asked for.
Value trimmed(NodeImport &n, const Trimming &trimming, Value sums) {
  if (!sums || trimming.sizes.empty())
    return sums;
  bool upper = n.stringAttr("auto_pad", "NOTSET") == "SAME_UPPER";
  auto sizes = n.dims(sums);
  SmallVector<Value> lows(sizes.size()), highs(sizes.size());
  for (auto [i, size] : llvm::enumerate(trimming.sizes)) {
    size_t dim = 2 + i;
    Value over = n.sub(n.sizeOf(sums, int64_t(dim)), trimming.values[i]);
    Value total = n("graph.max", {over, n.integerScalar(0)});
    Value first = n.div(n.add(total, upper ? 0.0 : 1.0), n.integerScalar(2));
    lows[dim] = n.unary("graph.neg", first);
    highs[dim] = n.sub(first, over);
    sizes[dim] = size;
  }
  return padTo(n, sums, lows, highs, sizes);
}

LogicalResult convTranspose(NodeImport &n) {
  // The convolution's own automatic padding is not this operator's.
  if (failed(n.needRank(0)) || failed(n.needRank(1)))
    return failure();
  int64_t rank = n.rank(n.input(0)), spatial = rank - 2;
  if (spatial < 1 || n.rank(n.input(1)) != rank)
    return n.error("operands x and w have ranks " + llvm::Twine(rank) + " and " +
                   llvm::Twine(n.rank(n.input(1))));
  size_t count = size_t(spatial);
  Trimming trimming;
  Window &window = trimming.window;
  window.kernel = kernelOf(n, n.input(1));
  window.strides = n.intsAttr("strides", Ints(count, 1));
  window.dilations = n.intsAttr("dilations", Ints(count, 1));
  window.pads = n.intsAttr("pads", Ints(2 * count, 0));
  trimming.extra = n.intsAttr("output_padding", Ints(count, 0));
  if (window.strides.size() != count || window.dilations.size() != count ||
      window.pads.size() != 2 * count || trimming.extra.size() != count)
    return n.error("strides, dilations, pads or output_padding are not those of " +
                   llvm::Twine(spatial) + " spatial dimensions");
  if (failed(trimTo(n, n.intsAttr("output_shape"), trimming)))
    return failure();
  auto attributes = window.attributes(n);
  attributes.push_back(n.integers("output_padding", trimming.extra));
  attributes.push_back(n.integer("group", n.intAttr("group", 1)));
  bool isTrimmed = !trimming.sizes.empty();
  Value sums = n("graph.conv_transpose",
                 {n.input(0), n.input(1), isTrimmed ? n.none() : n.maybe(2)}, attributes);
  sums = trimmed(n, trimming, sums);
  if (isTrimmed && n.has(2)) // which what is added behind the sums gets too
    sums = n.add(sums, n.alongDimension(n.input(2), 1, rank));
  return n.give({sums});
}

/// ONNX has the offsets before the bias and the mask.
LogicalResult deformConv(NodeImport &n) {
  auto window = convolutionWindow(n, 1);
  if (failed(window))
    return failure();
  if (window->isPadded())
    return n.error("has no auto_pad in the standard");
  auto attributes = window->attributes(n);
  attributes.push_back(n.integer("group", n.intAttr("group", 1)));
  attributes.push_back(n.integer("offset_group", n.intAttr("offset_group", 1)));
  return n.give({n("graph.deform_conv",
                   {n.input(0), n.input(1), n.input(2), n.maybe(3), n.maybe(4)}, attributes)});
}

constexpr Operator kOperators[] = {
    {"Conv", conv},
    {"ConvInteger", convInteger},
    {"QLinearConv", qlinearConv},
    {"ConvTranspose", convTranspose},
    {"DeformConv", deformConv},
    {"BitConv", bitConv, kTensmith},
};

} // namespace

std::span<const Operator> convolutionOperators() { return kOperators; }

} // namespace tensmith::onnx_import
