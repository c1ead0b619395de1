// Where the values of features are cut into bins.
//
// Feature f's cuts are values[begin[f] .. begin[f + 1]), ascending: bin b holds the values with cut
// b - 1 <= value < cut b, and the last cut is above all values that were seen (greater ones are in
// the last bin). Of at most `maxBins` different values each has a bin; of more, the cuts are
// the values at ranks k / maxBins of the rows' weight, found exactly. They depend on which values
// there are, not on their order, and so are the same for any number of processes. Of categories,
// bin b is category b.
#pragma once

#include "trees/Matrix.h"
#include "trees/SortedColumns.h"
#include "trees/Threads.h"
#include "trees/Training.h"

#include <span>
#include <vector>

namespace tensmith::trees {

struct Cuts {
  std::vector<int64_t> begin{0};
  std::vector<float> values;
  std::vector<float> least;           // by feature: what a split sends nothing below of
  std::vector<uint8_t> isCategorical; // by feature

  int64_t features() const { return int64_t(begin.size()) - 1; }
  int64_t bins(int64_t feature) const { return begin[feature + 1] - begin[feature]; }
  int64_t bins() const { return begin.back(); }
  std::span<const float> of(int64_t feature) const {
    return std::span(values).subspan(begin[feature], bins(feature));
  }
  /// Not of NaN.
  int32_t binOf(int64_t feature, float value) const;
  /// Where a split lies whose left side is the bins up to this one, -1 included.
  float threshold(int64_t feature, int32_t bin) const {
    return bin < 0 ? least[feature] : values[begin[feature] + bin];
  }
  /// The next feature's: the cuts of a number, with a last one above `most` (if there were values).
  void append(std::span<const float> cuts, float least, float most, bool isEmpty);
  void appendCategories(int64_t count);
};

/// Exact cuts; `exchange` null for one process.
Result<Cuts> makeCuts(const Matrix &matrix, int64_t maxBins, Threads &threads, Exchange *exchange);
/// The caller's.
Result<Cuts> takeCuts(const GivenCuts &given, const Matrix &matrix);

/// f32 to u32 in the same order.
inline uint32_t orderedKey(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value + 0.f); // -0 is 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
inline float valueOfKey(uint32_t key) {
  return __builtin_bit_cast(float, key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

} // namespace tensmith::trees
