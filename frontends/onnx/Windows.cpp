// Strides, pads and dilations with their defaults; see Windows.h.
#include "frontends/onnx/Windows.h"

namespace tensmith::onnx_import {
namespace {

/// Pads such that there are ceil(size / stride) results, an odd one at the end (or the start).
LogicalResult padToSame(NodeImport &n, Value x, Window &window, bool lower) {
  size_t spatial = window.kernel.size();
  auto dims = n.dims(x);
  for (size_t dim = 0; dim < spatial; ++dim) {
    int64_t reach = (window.kernel[dim] - 1) * window.dilations[dim] + 1;
    int64_t stride = window.strides[dim], total = reach - stride;
    auto size = NodeImport::known(dims[2 + dim]);
    if (size)
      total = ((*size + stride - 1) / stride - 1) * stride + reach - *size;
    else if (stride != 1)
      return n.error("auto_pad with a stride needs the size of dimension " + llvm::Twine(2 + dim) +
                     ", which only the run tells; give the input a fixed shape");
    total = std::max<int64_t>(total, 0);
    window.pads[dim] = lower ? total - total / 2 : total / 2;
    window.pads[spatial + dim] = total - window.pads[dim];
  }
  return success();
}

} // namespace

FailureOr<Window> windowOf(NodeImport &n, Value x, ArrayRef<int64_t> kernel) {
  int64_t spatial = n.rank(x) - 2;
  if (spatial < 1)
    return n.error("operand 0 has rank " + llvm::Twine(n.rank(x)) + ", not 3 or more");
  size_t count = size_t(spatial);
  Window window;
  window.kernel = n.intsAttr("kernel_shape", kernel);
  window.strides = n.intsAttr("strides", Ints(count, 1));
  window.dilations = n.intsAttr("dilations", Ints(count, 1));
  window.pads = n.intsAttr("pads", Ints(2 * count, 0));
  if (window.kernel.size() != count || window.strides.size() != count ||
      window.dilations.size() != count || window.pads.size() != 2 * count)
    return n.error("kernel_shape, strides, dilations or pads are not those of " +
                   llvm::Twine(spatial) + " spatial dimensions");
  constexpr int64_t kMost = int64_t(1) << 31;
  for (size_t dim = 0; dim < count; ++dim)
    if (window.kernel[dim] < 1 || window.strides[dim] < 1 || window.dilations[dim] < 1 ||
        window.kernel[dim] > kMost || window.strides[dim] > kMost || window.dilations[dim] > kMost)
      return n.error("kernel_shape, strides or dilations are not all positive, or too large");
  for (int64_t amount : window.pads)
    if (amount < -kMost || amount > kMost)
      return n.error("pads are too large");
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  if (automatic == "VALID")
    window.pads.assign(2 * count, 0);
  else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    if (failed(padToSame(n, x, window, automatic == "SAME_LOWER")))
      return failure();
  } else if (automatic != "NOTSET" && !automatic.empty())
    return n.error("auto_pad is '" + automatic + "', which is not known");
  return window;
}

} // namespace tensmith::onnx_import
