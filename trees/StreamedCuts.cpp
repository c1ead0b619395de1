// Passes over blocks of rows, a thread some features.
#include "trees/StreamedCuts.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

namespace {

constexpr int64_t kRows = 4096; // of a block, which is read once for all features

/// One feature's search.
struct Search {
  bool isEmpty = true;
  uint32_t least = 0, most = 0;
  std::vector<uint32_t> few; // different keys, ascending, while there are not too many
  bool hasMany = false;
  double total = 0;
  std::vector<double> ranks;      // what is left of each behind its prefix
  std::vector<uint32_t> prefixes; // of each rank
  std::vector<uint32_t> distinct; // of those, ascending
  std::vector<double> counts;     // behind each distinct prefix, by the next digit

  void addFirst(uint32_t key, double weight, int64_t maxBins) {
    least = isEmpty ? key : std::min(least, key);
    most = isEmpty ? key : std::max(most, key);
    isEmpty = false;
    total += weight;
    counts[key >> 16] += weight;
    if (hasMany)
      return;
    auto place = std::lower_bound(few.begin(), few.end(), key);
    if (place != few.end() && *place == key)
      return;
    few.insert(place, key);
    hasMany = int64_t(few.size()) > maxBins;
  }
  void addNext(uint32_t key, double weight, int shift) {
    uint32_t prefix = uint32_t(uint64_t(key) >> (shift + 8));
    auto place = std::lower_bound(distinct.begin(), distinct.end(), prefix);
    if (place != distinct.end() && *place == prefix)
      counts[(place - distinct.begin()) * 256 + ((key >> shift) & 255)] += weight;
  }
  /// Each rank's next digit, of so many bits.
  void advance(int bits) {
    int64_t digits = int64_t(1) << bits;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      int64_t block = distinct.empty()
                          ? 0
                          : std::lower_bound(distinct.begin(), distinct.end(), prefixes[rank]) -
                                distinct.begin();
      int64_t digit = 0;
      for (; digit + 1 < digits && ranks[rank] >= counts[block * digits + digit]; ++digit)
        ranks[rank] -= counts[block * digits + digit];
      prefixes[rank] = uint32_t(uint64_t(prefixes[rank]) << bits | uint64_t(digit));
    }
    distinct = prefixes;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    counts.assign(distinct.size() * 256, 0);
  }
};

template <typename Visit> void pass(const Matrix &matrix, Threads &threads, Visit visit) {
  bool isWeighted = int64_t(matrix.weights.size()) == matrix.rows;
  constexpr int64_t kFeatures = 8;
  int64_t groups = (matrix.columns + kFeatures - 1) / kFeatures;
  for (int64_t begin = 0; begin < matrix.rows; begin += kRows)
    threads.parts(groups, [&](int64_t group, int) {
      int64_t end = std::min(begin + kRows, matrix.rows);
      int64_t last = std::min((group + 1) * kFeatures, matrix.columns);
      for (int64_t feature = group * kFeatures; feature < last; ++feature)
        for (int64_t row = begin; row < end; ++row)
          if (float value = matrix.dense[row * matrix.columns + feature]; !std::isnan(value))
            visit(feature, orderedKey(value), isWeighted ? double(matrix.weights[row]) : 1.);
    });
}

} // namespace

Cuts makeCutsInPasses(const Matrix &matrix, int64_t maxBins, Threads &threads) {
  std::vector<Search> searches(matrix.columns);
  for (Search &search : searches)
    search.counts.assign(1 << 16, 0);
  pass(matrix, threads, [&](int64_t feature, uint32_t key, double weight) {
    searches[feature].addFirst(key, weight, maxBins);
  });
  bool anyMany = false;
  for (Search &search : searches) {
    for (int64_t rank = 1; search.hasMany && rank < maxBins; ++rank)
      search.ranks.push_back(double(rank) * search.total / double(maxBins));
    search.prefixes.assign(search.ranks.size(), 0);
    search.advance(16);
    anyMany |= search.hasMany;
  }
  for (int shift = 8; anyMany && shift >= 0; shift -= 8) {
    pass(matrix, threads, [&](int64_t feature, uint32_t key, double weight) {
      if (searches[feature].hasMany)
        searches[feature].addNext(key, weight, shift);
    });
    for (Search &search : searches)
      search.advance(8);
  }
  Cuts cuts;
  for (int64_t feature = 0; feature < matrix.columns; ++feature) {
    const Search &search = searches[feature];
    if (int64_t categories = matrix.categoriesOf(feature)) {
      cuts.appendCategories(categories);
      continue;
    }
    std::vector<float> values;
    for (uint32_t key : search.hasMany ? search.prefixes : search.few)
      if (key != search.least && (values.empty() || valueOfKey(key) > values.back()))
        values.push_back(valueOfKey(key));
    cuts.append(values, valueOfKey(search.least), valueOfKey(search.most), search.isEmpty);
  }
  return cuts;
}

} // namespace tensmith::trees
