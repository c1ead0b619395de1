// Places of what lies in an arena, where sizes of inputs tell them; see base/ArenaPlacement.h.
#include "base/ArenaPlacement.h"
#include "runtime/Interpreter.h"

namespace tensmith::runtime {
namespace {

/// Looks at pairs beyond those of the first order: tenths of a millisecond.
constexpr size_t kMostSteps = 100'000;

/// The buffers' bytes; none where one is not to be had, or the sum of all.
std::vector<int64_t> sizesOf(const Frame &frame) {
  std::vector<int64_t> sizes;
  int64_t sum = 0;
  for (const plan::ArenaBuffer &buffer : frame.code.buffers) {
    sizes.push_back(frame.exprs[buffer.bytes()]);
    if (sizes.back() < 0 || sizes.back() % kAlignment ||
        __builtin_add_overflow(sum, sizes.back(), &sum))
      return {};
  }
  return sizes;
}

} // namespace

void placeBuffers(Frame &frame) {
  std::span<const plan::ArenaBuffer> buffers = frame.code.buffers;
  int64_t *places = frame.symbols.data() + frame.code.firstPlace;
  std::vector<int64_t> sizes = sizesOf(frame);
  if (sizes.size() != buffers.size()) {
    std::fill_n(places, buffers.size() + 1, kPoison);
    return;
  }
  std::vector<Lifetime> lifetimes;
  for (const plan::ArenaBuffer &buffer : buffers)
    lifetimes.push_back({buffer.first(), buffer.last()});
  ArenaPlacement placement = tensmith::placeBuffers(sizes, lifetimes, kMostSteps);
  std::ranges::copy(placement.offsets, places);
  places[buffers.size()] = placement.bytes;
}

} // namespace tensmith::runtime
