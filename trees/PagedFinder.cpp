// Passes over blocks. The rows of a node ascend, so those of a block are found by two searches.
#include "trees/PagedFinder.h"

#include "trees/RowHistogram.h"

#include <algorithm>

namespace tensmith::trees {

PagedFinder::PagedFinder(std::unique_ptr<BlockStore> store, const Cuts &cuts,
                         const Parameters &parameters, int64_t rows, Threads &threads,
                         Exchange *exchange)
    : HistogramFinder(cuts, parameters, threads, exchange), store_(std::move(store)), sides_(rows) {
  buildsByHessians_ = true;
}

Status PagedFinder::begin(const GrowingTree &tree) {
  isBuilt_.clear();
  return HistogramFinder::begin(tree);
}

Status PagedFinder::beginSplit(std::span<const int32_t> nodes, bool childrenGrow) {
  std::vector<Task> tasks;
  const std::vector<GrowingNode> &all = *tree_.nodes;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const Candidate &split = all[nodes[at]].best;
    Task task{nodes[at], leftBinsOf(split, cuts_), split.feature};
    task.buildsLeft = split.left.second <= split.right.second;
    if (childrenGrow && subtracts_) {
      int32_t child = int32_t(all.size() + 2 * at) + !task.buildsLeft;
      task.histogram = allot(child);
      isBuilt_.resize(std::max<size_t>(isBuilt_.size(), child + 1), 0);
      isBuilt_[child] = 1;
    }
    tasks.push_back(std::move(task));
  }
  return tasks.empty() ? Status() : pass(tasks);
}

Status PagedFinder::build(std::span<const int32_t> nodes) {
  std::vector<Task> tasks;
  for (int32_t node : nodes)
    if (node >= int32_t(isBuilt_.size()) || !isBuilt_[node]) {
      Task task{node, {}};
      task.histogram = allot(node);
      tasks.push_back(std::move(task));
    }
  if (!tasks.empty())
    if (Status status = pass(tasks); !status.ok())
      return status;
  return sumTogether(nodes);
}

Status PagedFinder::pass(std::vector<Task> &tasks) {
  auto threads = size_t(threads_.count());
  threads_.parts(int64_t(tasks.size()), [&](int64_t task, int) {
    if (GradientSum *histogram = tasks[size_t(task)].histogram)
      std::fill_n(histogram, size_, GradientSum());
  });
  // By thread and task. The first thread's are the nodes' own; others' are made when needed.
  std::vector<std::vector<GradientSum>> more((threads - 1) * tasks.size());
  BlockStore::Reader reader(*store_);
  threads_.parts(int64_t(threads), [&](int64_t part, int) {
    BlockStore::Bins bins;
    std::vector<uint32_t> chosen;
    while (std::optional<BlockStore::Block> block = reader.next(bins))
      for (size_t at = 0; at < tasks.size(); ++at) {
        const GrowingNode &node = (*tree_.nodes)[tasks[at].node];
        std::span<const uint32_t> rows = tree_.rows.subspan(node.begin, node.rows());
        auto begin = std::lower_bound(rows.begin(), rows.end(), uint32_t(block->firstRow));
        auto end = std::lower_bound(begin, rows.end(), uint32_t(block->firstRow + block->rows));
        if (begin == end)
          continue;
        GradientSum *histogram = tasks[at].histogram;
        if (histogram && part > 0) {
          std::vector<GradientSum> &own = more[(size_t(part) - 1) * tasks.size() + at];
          own.resize(size_);
          histogram = own.data();
        }
        doTask(tasks[at], *block, bins, {begin, end}, chosen, histogram);
      }
  });
  threads_.parts(int64_t(tasks.size()), [&](int64_t task, int) {
    for (size_t of = size_t(task); of < more.size(); of += tasks.size())
      for (size_t at = 0; at < more[of].size(); ++at)
        tasks[task].histogram[at].add(more[of][at]);
  });
  return reader.status();
}

void PagedFinder::doTask(const Task &task, const BlockStore::Block &block,
                         const BlockStore::Bins &bins, std::span<const uint32_t> rows,
                         std::vector<uint32_t> &chosen, GradientSum *histogram) {
  int64_t features = store_->features();
  if (!task.leftBins.empty()) {
    chosen.clear();
    for (uint32_t row : rows) {
      int64_t at = (int64_t(row) - block.firstRow) * features + task.feature;
      uint8_t left = task.leftBins[store_->isByte() ? bins.bytes[at] : bins.words[at]];
      sides_[row] = left;
      if (task.histogram && left == task.buildsLeft)
        chosen.push_back(row);
    }
    rows = chosen;
  }
  if (!histogram || rows.empty())
    return;
  RowHistogram loop{tree_.gradients.data(), offsets_.data(), features, prefetches_, block.firstRow};
  if (store_->isByte())
    addRows(loop, bins.bytes.data(), rows, false, histogram);
  else
    addRows(loop, bins.words.data(), rows, false, histogram);
}

void PagedFinder::sides(const Candidate &, std::span<const uint32_t> rows, uint8_t *left) const {
  for (size_t at = 0; at < rows.size(); ++at)
    left[at] = sides_[rows[at]];
}

} // namespace tensmith::trees
