// Offsets, places that the run finds, or slots; see MemoryPlan.h.
#include "compiler/vm/MemoryPlan.h"

#include <algorithm>
#include <numeric>

namespace tensmith::vm {
namespace {

constexpr size_t kMostSteps = 10'000'000; // some tens of milliseconds

void planOffsets(std::vector<Buffer> &buffers, const std::vector<int64_t> &sizes,
                 Expressions &expressions, Meet meet, MemoryPlan &plan) {
  ArenaPlacement placement = placeBuffers(sizes, plan.aliveBytes, kMostSteps, meet);
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = expressions.constant(placement.offsets[i]);
  plan.plannedBytes = placement.bytes;
  plan.bytes = expressions.constant(plan.plannedBytes);
}

/// The places are symbols, which the run gives their values.
void planPlaces(std::vector<Buffer> &buffers, const std::vector<int64_t> &sizes,
                Expressions &expressions, Meet meet, MemoryPlan &plan) {
  std::vector<plan::ArenaBuffer> placed;
  for (const Buffer &buffer : buffers)
    placed.emplace_back(buffer.bytes, uint32_t(buffer.first), uint32_t(buffer.last));
  std::vector<uint32_t> places = expressions.places(placed);
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = places[i];
  plan.bytes = places.back();
  plan.plannedBytes = placeBuffers(sizes, plan.aliveBytes, kMostSteps, meet).bytes;
}

struct Slot {
  uint32_t bytes;
  size_t last = 0; // buffer in it; the others came to their end before that began
};

/// The free slot that is nearest in size; none where all are taken.
Slot *nearestSlot(std::vector<Slot> &slots, const std::vector<Buffer> &buffers, size_t number,
                  Expressions &expressions, Meet meet) {
  const Buffer &buffer = buffers[number];
  Slot *best = nullptr;
  double bestRatio = 0;
  double wanted = double(std::max<int64_t>(expressions.estimate(buffer.bytes), 1));
  for (Slot &slot : slots) {
    if (meet(slot.last, number))
      continue;
    double size = double(std::max<int64_t>(expressions.estimate(slot.bytes), 1));
    double ratio = std::min(size, wanted) / std::max(size, wanted);
    if (ratio > bestRatio) {
      bestRatio = ratio;
      best = &slot;
    }
  }
  return best;
}

/// Slots, and of each buffer which is its.
struct Slots {
  std::vector<Slot> slots;
  std::vector<size_t> slotOf;
};

Slots findSlots(const std::vector<Buffer> &buffers, Expressions &expressions, Meet meet) {
  std::vector<size_t> order(buffers.size()), slotOf(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
  std::vector<Slot> slots;
  for (size_t i : order) {
    Slot *slot = nearestSlot(slots, buffers, i, expressions, meet);
    if (!slot) {
      slots.push_back({buffers[i].bytes, i});
      slot = &slots.back();
    }
    if (slot->bytes != buffers[i].bytes)
      slot->bytes = expressions.binary(plan::ExprKind::Max, slot->bytes, buffers[i].bytes);
    slot->last = i;
    slotOf[i] = size_t(slot - slots.data());
  }
  return {std::move(slots), std::move(slotOf)};
}

void planSlots(std::vector<Buffer> &buffers, const Slots &found, Expressions &expressions,
               MemoryPlan &plan) {
  std::vector<uint32_t> starts;
  uint32_t end = expressions.constant(0);
  for (const Slot &slot : found.slots) {
    starts.push_back(end);
    end = expressions.binary(plan::ExprKind::Add, end, slot.bytes);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = starts[found.slotOf[i]];
  plan.bytes = end;
  plan.plannedBytes = expressions.estimate(end);
}

/// Whether the places are to be found when sizes are known: slots would hold noticeably more than
/// is alive at a time, and there are not so many buffers that it would take long. The run places
/// them each time that sizes change, in a time that grows with the square of their number: 0.2 ms
/// for 256, 0.6 for 512, 2.4 for 1,024, 9 for 2,048, 36 for 4,096 (drawn lifetimes of about four
/// steps, one core of Zen 4). As many kernels are called for the buffers, each some microseconds.
bool isWorthPlacing(const Slots &found, const Expressions &expressions, size_t buffers,
                    int64_t alive) {
  constexpr size_t kMostBuffers = 2048;
  double bytes = 0;
  for (const Slot &slot : found.slots)
    bytes += double(expressions.estimate(slot.bytes));
  return buffers <= kMostBuffers && bytes > 1.03 * double(alive);
}

} // namespace

MemoryPlan planMemory(std::vector<Buffer> &buffers, Expressions &expressions, Meet meet) {
  std::vector<Lifetime> lifetimes;
  for (const Buffer &buffer : buffers)
    lifetimes.push_back(buffer.lifetime());
  auto byIntervals = [&](size_t a, size_t b) { return lifetimes[a].meets(lifetimes[b]); };
  bool isByIntervals = !meet;
  if (isByIntervals)
    meet = byIntervals;
  MemoryPlan plan;
  bool known = true;
  std::vector<int64_t> sizes;
  for (const Buffer &buffer : buffers) {
    known &= expressions.isConstant(buffer.bytes);
    sizes.push_back(expressions.estimate(buffer.bytes));
    plan.separateBytes += buffer.values * sizes.back();
  }
  plan.aliveBytes = mostAlive(sizes, lifetimes);
  if (known) {
    planOffsets(buffers, sizes, expressions, meet, plan);
    return plan;
  }
  Slots found = findSlots(buffers, expressions, meet);
  if (isByIntervals && isWorthPlacing(found, expressions, buffers.size(), plan.aliveBytes))
    planPlaces(buffers, sizes, expressions, meet, plan);
  else
    planSlots(buffers, found, expressions, plan);
  return plan;
}

} // namespace tensmith::vm
