// The geometry of a window that slides over an image: see Window.h.
#include "reference/Window.h"

#include <algorithm>

namespace tensmith::reference {

namespace {

int64_t ceilDivide(int64_t a, int64_t positive) {
  return a >= 0 ? (a + positive - 1) / positive : -(-a / positive);
}

std::vector<int64_t> listAttribute(Workspace &workspace, const Invocation &invocation,
                                   const char *name, size_t count, int64_t least,
                                   int64_t fallback) {
  std::vector<int64_t> values = invocation.attributes.integers(name);
  if (values.empty())
    values.assign(count, fallback);
  if (values.size() != count)
    workspace.rejectAttribute(name, "has " + std::to_string(values.size()) +
                                        " values, but must have " + std::to_string(count));
  for (int64_t value : values)
    if (value < least || value > kLargestExtent)
      workspace.rejectAttribute(name, "has " + std::to_string(value) + ", which is out of range");
  return values;
}

} // namespace

std::pair<int64_t, int64_t> Window::valid(size_t axis, int64_t k) const {
  const int64_t origin = k * dilations[axis] - lows[axis];
  const int64_t first = std::max<int64_t>(0, ceilDivide(-origin, strides[axis]));
  const int64_t last = std::min(grid[axis], ceilDivide(image[axis] - origin, strides[axis]));
  return {first, std::max(first, last)};
}

Window windowOf(Workspace &workspace, const Invocation &invocation, Shape kernel) {
  Window window;
  const size_t rank = kernel.size();
  constexpr size_t kLargestRank = 32;
  if (rank == 0 || rank > kLargestRank)
    workspace.rejectAttribute("kernel", "must have a size for each spatial dimension");
  for (int64_t size : kernel)
    if (size < 0 || size > kLargestExtent)
      workspace.rejectAttribute("kernel",
                                "has size " + std::to_string(size) + ", which is out of range");
  if (!elementCount(kernel, kLargestExtent))
    workspace.rejectAttribute("kernel", "is too large: " + toString(kernel));
  window.kernel = std::move(kernel);
  window.strides = listAttribute(workspace, invocation, "strides", rank, 1, 1);
  window.dilations = listAttribute(workspace, invocation, "dilations", rank, 1, 1);
  std::vector<int64_t> pads =
      listAttribute(workspace, invocation, "pads", 2 * rank, -kLargestExtent, 0);
  if (!workspace.ok())
    return window;
  window.lows.assign(pads.begin(), pads.begin() + int64_t(rank));
  window.highs.assign(pads.begin() + int64_t(rank), pads.end());
  return window;
}

void placeOnImage(Workspace &workspace, Window &window, Shape image, bool ceilMode) {
  if (!workspace.ok())
    return;
  if (image.size() != window.rank()) {
    workspace.reject("x", "has " + std::to_string(image.size()) +
                              " spatial dimensions, but the window has " +
                              std::to_string(window.rank()));
    return;
  }
  for (size_t axis = 0; axis < image.size(); ++axis) {
    const int64_t stride = window.strides[axis];
    if (image[axis] > kLargestExtent || window.kernel[axis] < 1) {
      workspace.reject("x", "has a dimension too large, or its window is empty");
      return;
    }
    const int64_t room = image[axis] + window.lows[axis] + window.highs[axis] - window.reach(axis);
    if (room < (ceilMode ? 1 - stride : 0)) { // rounded up, the only window may reach beyond
      workspace.reject("x", "of shape " + toString(image) +
                                " is smaller, padded, than the window " + toString(window.kernel));
      return;
    }
    int64_t positions = (ceilMode ? ceilDivide(room, stride) : room / stride) + 1;
    if (ceilMode && (positions - 1) * stride >= image[axis] + window.lows[axis])
      --positions;
    window.grid.push_back(std::max<int64_t>(0, positions));
  }
  window.image = std::move(image);
}

Shape channelsFirst(const Shape &shape) {
  Shape result{shape.front(), shape.back()};
  result.insert(result.end(), shape.begin() + 1, shape.end() - 1);
  return result;
}

Shape channelsLast(const Shape &shape) {
  Shape result{shape.front()};
  result.insert(result.end(), shape.begin() + 2, shape.end());
  result.push_back(shape[1]);
  return result;
}

} // namespace tensmith::reference
