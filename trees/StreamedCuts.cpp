// Passes over blocks of rows, a thread some features.
#include "trees/StreamedCuts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tensmith::trees {

namespace {

constexpr int64_t kRows = 4096;   // of a block, which is read once for all features
constexpr int64_t kFeatures = 16; // of a part: so many f32 are a line of the cache

/// The present values of one feature in a block.
struct Values {
  std::span<const uint32_t> keys;
  std::span<const float> weights; // beside them; empty: 1

  /// visit(key, weight) of each.
  template <typename Visit> void each(Visit visit) const {
    if (weights.empty())
      for (uint32_t key : keys)
        visit(key, 1.);
    else
      for (size_t at = 0; at < keys.size(); ++at)
        visit(keys[at], double(weights[at]));
  }
};
struct Scratch {
  std::array<uint32_t, kRows> keys;
  std::array<float, kRows> weights;

  Values valuesOf(const Matrix &matrix, int64_t feature, int64_t begin, int64_t end) {
    bool isWeighted = int64_t(matrix.weights.size()) == matrix.rows;
    size_t count = 0;
    for (int64_t row = begin; row < end; ++row) { // what is missing is written over
      float value = matrix.dense[row * matrix.columns + feature];
      keys[count] = orderedKey(value);
      weights[count] = isWeighted ? matrix.weights[row] : 1;
      count += !std::isnan(value);
    }
    return {std::span(keys).first(count), std::span(weights).first(isWeighted ? count : 0)};
  }
};

/// One feature's search.
struct Search {
  bool isEmpty = true, hasMissing = false;
  uint32_t least = 0, most = 0;
  std::vector<uint32_t> few; // different keys, ascending, while there are not too many
  bool hasMany = false;
  double total = 0;
  std::vector<double> ranks;      // what is left of each behind its prefix
  std::vector<uint32_t> prefixes; // of each rank
  std::vector<uint32_t> distinct; // of those, ascending
  std::vector<double> counts;     // behind each distinct prefix, by the next digit
  /// Places in `distinct`, from 1 on, by the first 16 bits, and of each of those by the next 8; 0
  /// of what nobody seeks.
  std::vector<uint16_t> places, placesBehind;

