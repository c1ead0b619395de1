// Exact cuts of columns: of one process by a radix sort of its values, of several by the digits of
// the values that are looked for, each found from counts that are summed over the processes.
#include "trees/Cuts.h"

#include "trees/RankSearch.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

int32_t Cuts::binOf(int64_t feature, float value) const {
  const float *first = values.data() + begin[feature];
  int64_t count = bins(feature);
  if (isCategorical[feature])
    return int32_t(std::min<int64_t>(int64_t(value), count - 1));
  const float *at = first;
  for (int64_t left = count; left > 1;) { // without branches, which would be mispredicted
    int64_t half = left / 2;
    at += at[half - 1] <= value ? half : 0;
    left -= half;
  }
  int64_t bin = at - first + (*at <= value);
  return int32_t(std::min(bin, count - 1));
}

void Cuts::append(std::span<const float> cuts, float lowest, float most, bool isEmpty) {
  values.insert(values.end(), cuts.begin(), cuts.end());
  // As XGBoost has it: above the greatest value, by as much as it is away from zero.
  float last = most + (std::fabs(most) + 1e-5f);
  values.push_back(isEmpty ? 1e-5f : std::isfinite(last) ? last : HUGE_VALF);
  least.push_back(isEmpty ? 0 : lowest - (std::fabs(lowest) + 1e-5f));
  begin.push_back(int64_t(values.size()));
  isCategorical.push_back(0);
}

void Cuts::appendCategories(int64_t count) {
  for (int64_t category = 0; category < count; ++category)
    values.push_back(float(category));
  least.push_back(-1);
  begin.push_back(int64_t(values.size()));
  isCategorical.push_back(1);
}

namespace {

struct Column {
  std::vector<uint32_t> keys; // of the present values
  std::vector<float> weights; // beside them; empty: 1
};

void gather(const Matrix &matrix, int64_t feature, Column &column) {
  column.keys.clear();
  column.weights.clear();
  bool isWeighted = int64_t(matrix.weights.size()) == matrix.rows;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    float value = matrix.dense[row * matrix.columns + feature];
    if (std::isnan(value))
      continue;
    column.keys.push_back(orderedKey(value));
    if (isWeighted)
      column.weights.push_back(matrix.weights[row]);
  }
}

/// By least significant digits of 11 bits.
void sortByKey(Column &column, std::vector<uint32_t> &keys, std::vector<float> &weights) {
  size_t count = column.keys.size();
  keys.resize(count);
  weights.resize(column.weights.size());
  for (int shift = 0; shift < 33; shift += 11) {
    std::vector<uint32_t> begin(2049, 0);
    for (uint32_t key : column.keys)
      ++begin[((key >> shift) & 2047) + 1];
    for (int digit = 0; digit < 2048; ++digit)
      begin[digit + 1] += begin[digit];
    for (size_t at = 0; at < count; ++at) {
      uint32_t to = begin[(column.keys[at] >> shift) & 2047]++;
      keys[to] = column.keys[at];
      if (!weights.empty())
        weights[to] = column.weights[at];
    }
    std::swap(keys, column.keys);
    std::swap(weights, column.weights);
  }
}

struct FeatureCuts {
  std::vector<float> cuts;
  float least = 0, most = 0;
  bool isEmpty = true;
};

FeatureCuts cutsOfSorted(const Column &column, int64_t maxBins) {
  FeatureCuts result;
  const std::vector<uint32_t> &keys = column.keys;
  if (keys.empty())
    return result;
  result.isEmpty = false;
  result.least = valueOfKey(keys.front()), result.most = valueOfKey(keys.back());
  int64_t different = 1;
  double total = 0;
  for (size_t at = 0; at < keys.size(); ++at) {
    different += at > 0 && keys[at] != keys[at - 1];
    total += column.weights.empty() ? 1 : column.weights[at];
  }
  double before = 0;
  int64_t rank = 1;
  for (size_t at = 0; at < keys.size();) {
    size_t next = at;
    double weight = 0;
    for (; next < keys.size() && keys[next] == keys[at]; ++next)
      weight += column.weights.empty() ? 1 : column.weights[next];
    bool isCut = different <= maxBins;
    for (; rank < maxBins && double(rank) * total / double(maxBins) < before + weight; ++rank)
      isCut = true;
    if (isCut && at > 0)
      result.cuts.push_back(valueOfKey(keys[at]));
    before += weight;
    at = next;
  }
  return result;
}

