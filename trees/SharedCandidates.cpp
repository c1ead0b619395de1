// Candidates as numbers: the fields, and a set of categories as bits, of which a double holds 52.
#include "trees/SharedCandidates.h"

#include "trees/HistogramScan.h"

#include <algorithm>
#include <cmath>

namespace tensmith::trees {

namespace {

constexpr int64_t kFields = 8, kBits = 52;

int64_t mostCategories(const Cuts &cuts) {
  int64_t most = 0;
  for (int64_t feature = 0; feature < cuts.features(); ++feature)
    most = std::max<int64_t>(most, cuts.isCategorical[feature] ? cuts.bins(feature) : 0);
  return most;
}

void write(const Candidate &candidate, std::span<double> to) {
  to[0] = candidate.gain, to[1] = candidate.feature, to[2] = candidate.bin;
  to[3] = candidate.missingLeft;
  to[4] = candidate.left.first, to[5] = candidate.left.second;
  to[6] = candidate.right.first, to[7] = candidate.right.second;
  std::fill(to.begin() + kFields, to.end(), 0.);
  for (int32_t category : candidate.categories)
    to[kFields + category / kBits] += std::ldexp(1., category % kBits);
}

Candidate read(std::span<const double> from, const Cuts &cuts) {
  Candidate candidate;
  candidate.gain = float(from[0]);
  candidate.feature = int32_t(from[1]), candidate.bin = int32_t(from[2]);
  candidate.missingLeft = from[3] != 0;
  candidate.left = {from[4], from[5]}, candidate.right = {from[6], from[7]};
  if (candidate.isNone())
    return candidate;
  for (size_t word = kFields; word < from.size(); ++word)
    for (auto bits = uint64_t(from[word]), bit = uint64_t(0); bits >> bit; ++bit)
      if (bits >> bit & 1)
        candidate.categories.push_back(int32_t((int64_t(word) - kFields) * kBits + int64_t(bit)));
  if (candidate.categories.empty())
    candidate.threshold = binsOf(cuts, candidate.feature).threshold(candidate.bin);
  return candidate;
}

} // namespace

Status shareBest(std::span<GrowingNode *const> nodes, const Cuts &cuts, Exchange &exchange) {
  auto width = size_t(kFields + (mostCategories(cuts) + kBits - 1) / kBits);
  std::vector<double> own(nodes.size() * width), all(own.size() * size_t(exchange.size()));
  for (size_t at = 0; at < nodes.size(); ++at)
    write(nodes[at]->best, std::span(own).subspan(at * width, width));
  if (Status status = exchange.gather(own, all); !status.ok())
    return status;
  for (size_t at = 0; at < nodes.size(); ++at) {
    nodes[at]->best = {};
    for (size_t from = at * width; from < all.size(); from += own.size())
      nodes[at]->best.take(read(std::span(all).subspan(from, width), cuts));
  }
  return {};
}

} // namespace tensmith::trees
