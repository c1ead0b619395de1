// Rows into histograms, for bytes and for words.
#include "trees/RowHistogram.h"

namespace tensmith::trees {

namespace {

using Pair = double __attribute__((vector_size(16), aligned(8)));

constexpr size_t kAhead = 12; // rows; 8 to 24 are alike
constexpr int64_t kLine = 64;

template <typename Bin>
inline void prefetchRow(const RowHistogram &rows, const Bin *bins, uint32_t number) {
  __builtin_prefetch(&rows.gradients[number]);
  auto *begin = reinterpret_cast<const char *>(bins + (number - rows.firstRow) * rows.features);
  for (int64_t at = 0; at < rows.features * int64_t(sizeof(Bin)); at += kLine)
    __builtin_prefetch(begin + at);
}

template <typename Bin>
inline void addRow(const RowHistogram &rows, const Bin *bins, uint32_t number, Pair *histogram) {
  const Gradient &gradient = rows.gradients[number];
  Pair sum{double(gradient.first), double(gradient.second)};
  const Bin *row = bins + (number - rows.firstRow) * rows.features;
  const uint32_t *offset = rows.offsets;
  int64_t feature = 0;
  for (; feature + 4 <= rows.features; feature += 4) {
    histogram[offset[feature] + row[feature]] += sum;
    histogram[offset[feature + 1] + row[feature + 1]] += sum;
    histogram[offset[feature + 2] + row[feature + 2]] += sum;
    histogram[offset[feature + 3] + row[feature + 3]] += sum;
  }
  for (; feature < rows.features; ++feature)
    histogram[offset[feature] + row[feature]] += sum;
}

template <typename Bin>
void add(const RowHistogram &rows, const Bin *bins, std::span<const uint32_t> numbers, bool isAll,
         GradientSum *histogram) {
  auto *sums = reinterpret_cast<Pair *>(histogram);
  size_t at = 0, count = numbers.size();
  if (!isAll && rows.prefetches)
    for (; at + kAhead < count; ++at) {
      prefetchRow(rows, bins, numbers[at + kAhead]);
      addRow(rows, bins, numbers[at], sums);
    }
  for (; at < count; ++at)
    addRow(rows, bins, numbers[at], sums);
}

} // namespace

void addRows(const RowHistogram &rows, const uint8_t *bins, std::span<const uint32_t> numbers,
             bool isAll, GradientSum *histogram) {
  add(rows, bins, numbers, isAll, histogram);
}

void addRows(const RowHistogram &rows, const uint16_t *bins, std::span<const uint32_t> numbers,
             bool isAll, GradientSum *histogram) {
  add(rows, bins, numbers, isAll, histogram);
}

} // namespace tensmith::trees
