// Offsets of buffers in an arena, once their sizes are known: those that are in use at the same
// time share no byte.
//
// Largest first, each into the smallest gap that it fits (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020, greedy by size), and then in orders near that
// one, as long as gaps are left. The compiler does so where sizes are constants, and the runtime
// where inputs tell them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace tensmith {

/// The steps at which a buffer is in use, both inclusive.
struct Lifetime {
  size_t first, last;

  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

struct ArenaPlacement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// One after the other, in that order. `meet(a, b)`: whether two may be in use at the same time.
template <typename Meet>
ArenaPlacement placeInOrder(std::span<const int64_t> sizes, std::span<const size_t> order,
                            Meet meet) {
  ArenaPlacement placement{std::vector<int64_t>(sizes.size())};
  std::vector<int64_t> &offsets = placement.offsets;
  std::vector<size_t> placed; // by offset
  placed.reserve(sizes.size());
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

/// By size first. While that takes more than `alive`, what is in use at a time at most, one of
/// those that lie highest is placed earlier, as long as it does no harm. `mostSteps`: looks at a
/// pair of buffers, beside those of the first order. The sum of the sizes fits 63 bits.
template <typename Meet>
ArenaPlacement placeBuffers(std::span<const int64_t> sizes, int64_t alive, size_t mostSteps,
                            Meet meet) {
  constexpr size_t kMostTries = 500;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; });
  ArenaPlacement best = placeInOrder(sizes, std::span<const size_t>(order), meet);
  std::minstd_rand random; // the same each time
  size_t steps = sizes.size() * sizes.size();
  for (size_t tries = 0; best.bytes > alive && tries < kMostTries && tries * steps < mostSteps;
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
    ArenaPlacement tried = placeInOrder(sizes, std::span<const size_t>(next), meet);
    if (tried.bytes > best.bytes)
      continue;
    best = std::move(tried);
    order = std::move(next);
  }
  return best;
}

/// Bytes that are in use at a time, at most.
inline int64_t mostAlive(std::span<const int64_t> sizes, std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<size_t, int64_t>> changes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    changes.push_back({lifetimes[i].first, sizes[i]});
    changes.push_back({lifetimes[i].last + 1, -sizes[i]});
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  for (auto [at, bytes] : changes)
    most = std::max(most, alive += bytes);
  return most;
}

/// Those meet that are in use at one step.
inline ArenaPlacement placeBuffers(std::span<const int64_t> sizes,
                                   std::span<const Lifetime> lifetimes, size_t mostSteps) {
  return placeBuffers(sizes, mostAlive(sizes, lifetimes), mostSteps,
                      [&](size_t a, size_t b) { return lifetimes[a].meets(lifetimes[b]); });
}

} // namespace tensmith