/// Sparse columns are gathered at once, in compressed sparse columns.
std::vector<Column> gatherSparse(const Matrix &matrix) {
  std::vector<Column> columns(matrix.columns);
  bool isWeighted = int64_t(matrix.weights.size()) == matrix.rows;
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t entry = matrix.rowBegin[row]; entry < matrix.rowBegin[row + 1]; ++entry) {
      if (std::isnan(matrix.value[entry]))
        continue;
      Column &column = columns[matrix.column[entry]];
      column.keys.push_back(orderedKey(matrix.value[entry]));
      if (isWeighted)
        column.weights.push_back(matrix.weights[row]);
    }
  return columns;
}

Cuts joined(const Matrix &matrix, const std::vector<FeatureCuts> &features) {
  Cuts cuts;
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    if (int64_t categories = matrix.categoriesOf(feature))
      cuts.appendCategories(categories);
    else
      cuts.append(features[feature].cuts, features[feature].least, features[feature].most,
                  features[feature].isEmpty);
  return cuts;
}

} // namespace

Result<Cuts> makeCuts(const Matrix &matrix, int64_t maxBins, Threads &threads, Exchange *exchange) {
  std::vector<FeatureCuts> features(matrix.columns);
  std::vector<Column> sparse;
  if (matrix.isSparse())
    sparse = gatherSparse(matrix);
  struct Scratch {
    Column column;
    std::vector<uint32_t> keys;
    std::vector<float> weights;
  };
  std::vector<Scratch> scratch(threads.count());
  std::vector<Column> kept(exchange ? matrix.columns : 0);
  threads.parts(matrix.columns, [&](int64_t feature, int thread) {
    auto &[column, keys, weights] = scratch[thread];
    if (matrix.categoriesOf(feature) != 0)
      return;
    if (matrix.isSparse())
      column = std::move(sparse[feature]);
    else
      gather(matrix, feature, column);
    sortByKey(column, keys, weights);
    if (exchange)
      kept[feature] = std::move(column);
    else
      features[feature] = cutsOfSorted(column, maxBins);
  });
  if (!exchange)
    return joined(matrix, features);
  for (int64_t feature = 0; feature < matrix.columns; ++feature) {
    if (matrix.categoriesOf(feature) != 0)
      continue;
    Result<SharedCuts> shared =
        cutsOfAll(kept[feature].keys, kept[feature].weights, maxBins, *exchange);
    if (!shared)
      return shared.status();
    FeatureCuts &to = features[feature];
    to.isEmpty = shared->isEmpty;
    to.least = valueOfKey(shared->least), to.most = valueOfKey(shared->most);
    for (uint32_t key : shared->keys)
      to.cuts.push_back(valueOfKey(key));
  }
  return joined(matrix, features);
}

Result<Cuts> takeCuts(const GivenCuts &given, const Matrix &matrix) {
  if (int64_t(given.begin.size()) != matrix.columns + 1 || given.begin.front() != 0 ||
      given.begin.back() != int64_t(given.values.size()))
    return invalidArgument(fmt::format(
        "The cuts are of {} features, and the matrix has {} columns; give cuts for each column",
        int64_t(given.begin.size()) - 1, matrix.columns));
  Cuts cuts;
  for (int64_t feature = 0; feature < matrix.columns; ++feature) {
    if (int64_t categories = matrix.categoriesOf(feature)) {
      cuts.appendCategories(categories);
      continue;
    }
    int64_t begin = given.begin[feature], end = given.begin[feature + 1];
    bool isValid = begin < end && end <= int64_t(given.values.size());
    if (isValid && end - begin > kMostBins)
      return invalidArgument(fmt::format("The cuts of feature {} are {}; at most {} are taken",
                                         feature, end - begin, kMostBins));
    for (int64_t at = begin + 1; isValid && at < end; ++at)
      isValid = given.values[at - 1] < given.values[at];
    if (!isValid || std::isnan(given.values[begin]))
      return invalidArgument(fmt::format(
          "The cuts of feature {} must be at least one, and ascend without equal ones", feature));
    std::span<const float> own = std::span(given.values).subspan(begin, end - begin);
    cuts.append(own.first(own.size() - 1), own.front(), 0, false);
    cuts.values.back() = own.back();
  }
  return cuts;
}

} // namespace tensmith::trees
