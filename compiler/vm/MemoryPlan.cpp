// Offsets by size, or slots; see MemoryPlan.h.
#include "compiler/vm/MemoryPlan.h"

#include <algorithm>
#include <numeric>

namespace tensmith::vm {
namespace {

bool meet(const Buffer &a, const Buffer &b) { return a.first <= b.last && b.first <= a.last; }

void planOffsets(std::vector<Buffer> &buffers, Expressions &expressions, MemoryPlan &plan) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](size_t i) { return expressions.constantValue(buffers[i].bytes); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return size(a) > size(b); });
  std::vector<size_t> placed; // by offset
  std::vector<int64_t> offsets(buffers.size());
  for (size_t i : order) {
    int64_t end = 0, best = -1, bestGap = INT64_MAX;
    for (size_t other : placed) {
      if (!meet(buffers[i], buffers[other]))
        continue;
      int64_t gap = offsets[other] - end;
      if (gap >= size(i) && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, offsets[other] + size(other));
    }
    offsets[i] = best >= 0 ? best : end;
    plan.plannedBytes = std::max(plan.plannedBytes, offsets[i] + size(i));
    auto at = std::upper_bound(placed.begin(), placed.end(), i,
                               [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    placed.insert(at, i);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = expressions.constant(offsets[i]);
  plan.bytes = expressions.constant(plan.plannedBytes);
}

struct Slot {
  uint32_t bytes;
  size_t freeFrom; // the first instruction at which nothing lies in it
};

/// The free slot that is nearest in size at the hint; none where all are taken.
Slot *nearestSlot(std::vector<Slot> &slots, const Buffer &buffer, Expressions &expressions) {
  Slot *best = nullptr;
  double bestRatio = 0;
  double wanted = double(std::max<int64_t>(expressions.estimate(buffer.bytes, kSymbolHint), 1));
  for (Slot &slot : slots) {
    if (slot.freeFrom > buffer.first)
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

void planSlots(std::vector<Buffer> &buffers, Expressions &expressions, MemoryPlan &plan) {
  std::vector<size_t> order(buffers.size()), slotOf(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
  std::vector<Slot> slots;
  for (size_t i : order) {
    Slot *slot = nearestSlot(slots, buffers[i], expressions);
    if (!slot) {
      slots.push_back({buffers[i].bytes, 0});
      slot = &slots.back();
    }
    if (slot->bytes != buffers[i].bytes)
      slot->bytes = expressions.binary(plan::ExprKind::Max, slot->bytes, buffers[i].bytes);
    slot->freeFrom = buffers[i].last + 1;
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

MemoryPlan planMemory(std::vector<Buffer> &buffers, Expressions &expressions) {
  MemoryPlan plan;
  bool known = true;
  for (const Buffer &buffer : buffers) {
    known &= expressions.isConstant(buffer.bytes);
    plan.separateBytes += buffer.values * expressions.estimate(buffer.bytes, kSymbolHint);
  }
  plan.aliveBytes = mostAlive(buffers, expressions);
  if (known)
    planOffsets(buffers, expressions, plan);
  else
    planSlots(buffers, expressions, plan);
  return plan;
}

} // namespace tensmith::vm
