// Operators that the first opsets had as experimental and that the standard has since dropped; old
// converters wrote them, and ONNX Runtime still reads them.
#include "frontends/onnx/Contrib.h"
#include "frontends/onnx/Windows.h"

namespace tensmith::onnx_import {
namespace {

LogicalResult affine(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  return n.give({n.add(n.mul(n.input(0), n.floatAttr("alpha", 1)), n.floatAttr("beta"))});
}

LogicalResult scale(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  return n.give({n.mul(n.input(0), n.floatAttr("scale", 1))});
}

LogicalResult scaledTanh(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  Value inner = n.unary("graph.tanh", n.mul(n.input(0), n.floatAttr("beta", 1)));
  return n.give({n.mul(inner, n.floatAttr("alpha", 1))});
}

/// alpha * log(1 + e^(beta * x)), without overflow.
LogicalResult parametricSoftplus(NodeImport &n) {
  if (failed(needOperands(n, 1)))
    return failure();
  Value x = n.mul(n.input(0), n.floatAttr("beta", 1));
  Value magnitude = n.unary("graph.neg", n.unary("graph.abs", x));
  Value rest = n.unary("graph.log1p", n.unary("graph.exp", magnitude));
  Value above = x ? n("graph.max", {x, n.scalar(x, 0)}) : x;
  return n.give({n.mul(n.add(above, rest), n.floatAttr("alpha", 1))});
}

/// x [batch, channels, height, width] * scale + the channel's bias.
LogicalResult imageScaler(NodeImport &n) {
  auto bias = n.floatsAttr("bias");
  if (failed(needOperands(n, 1, 1)) || n.rank(n.input(0)) != 4 || bias.empty())
    return n.error("operand 0 has not rank 4, or there is no bias");
  HostTensor channels(graph::dataType(n.element(n.input(0))), {int64_t(bias.size()), 1, 1});
  for (size_t i = 0; i < bias.size(); ++i)
    channels.setDouble(int64_t(i), bias[i]);
  return n.give({n.add(n.mul(n.input(0), n.floatAttr("scale", 1)), n.constant(channels))});
}

/// Of a picture whose size only the run tells.
Value croppedOpen(NodeImport &n, const Ints &border, const Ints &size) {
  Value x = n.input(0);
  for (size_t i = 0; i < 2; ++i) {
    auto axis = int64_t(2 + i);
    Value start = n.integerScalar(border[1 - i]);
    Value count = size.size() == 2
                      ? n.integerScalar(size[i])
                      : n.add(n.sizeOf(x, axis), -double(border[1 - i] + border[3 - i]));
    x = cropped(n, x, axis, start, count);
  }
  return x;
}

/// The picture without its borders (left, top, right, bottom), or `scale` (height, width) of it
/// from the first two on.
LogicalResult crop(NodeImport &n) {
  Ints border = n.intsAttr("border"), size = n.intsAttr("scale");
  if (failed(needOperands(n, 1, 1)) || n.rank(n.input(0)) != 4 || border.size() != 4)
    return n.error("operand 0 has not rank 4, or there are not four borders");
  auto dims = n.dims(n.input(0));
  auto height = NodeImport::known(dims[2]), width = NodeImport::known(dims[3]);
  if (!height || !width)
    return n.give({croppedOpen(n, border, size)});
  int64_t rows = size.size() == 2 ? size[0] : *height - border[1] - border[3];
  int64_t columns = size.size() == 2 ? size[1] : *width - border[0] - border[2];
  bool fits = border[0] >= 0 && border[1] >= 0 && rows > 0 && columns > 0 &&
              rows <= *height - border[1] && columns <= *width - border[0];
  if (!fits)
    return n.error("leaves nothing of the picture, or more than it has");
  dims[2] = n.size(rows);
  dims[3] = n.size(columns);
  return n.give({n.slice(n.input(0), {0, 0, border[1], border[0]}, dims)});
}

/// Slice, as the standard has it since opset 10.
LogicalResult dynamicSlice(NodeImport &n) { return importAs(n, "Slice"); }

constexpr Operator kOperators[] = {
    {"Affine", affine},
    {"Scale", scale},
    {"ScaledTanh", scaledTanh},
    {"ParametricSoftplus", parametricSoftplus},
    {"ImageScaler", imageScaler},
    {"Crop", crop},
    {"DynamicSlice", dynamicSlice},
};

} // namespace

std::span<const Operator> earlyOperators() { return kOperators; }

} // namespace tensmith::onnx_import
