// Offsets by size, or slots; see MemoryPlan.h.
#include "compiler/vm/MemoryPlan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace tensmith::vm {
namespace {

/// Offsets of buffers that are placed one after the other, each into the smallest gap that it fits.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

Placement placeInOrder(const std::vector<Buffer> &buffers, const std::vector<int64_t> &sizes,
                       const std::vector<size_t> &order, Meet meet) {
  Placement placement{std::vector<int64_t>(buffers.size())};
  std::vector<int64_t> &offsets = placement.offsets;
  std::vector<size_t> placed; // by offset
  for (size_t i : order) {
    int64_t end = 0, best = -1, bestGap = INT64_MAX;
    for (size_t other : placed) {
      if (!meet(i, other))
        continue;
      int64_t gap = offsets[other] - end;
      if (gap >= sizes[i] && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, offsets[other] + sizes[other]);
    }
    offsets[i] = best >= 0 ? best : end;
    placement.bytes = std::max(placement.bytes, offsets[i] + sizes[i]);
    auto at = std::upper_bound(placed.begin(), placed.end(), i,
                               [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    placed.insert(at, i);
  }
  return placement;
}

/// By size first. While that takes more than is alive at a time, one of those that lie highest is
/// placed earlier, as long as it does no harm.
Placement searchPlacement(const std::vector<Buffer> &buffers, const std::vector<int64_t> &sizes,
                          int64_t alive, Meet meet) {
  constexpr size_t kMostTries = 500, kMostSteps = 10'000'000; // some tens of milliseconds
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  Placement best = placeInOrder(buffers, sizes, order, meet);
  std::minstd_rand random; // the same in every compilation
  size_t steps = buffers.size() * buffers.size();
  for (size_t tries = 0; best.bytes > alive && tries < kMostTries && tries * steps < kMostSteps;
       ++tries) {
    std::vector<size_t> highest;
    for (size_t place = 1; place < order.size(); ++place)
      if (best.offsets[order[place]] + sizes[order[place]] == best.bytes)
        highest.push_back(place);
    if (highest.empty())
      break;
    auto moved = order.begin() + ptrdiff_t(highest[random() % highest.size()]);
    std::vector<size_t> next(order.begin(), moved);
    next.insert(next.begin() + ptrdiff_t(random() % next.size()), *moved);
    next.insert(next.end(), moved + 1, order.end());
    Placement tried = placeInOrder(buffers, sizes, next, meet);
    if (tried.bytes > best.bytes)
      continue;
    best = std::move(tried);
    order = std::move(next);
  }
  return best;
}

void planOffsets(std::vector<Buffer> &buffers, Expressions &expressions, Meet meet,
                 MemoryPlan &plan) {
  std::vector<int64_t> sizes;
  for (const Buffer &buffer : buffers)
    sizes.push_back(expressions.constantValue(buffer.bytes));
  Placement placement = searchPlacement(buffers, sizes, plan.aliveBytes, meet);
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = expressions.constant(placement.offsets[i]);
  plan.plannedBytes = placement.bytes;
  plan.bytes = expressions.constant(plan.plannedBytes);
}

struct Slot {
  uint32_t bytes;
  size_t last = 0; // buffer in it; the others came to their end before that began
};

/// The free slot that is nearest in size at the hint; none where all are taken.
Slot *nearestSlot(std::vector<Slot> &slots, const std::vector<Buffer> &buffers, size_t number,
                  Expressions &expressions, Meet meet) {
  const Buffer &buffer = buffers[number];
  Slot *best = nullptr;
  double bestRatio = 0;
  double wanted = double(std::max<int64_t>(expressions.estimate(buffer.bytes, kSymbolHint), 1));
  for (Slot &slot : slots) {
    if (meet(slot.last, number))
      continue;
    double size = double(std::max<int64_t>(expressions.estimate(slot.bytes, kSymbolHint), 1));
    double ratio = std::min(size, wanted) / std::max(size, wanted);
    if (ratio > bestRatio) {
      bestRatio = ratio;
      best = &slot;
    }
  }
  return best;
}

void planSlots(std::vector<Buffer> &buffers, Expressions &expressions, Meet meet,
               MemoryPlan &plan) {
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
  std::vector<uint32_t> starts;
  uint32_t end = expressions.constant(0);
  for (const Slot &slot : slots) {
    starts.push_back(end);
    end = expressions.binary(plan::ExprKind::Add, end, slot.bytes);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = starts[slotOf[i]];
  plan.bytes = end;
  plan.plannedBytes = expressions.estimate(end, kSymbolHint);
}

int64_t mostAlive(const std::vector<Buffer> &buffers, const Expressions &expressions) {
  std::vector<std::pair<size_t, int64_t>> changes;
  for (const Buffer &buffer : buffers) {
    int64_t bytes = expressions.estimate(buffer.bytes, kSymbolHint);
    changes.push_back({buffer.first, bytes});
    changes.push_back({buffer.last + 1, -bytes});
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  for (auto [at, bytes] : changes)
    most = std::max(most, alive += bytes);
  return most;
}

} // namespace

MemoryPlan planMemory(std::vector<Buffer> &buffers, Expressions &expressions, Meet meet) {
  auto byIntervals = [&](size_t a, size_t b) {
    return buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
  };
  if (!meet)
    meet = byIntervals;
  MemoryPlan plan;
  bool known = true;
  for (const Buffer &buffer : buffers) {
    known &= expressions.isConstant(buffer.bytes);
    plan.separateBytes += buffer.values * expressions.estimate(buffer.bytes, kSymbolHint);
  }
  plan.aliveBytes = mostAlive(buffers, expressions);
  if (known)
    planOffsets(buffers, expressions, meet, plan);
  else
    planSlots(buffers, expressions, meet, plan);
  return plan;
}

} // namespace tensmith::vm