  void addFirst(const Values &values, int64_t maxBins) {
    if (values.keys.empty())
      return;
    auto [lowest, highest] = std::ranges::minmax(values.keys);
    least = isEmpty ? lowest : std::min(least, lowest);
    most = isEmpty ? highest : std::max(most, highest);
    isEmpty = false;
    double *to = counts.data(), sum = total;
    values.each([&](uint32_t key, double weight) {
      sum += weight;
      to[key >> 16] += weight;
    });
    total = sum;
    for (size_t at = 0; !hasMany && at < values.keys.size(); ++at) {
      auto place = std::lower_bound(few.begin(), few.end(), values.keys[at]);
      if (place == few.end() || *place != values.keys[at])
        few.insert(place, values.keys[at]);
      hasMany = int64_t(few.size()) > maxBins;
    }
  }
  /// The third digit, behind prefixes of 16 bits.
  void addSecond(const Values &values) {
    double *to = counts.data();
    const uint16_t *of = places.data();
    values.each([&](uint32_t key, double weight) {
      to[size_t(of[key >> 16]) * 256 + (key >> 8 & 255)] += weight;
    });
  }
  /// And the fourth, behind those of 24.
  void addThird(const Values &values) {
    double *to = counts.data();
    const uint16_t *of = places.data(), *behind = placesBehind.data();
    values.each([&](uint32_t key, double weight) {
      size_t place = behind[size_t(of[key >> 16]) * 256 + (key >> 8 & 255)];
      to[place * 256 + (key & 255)] += weight;
    });
  }
  /// The next digit of each rank, of so many bits; behind the first 16 nothing is in place 0.
  void advance(int bits) {
    if (ranks.empty()) {
      counts = {};
      places = {};
      placesBehind = {};
      return;
    }
    int64_t digits = int64_t(1) << bits, before = distinct.empty() ? 0 : 1;
    int64_t place = 0, digit = 0;
    double sum = 0;                                      // of what is before the digit
    for (size_t rank = 0; rank < ranks.size(); ++rank) { // ascending behind each prefix
      for (; before && distinct[size_t(place)] != prefixes[rank]; ++place)
        digit = 0, sum = 0;
      const double *behind = counts.data() + (before + place) * digits;
      for (; digit + 1 < digits && ranks[rank] >= sum + behind[digit]; ++digit)
        sum += behind[digit];
      ranks[rank] -= sum;
      prefixes[rank] = uint32_t(uint64_t(prefixes[rank]) << bits | uint64_t(digit));
    }
    if (!placesBehind.empty()) { // that was the last digit: prefixes are whole keys
      counts = {};
      places = {};
      placesBehind = {};
      return;
    }
    std::vector<uint32_t> above = std::move(distinct);
    distinct = prefixes;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    counts.assign((distinct.size() + 1) * 256, 0);
    if (before == 0) {
      places.assign(1 << 16, 0);
      for (size_t at = 0; at < distinct.size(); ++at)
        places[distinct[at]] = uint16_t(at + 1);
      return;
    }
    placesBehind.assign((above.size() + 1) * 256, 0);
    for (size_t at = 0; at < distinct.size(); ++at) {
      auto place = std::lower_bound(above.begin(), above.end(), distinct[at] >> 8) - above.begin();
      placesBehind[size_t(place + 1) * 256 + (distinct[at] & 255)] = uint16_t(at + 1);
    }
  }
};

/// visit(search, values) for each feature of each block.
template <typename Visit>
void pass(const Matrix &matrix, Threads &threads, std::vector<Search> &searches, Visit visit) {
  int64_t groups = (matrix.columns + kFeatures - 1) / kFeatures;
  std::vector<Scratch> scratch(size_t(threads.count()));
  for (int64_t begin = 0; begin < matrix.rows; begin += kRows)
    threads.parts(groups, [&](int64_t group, int thread) {
      int64_t end = std::min(begin + kRows, matrix.rows);
      int64_t last = std::min((group + 1) * kFeatures, matrix.columns);
      for (int64_t feature = group * kFeatures; feature < last; ++feature) {
        Values values = scratch[size_t(thread)].valuesOf(matrix, feature, begin, end);
        searches[feature].hasMissing |= int64_t(values.keys.size()) < end - begin;
        visit(searches[feature], values);
      }
    });
}

} // namespace

StreamedCuts makeCutsInPasses(const Matrix &matrix, int64_t maxBins, Threads &threads) {
  std::vector<Search> searches(matrix.columns);
  for (Search &search : searches)
    search.counts.assign(1 << 16, 0);
  pass(matrix, threads, searches,
       [&](Search &search, const Values &values) { search.addFirst(values, maxBins); });
  bool anyMany = false;
  for (Search &search : searches) {
    for (int64_t rank = 1; search.hasMany && rank < maxBins; ++rank)
      search.ranks.push_back(double(rank) * search.total / double(maxBins));
    search.prefixes.assign(search.ranks.size(), 0);
    search.advance(16);
    anyMany |= search.hasMany;
  }
  for (bool isSecond : {true, false}) {
    if (!anyMany)
      break;
    pass(matrix, threads, searches, [&](Search &search, const Values &values) {
      if (search.hasMany)
        isSecond ? search.addSecond(values) : search.addThird(values);
    });
    for (Search &search : searches)
      search.advance(8);
  }
  StreamedCuts made;
  for (int64_t feature = 0; feature < matrix.columns; ++feature) {
    const Search &search = searches[feature];
    made.hasMissing.push_back(search.hasMissing);
    if (int64_t categories = matrix.categoriesOf(feature)) {
      made.cuts.appendCategories(categories);
      continue;
    }
    std::vector<float> values;
    for (uint32_t key : search.hasMany ? search.prefixes : search.few)
      if (key != search.least && (values.empty() || valueOfKey(key) > values.back()))
        values.push_back(valueOfKey(key));
    made.cuts.append(values, valueOfKey(search.least), valueOfKey(search.most), search.isEmpty);
  }
  return made;
}

} // namespace tensmith::trees
