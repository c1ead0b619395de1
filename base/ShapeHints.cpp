// Each change is tried on the shape that was given; the first one that makes it fit is the hint.
#include "base/ShapeHints.h"

#include "base/HostTensor.h"

#include <algorithm>
#include <vector>

namespace tensmith {
namespace {

using Sizes = std::vector<int64_t>;

bool fits(std::span<const int64_t> expected, std::span<const int64_t> given) {
  return std::ranges::equal(expected, given,
                            [](int64_t size, int64_t other) { return size < 0 || size == other; });
}

/// The dimensions with that at `from` at `to`.
Sizes moved(std::span<const int64_t> given, size_t from, size_t to) {
  Sizes result(given.begin(), given.end());
  int64_t size = result[from];
  result.erase(result.begin() + ptrdiff_t(from));
  result.insert(result.begin() + ptrdiff_t(to), size);
  return result;
}

std::string otherRank(std::span<const int64_t> expected, std::span<const int64_t> given) {
  Sizes batched(given.begin(), given.end());
  batched.insert(batched.begin(), 1);
  if (fits(expected, batched))
    return "; it seems to be one sample: put a dimension of 1 in front";
  bool one = !given.empty() && given[0] == 1;
  if (one && fits(expected, Sizes(given.begin() + 1, given.end())))
    return "; leave out its first dimension";
  return "";
}

std::string transposition(std::span<const int64_t> expected, std::span<const int64_t> given) {
  size_t rank = given.size();
  if (rank < 2 || fits(expected, given)) // of open sizes, others than these are wrong
    return "";
  size_t channels = rank > 3 ? 1 : 0;
  Sizes first = moved(given, rank - 1, channels), last = moved(given, channels, rank - 1);
  if (rank > 2 && fits(expected, first))
    return "; its channels come last, and must come first: transpose it to " + toString(first);
  if (rank > 2 && fits(expected, last))
    return "; its channels come first, and must come last: transpose it to " + toString(last);
  Sizes swapped = moved(given, rank - 1, rank - 2);
  return fits(expected, swapped) ? "; transpose its last two dimensions" : "";
}

/// Where only the first dimension differs, or only the height and width of a picture.
std::string otherSize(std::span<const int64_t> expected, std::span<const int64_t> given) {
  size_t rank = given.size();
  auto differs = [&](size_t d) { return expected[d] >= 0 && expected[d] != given[d]; };
  size_t wrong = 0, spatial = 0;
  for (size_t d = 0; d < rank; ++d)
    if (differs(d)) {
      ++wrong;
      bool withChannels = rank > 3 && expected[1] > 4; // channels last
      spatial += withChannels ? d == 1 || d == 2 : d + 2 >= rank;
    }
  if (rank > 1 && wrong == 1 && differs(0))
    return "; the model is made for " + std::to_string(expected[0]) +
           " at a time: run it for each part, or export it with an open size";
  if (rank < 3 || wrong == 0 || spatial != wrong)
    return "";
  Sizes size(given.begin(), given.end());
  for (size_t d = 0; d < rank; ++d)
    size[d] = differs(d) ? expected[d] : given[d];
  return "; if it is a picture, resize it to " + toString(size);
}

} // namespace

std::string shapeHint(std::span<const int64_t> expected, std::span<const int64_t> given) {
  if (expected.size() != given.size())
    return otherRank(expected, given);
  std::string hint = transposition(expected, given);
  return hint.empty() ? otherSize(expected, given) : hint;
}

} // namespace tensmith
