// Histograms of dense bins in memory: the rows of a level in parts for threads, and their sums.
#include "trees/HistogramFinder.h"
#include "trees/RowHistogram.h"

#include <algorithm>

namespace tensmith::trees {

RowFinder::RowFinder(const Matrix &matrix, const Cuts &cuts, const Parameters &parameters,
                     Threads &threads, Exchange *exchange)
    : HistogramFinder(cuts, parameters, threads, exchange), bins_(matrix, cuts, threads),
      scratch_(threads.count()) {}

Status RowFinder::build(std::span<const int32_t> nodes) {
  int64_t rows = 0, parts = threads_.count();
  for (int32_t node : nodes)
    rows += (*tree_.nodes)[node].rows();
  std::vector<std::vector<Piece>> pieces(parts);
  int64_t before = 0;
  for (int32_t number : nodes) {
    const GrowingNode &node = (*tree_.nodes)[number];
    GradientSum *own = allot(number);
    if (node.rows() == 0)
      std::fill_n(own, size_, GradientSum());
    for (int64_t part = 0; part < parts; ++part) {
      int64_t begin = std::max(before, rows * part / parts) - before;
      int64_t end = std::min(before + node.rows(), rows * (part + 1) / parts) - before;
      if (begin >= end)
        continue;
      if (begin > 0)
        scratch_[part].resize(size_);
      pieces[part].push_back(
          {number, node.begin + begin, node.begin + end, begin > 0 ? scratch_[part].data() : own});
    }
    before += node.rows();
  }
  threads_.parts(parts, [&](int64_t part, int) {
    for (const Piece &piece : pieces[part]) {
      std::fill_n(piece.to, size_, GradientSum());
      accumulate(piece);
    }
  });
  for (int64_t part = 1; part < parts; ++part) {
    if (pieces[part].empty() || pieces[part][0].to != scratch_[part].data())
      continue;
    GradientSum *to = allot(pieces[part][0].node);
    const GradientSum *from = scratch_[part].data();
    threads_.ranges(size_, 1 << 12, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; ++at)
        to[at].add(from[at]);
    });
  }
  return sumTogether(nodes);
}

void RowFinder::accumulate(const Piece &piece) const {
  RowHistogram rows{tree_.gradients.data(), offsets_.data(), bins_.features(), prefetches_};
  std::span<const uint32_t> numbers = tree_.rows.subspan(piece.begin, piece.end - piece.begin);
  bool isAll = int64_t(numbers.size()) == numbers.back() - int64_t(numbers.front()) + 1;
  if (bins_.isByte())
    addRows(rows, bins_.bytes(), numbers, isAll, piece.to);
  else
    addRows(rows, bins_.words(), numbers, isAll, piece.to);
}

void RowFinder::sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const {
  bins_.look(split.feature, leftBinsOf(split, cuts_).data(), rows, left);
}

} // namespace tensmith::trees
