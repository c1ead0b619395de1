// Split finding by histograms of dense bins, row by row.
//
// Of two children the one with fewer rows gets its histogram made, and the other's is the parent's
// less that. The rows of a level are cut into as many equal parts as there are threads; a node that
// lies in several parts has a histogram in each, which are added up. The memory of a level stays
// until the next one is made.
//
// Of several processes each adds up and scans the histograms of its own share of the features, and
// all take the best split of any (SharedCandidates.h): half as much is sent as if all had all sums.
#pragma once

#include "trees/Bins.h"
#include "trees/HistogramScan.h"

#include <deque>

namespace tensmith::trees {

class HistogramFinder : public SplitFinder {
public:
  HistogramFinder(const Cuts &cuts, const Parameters &parameters, Threads &threads,
                  Exchange *exchange);

  Status begin(const GrowingTree &tree) override;
  Status find(std::span<const int32_t> nodes) override;

protected:
  /// Makes the histograms of these nodes, of all processes.
  virtual Status build(std::span<const int32_t> nodes) = 0;
  /// Memory for a node's histogram, its own if it has some.
  GradientSum *allot(int32_t node);
  void release(int32_t node);
  /// Over the processes, of the features that are this one's to scan.
  Status sumTogether(std::span<const int32_t> nodes);

  const Cuts &cuts_;
  Threads &threads_;
  Exchange *exchange_;
  bool subtracts_, prefetches_;
  bool buildsByHessians_; // of two children, the one whose sum is smaller; else who has fewer rows
  GrowingTree tree_;
  std::vector<uint32_t>
      offsets_;      // of features in a histogram: their bins, and one for missing values
  int64_t size_ = 0; // of a histogram

private:
  void layOut();
  Status evaluate(std::span<const int32_t> built, std::span<const int32_t> derived);
  void scanFeatures(int32_t node, int64_t begin, int64_t end, Candidate &best) const;

  CategoryLimits limits_;
  int64_t firstFeature_ = 0, endFeature_; // that are scanned here
  std::deque<std::vector<GradientSum>> memory_;
  std::vector<std::vector<GradientSum> *> free_;
  std::vector<std::vector<GradientSum> *> histograms_; // by node; null: none
};

/// With all bins in memory.
class RowFinder : public HistogramFinder {
public:
  RowFinder(const Matrix &matrix, const Cuts &cuts, const Parameters &parameters, Threads &threads,
            Exchange *exchange);

  void sides(const Candidate &split, std::span<const uint32_t> rows, uint8_t *left) const override;

private:
  struct Piece { // of a node's rows, in one part
    int32_t node;
    int64_t begin, end;
    GradientSum *to;
  };
  Status build(std::span<const int32_t> nodes) override;
  void accumulate(const Piece &piece) const;

  DenseBins bins_;
  std::vector<std::vector<GradientSum>> scratch_; // by part
};

} // namespace tensmith::trees
