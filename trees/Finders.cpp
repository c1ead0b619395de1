// The choice of a finder, and conversions between dense and sparse rows.
#include "trees/Finders.h"

#include "trees/ApproxFinder.h"
#include "trees/ExactFinder.h"
#include "trees/PagedFinder.h"
#include "trees/SparseFinder.h"
#include "trees/StreamedCuts.h"

#include <cmath>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

constexpr double kSparse = 0.2; // share of the values that are present

struct SparseStorage {
  std::vector<int64_t> rowBegin;
  std::vector<int32_t> column;
  std::vector<float> value;
};

double shareOfPresent(const Matrix &matrix, Threads &threads, Exchange *exchange) {
  std::atomic<int64_t> present{0};
  if (matrix.isSparse())
    present = matrix.entries();
  else
    threads.ranges(matrix.rows, 4096, [&](int64_t begin, int64_t end, int) {
      int64_t count = 0;
      for (int64_t at = begin * matrix.columns; at < end * matrix.columns; ++at)
        count += !std::isnan(matrix.dense[at]);
      present += count;
    });
  std::vector<double> sums{double(present), double(matrix.rows) * double(matrix.columns)};
  if (exchange && !exchange->sum(sums).ok())
    return 1; // the next collective says what is wrong
  return sums[1] > 0 ? sums[0] / sums[1] : 1;
}

Matrix withoutValues(const Matrix &matrix) {
  Matrix copy;
  copy.rows = matrix.rows, copy.columns = matrix.columns;
  copy.weights = matrix.weights;
  copy.features = matrix.features;
  return copy;
}

Matrix toSparse(const Matrix &matrix) {
  auto storage = std::make_shared<SparseStorage>();
  storage->rowBegin.push_back(0);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t column = 0; column < matrix.columns; ++column)
      if (float value = matrix.dense[row * matrix.columns + column]; !std::isnan(value)) {
        storage->column.push_back(int32_t(column));
        storage->value.push_back(value);
      }
    storage->rowBegin.push_back(int64_t(storage->column.size()));
  }
  Matrix sparse = withoutValues(matrix);
  sparse.rowBegin = storage->rowBegin.data();
  sparse.column = storage->column.data();
  sparse.value = storage->value.data();
  sparse.owner = storage;
  return sparse;
}

Matrix toDense(const Matrix &matrix) {
  auto storage = std::make_shared<std::vector<float>>(matrix.rows * matrix.columns, std::nanf(""));
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t entry = matrix.rowBegin[row]; entry < matrix.rowBegin[row + 1]; ++entry)
      (*storage)[row * matrix.columns + matrix.column[entry]] = matrix.value[entry];
  Matrix dense = withoutValues(matrix);
  dense.dense = storage->data();
  dense.owner = storage;
  return dense;
}

/// Whether the bins of a histogram, one a feature for missing values included, have 32-bit places.
Status checkSize(const Cuts &cuts) {
  int64_t bins = int64_t(cuts.values.size()) + cuts.features();
  if (bins <= int64_t(UINT32_MAX))
    return {};
  return unsupported(fmt::format(
      "a histogram of all features has {} bins; at most {} are taken: use fewer max_bins", bins,
      UINT32_MAX));
}

/// Bins in blocks on disk.
Status openBlocks(const TrainingInput &input, const Parameters &parameters, Threads &threads,
                  FinderWithCuts &opened) {
  const Matrix &matrix = *input.matrix;
  if (matrix.isSparse() || input.exchange)
    return unsupported("blocks on disk are made of dense rows and for one process; leave out "
                       "the parameter blocks");
  std::vector<uint8_t> hasMissing(matrix.columns, 1); // it may
  if (input.cuts) {
    Result<Cuts> cuts = takeCuts(*input.cuts, matrix);
    if (!cuts)
      return cuts.status();
    opened.cuts = std::move(*cuts);
  } else {
    StreamedCuts made = makeCutsInPasses(matrix, parameters.maxBins, threads);
    opened.cuts = std::move(made.cuts), hasMissing = std::move(made.hasMissing);
  }
  if (Status status = checkSize(opened.cuts); !status.ok())
    return status;
  Result<std::unique_ptr<BlockStore>> store = BlockStore::write(
      parameters.blocks, matrix, opened.cuts, hasMissing, parameters.compression, threads);
  if (!store)
    return store.status();
  opened.finder = std::make_unique<PagedFinder>(std::move(*store), opened.cuts, parameters,
                                                matrix.rows, threads, nullptr);
  return {};
}

Status openHistograms(const TrainingInput &input, const Parameters &parameters, Threads &threads,
                      FinderWithCuts &opened) {
  const Matrix *matrix = input.matrix;
  bool isSparse = shareOfPresent(*matrix, threads, input.exchange) < kSparse;
  if (isSparse != matrix->isSparse()) {
    opened.matrix = isSparse ? toSparse(*matrix) : toDense(*matrix);
    matrix = &opened.matrix;
  }
  Result<Cuts> cuts = input.cuts ? takeCuts(*input.cuts, *matrix)
                                 : makeCuts(*matrix, parameters.maxBins, threads, input.exchange);
  if (!cuts)
    return cuts.status();
  opened.cuts = std::move(*cuts);
  if (Status status = checkSize(opened.cuts); !status.ok())
    return status;
  if (isSparse)
    opened.finder =
        std::make_unique<SparseFinder>(*matrix, opened.cuts, parameters, threads, input.exchange);
  else
    opened.finder =
        std::make_unique<RowFinder>(*matrix, opened.cuts, parameters, threads, input.exchange);
  opened.matrix = {}; // bins are all that is read from now on
  return {};
}

} // namespace

Result<std::unique_ptr<FinderWithCuts>> openFinder(const TrainingInput &input,
                                                   const Parameters &parameters, Threads &threads) {
  auto opened = std::make_unique<FinderWithCuts>();
  if (parameters.method == "exact") {
    opened->finder = std::make_unique<ExactFinder>(*input.matrix, parameters, threads);
    return opened;
  }
  if (parameters.method == "approx") {
    opened->finder =
        std::make_unique<ApproxFinder>(*input.matrix, parameters, threads, input.exchange);
    return opened;
  }
  if (!parameters.blocks.empty()) {
    if (Status status = openBlocks(input, parameters, threads, *opened); !status.ok())
      return status;
    return opened;
  }
  if (Status status = openHistograms(input, parameters, threads, *opened); !status.ok())
    return status;
  return opened;
}

} // namespace tensmith::trees
