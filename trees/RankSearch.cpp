// Ranks by digits, over processes.
#include "trees/RankSearch.h"

#include <algorithm>
#include <set>

namespace tensmith::trees {

namespace {

/// Sums of the weights of a process's keys, before each.
std::vector<double> sumsBefore(size_t count, std::span<const float> weights) {
  std::vector<double> sums(count + 1, 0);
  for (size_t at = 0; at < count; ++at)
    sums[at + 1] = sums[at] + (weights.empty() ? 1. : double(weights[at]));
  return sums;
}

/// All different keys, where no process and they together have more than maxBins.
Result<std::vector<uint32_t>> fewKeys(std::span<const uint32_t> keys, int64_t maxBins,
                                      Exchange &exchange) {
  std::vector<double> own(maxBins + 2, 0), all((maxBins + 2) * exchange.size());
  int64_t count = 0;
  for (size_t at = 0; at < keys.size() && count <= maxBins; ++at)
    if (at == 0 || keys[at] != keys[at - 1])
      own[++count] = keys[at];
  own[0] = double(count);
  if (Status status = exchange.gather(own, all); !status.ok())
    return status;
  std::set<uint32_t> different;
  for (int process = 0; process < exchange.size(); ++process) {
    const double *theirs = all.data() + process * (maxBins + 2);
    for (int64_t at = 1; at <= int64_t(theirs[0]); ++at)
      different.insert(uint32_t(theirs[at]));
  }
  return std::vector<uint32_t>(different.begin(), different.end());
}

Result<std::vector<uint32_t>> keysAtRanks(std::span<const uint32_t> keys,
                                          std::span<const double> sums, std::vector<double> ranks,
                                          Exchange &exchange) {
  std::vector<uint64_t> prefixes(ranks.size(), 0); // the digits found so far
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::vector<uint64_t> distinct(prefixes);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    std::vector<double> counts(distinct.size() * 256);
    size_t from = 0;
    for (size_t at = 0; at < distinct.size(); ++at) {
      uint64_t low = distinct[at] << (shift + 8);
      from = size_t(std::lower_bound(keys.begin() + int64_t(from), keys.end(), low) - keys.begin());
      for (uint64_t digit = 0; digit < 256; ++digit) {
        size_t to = from;
        for (uint64_t next = low + ((digit + 1) << shift); to < keys.size() && keys[to] < next;)
          ++to;
        counts[at * 256 + digit] = sums[to] - sums[from];
        from = to;
      }
    }
    if (Status status = exchange.sum(counts); !status.ok())
      return status;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      size_t block =
          std::lower_bound(distinct.begin(), distinct.end(), prefixes[rank]) - distinct.begin();
      uint64_t digit = 0;
      for (; digit < 255 && ranks[rank] >= counts[block * 256 + digit]; ++digit)
        ranks[rank] -= counts[block * 256 + digit];
      prefixes[rank] = prefixes[rank] << 8 | digit;
    }
  }
  return std::vector<uint32_t>(prefixes.begin(), prefixes.end());
}

} // namespace

Result<SharedCuts> cutsOfAll(std::span<const uint32_t> keys, std::span<const float> weights,
                             int64_t maxBins, Exchange &exchange) {
  SharedCuts shared;
  std::vector<double> ends{keys.empty() ? 1. : 0., keys.empty() ? 0. : keys.front(),
                           keys.empty() ? 0. : keys.back()};
  std::vector<double> allEnds(3 * exchange.size());
  if (Status status = exchange.gather(ends, allEnds); !status.ok())
    return status;
  for (int process = 0; process < exchange.size(); ++process) {
    const double *theirs = allEnds.data() + 3 * process;
    if (theirs[0] != 0)
      continue;
    shared.least =
        shared.isEmpty ? uint32_t(theirs[1]) : std::min(shared.least, uint32_t(theirs[1]));
    shared.most = shared.isEmpty ? uint32_t(theirs[2]) : std::max(shared.most, uint32_t(theirs[2]));
    shared.isEmpty = false;
  }
  Result<std::vector<uint32_t>> few = fewKeys(keys, maxBins, exchange);
  if (!few)
    return few.status();
  if (int64_t(few->size()) <= maxBins) {
    shared.keys.assign(few->begin() + (few->empty() ? 0 : 1), few->end());
    return shared;
  }
  std::vector<double> sums = sumsBefore(keys.size(), weights), total{sums.back()};
  if (Status status = exchange.sum(total); !status.ok())
    return status;
  std::vector<double> ranks;
  for (int64_t rank = 1; rank < maxBins; ++rank)
    ranks.push_back(double(rank) * total[0] / double(maxBins));
  Result<std::vector<uint32_t>> found = keysAtRanks(keys, sums, std::move(ranks), exchange);
  if (!found)
    return found.status();
  for (uint32_t key : *found)
    if (key != shared.least && (shared.keys.empty() || key != shared.keys.back()))
      shared.keys.push_back(key);
  return shared;
}

} // namespace tensmith::trees
