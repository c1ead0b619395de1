// Columns without replacement: those with the least draws, at least one.
#include "trees/Sampling.h"

#include <algorithm>
#include <numeric>

namespace tensmith::trees {

namespace {

std::vector<int32_t> sampled(std::vector<int32_t> columns, double share, uint64_t draw) {
  if (share >= 1 || columns.empty())
    return columns;
  auto count = std::max<int64_t>(1, int64_t(double(columns.size()) * share));
  std::sort(columns.begin(), columns.end(), [&](int32_t a, int32_t b) {
    uint64_t first = mixed(draw, uint64_t(a)), second = mixed(draw, uint64_t(b));
    return first != second ? first < second : a < b;
  });
  columns.resize(count);
  return columns;
}

} // namespace

ColumnSampler::ColumnSampler(const Parameters &parameters, int64_t features)
    : byTree_(parameters.columnsByTree), byLevel_(parameters.columnsByLevel),
      byNode_(parameters.columnsByNode), features_(features),
      isSampling_(byTree_ < 1 || byLevel_ < 1 || byNode_ < 1) {}

void ColumnSampler::beginTree(uint64_t draw) {
  draw_ = draw;
  ofTree_.resize(features_);
  std::iota(ofTree_.begin(), ofTree_.end(), 0);
  ofTree_ = sampled(std::move(ofTree_), byTree_, mixed(draw, 1));
}

std::vector<uint8_t> ColumnSampler::columnsFor(int depth, int32_t node) const {
  std::vector<int32_t> columns = sampled(ofTree_, byLevel_, mixed(draw_, 2 + uint64_t(depth)));
  columns = sampled(std::move(columns), byNode_, mixed(draw_, (uint64_t(1) << 32) + node));
  std::vector<uint8_t> chosen(features_, 0);
  for (int32_t column : columns)
    chosen[column] = 1;
  return chosen;
}

} // namespace tensmith::trees
