// TreeGRU: a gated recurrent unit at each loop, from the innermost outwards, whose state at the
// root says how fast the program is (Chen et al., Learning to optimize tensor programs, 2018).
//
// The state of a loop is made of its own numbers and of the sum of its children's states (Tai et
// al., child-sum, 2015). All loops of a batch are updated at once, as often as a tree is high: what
// is at the bottom is right after one update, what is above it after two, and so on. So trees of
// any form are one program without recursion: products of an adjacency matrix.
//
// Labels are as the trees' (TreesModel.cpp): the logarithm of speed against the kernel's fastest,
// and half the slowest's for what failed.
#include "tune/model/CostModel.h"

#include "tune/model/TrainedProgram.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::tune {
namespace {

constexpr size_t kLoops = 24, kNumbers = 31; // of a row
constexpr size_t kHeight = 8;                // loops around one another, the root among them
constexpr size_t kHidden = 32, kBatch = 32;
constexpr int kUpdates = 400;
constexpr double kNoLoop = -2; // in place of a parent

/// The state of the root of each tree.
std::string unitText(bool isStep) {
  auto layer = [&](const char *name) {
    return isStep ? std::string(name) : fmt::format("({0}, {0}_bias)", name);
  };
  std::string text =
      fmt::format("  let z_own = dense(loops, {});\n  let r_own = dense(loops, {});\n"
                  "  let h_own = dense(loops, {});\n"
                  "  let h0 = (1.0 - sigmoid(z_own)) * tanh(h_own);\n",
                  layer("z_in"), layer("r_in"), layer("h_in"));
  for (size_t level = 1; level < kHeight; ++level)
    text += fmt::format(
        "  let s{0} = within @ h{1};\n  let z{0} = sigmoid(z_own + dense(s{0}, {2}));\n"
        "  let r{0} = sigmoid(r_own + dense(s{0}, {3}));\n"
        "  let h{0} = z{0} * s{0} + (1.0 - z{0}) * tanh(h_own + dense(r{0} * s{0}, {4}));\n",
        level, level - 1, layer("z_state"), layer("r_state"), layer("h_state"));
  return text + fmt::format("  let top = reduce_sum(h{} * root, axes = [1], keepdims = false);\n"
                            "  let score = dense(top, {});\n",
                            kHeight - 1, layer("out"));
}

TrainedProgram::Text textOf(Loss loss) {
  struct Layer {
    const char *name;
    size_t rows, columns;
  };
  const Layer layers[] = {{"z_in", kNumbers, kHidden},
                          {"r_in", kNumbers, kHidden},
                          {"h_in", kNumbers, kHidden},
                          {"z_state", kHidden, kHidden},
                          {"r_state", kHidden, kHidden},
                          {"h_state", kHidden, kHidden},
                          {"out", kHidden, 1}};
  TrainedProgram::Text text;
  std::string states;
  text.step = text.forward =
      "import \"tensmith/dense.tsm\"\nimport \"tensmith/activations.tsm\"\n\n";
  for (const Layer &each : layers) {
    text.step +=
        fmt::format("let {} = dense_weights({}, {})\n", each.name, each.rows, each.columns);
    states +=
        fmt::format(", {0}: f32[{1}, {2}], {0}_bias: f32[{2}]", each.name, each.rows, each.columns);
    text.states.push_back(std::string(each.name) + ".0");
    text.states.push_back(std::string(each.name) + ".1");
  }
  const std::string inputs =
      fmt::format("loops: f32[{0}, {1}, {2}], within: f32[{0}, {1}, {1}], root: f32[{0}, {1}, 1]",
                  kBatch, kLoops, kNumbers);
  std::string lossText = loss == Loss::Regression
                             ? "  let losses = (score - label) * (score - label);\n"
                             : "  let ahead = score - transpose(score, permutation = [1, 0]);\n"
                               "  let losses = faster * softplus(-ahead);\n";
  text.step +=
      fmt::format("\nfn main({}, {}) = {{\n{}{}  reduce_sum(losses, axes = [0, 1], keepdims = "
                  "false) / {}.0\n}}\n",
                  inputs,
                  loss == Loss::Regression ? fmt::format("label: f32[{}, 1]", kBatch)
                                           : fmt::format("faster: f32[{0}, {0}]", kBatch),
                  unitText(true), lossText, kBatch);
  text.forward +=
      fmt::format("fn main({}{}) = {{\n{}  score\n}}\n", inputs, states, unitText(false));
  return text;
}

class TreeGru : public CostModel {
public:
  TreeGru(Loss loss, uint64_t seed) : loss_(loss), seed_(seed) {}

  void fit(std::span<const Features> rows, std::span<const double> seconds,
           std::span<const int64_t> groups) override {
    program_.reset();
    if (rows.size() < kFewestRows)
      return;
    const int64_t all[] = {int64_t(rows.size())};
    if (groups.empty())
      groups = all;
    program_ = TrainedProgram::of(textOf(loss_));
    standardise(rows);
    std::vector<float> labels = speedLabels(seconds, groups);
    Random random(seed_);
    for (int update = 0; update < kUpdates; ++update) {
      // Of one kernel, since only its times are compared.
      auto [first, size] = drawnGroup(groups, random);
      std::vector<size_t> batch;
      while (batch.size() < kBatch)
        batch.push_back(first + random.below(size));
      feed(rows, labels, batch);
      program_->learn();
    }
  }

  bool isFitted() const override { return program_ != nullptr; }

  std::vector<Prediction> predict(std::span<const Features> rows) const override {
    std::vector<Prediction> predictions(rows.size());
    for (size_t first = 0; program_ && first < rows.size(); first += kBatch) {
      size_t count = std::min(kBatch, rows.size() - first);
      std::vector<Tensor> &judged = program_->judged();
      for (size_t row = 0; row < count; ++row)
        put(judged, row, rows[first + row]);
      std::vector<Tensor> results = program_->judge();
      for (size_t row = 0; row < count; ++row)
        predictions[first + row].score = results[0].as<float>()[row];
    }
    return predictions;
  }

private:
  static std::pair<size_t, size_t> drawnGroup(std::span<const int64_t> groups, Random &random) {
    size_t rows = 0;
    for (int64_t size : groups)
      rows += size_t(size);
    size_t drawn = random.below(rows), first = 0;
    for (int64_t size : groups) {
      if (drawn < first + size_t(size))
        return {first, size_t(size)};
      first += size_t(size);
    }
    return {0, rows};
  }

  static bool isLoop(const Features &row, size_t loop) {
    return loop * (kNumbers + 1) < row.size() && row[loop * (kNumbers + 1)] != kNoLoop;
  }
  static double number(const Features &row, size_t loop, size_t which) {
    return row[loop * (kNumbers + 1) + 1 + which];
  }

  /// Numbers become those of mean 0 and deviation 1 over all loops.
  void standardise(std::span<const Features> rows) {
    means_.assign(kNumbers, 0);
    scales_.assign(kNumbers, 0);
    double count = 0;
    auto visit = [&](auto &&add) {
      for (const Features &row : rows)
        for (size_t loop = 0; loop < kLoops && isLoop(row, loop); ++loop)
          for (size_t i = 0; i < kNumbers; ++i)
            add(i, number(row, loop, i));
    };
    visit([&](size_t i, double value) { means_[i] += value, count += i == 0; });
    for (double &mean : means_)
      mean /= std::max(count, 1.0);
    visit([&](size_t i, double value) { scales_[i] += (value - means_[i]) * (value - means_[i]); });
    for (double &scale : scales_)
      scale = scale > 0 ? 1 / std::sqrt(scale / count) : 0;
  }

  void put(std::vector<Tensor> &into, size_t row, const Features &features) const {
    float *loops = into[0].as<float>() + row * kLoops * kNumbers;
    float *within = into[1].as<float>() + row * kLoops * kLoops;
    float *root = into[2].as<float>() + row * kLoops;
    std::fill_n(loops, kLoops * kNumbers, 0.f);
    std::fill_n(within, kLoops * kLoops, 0.f);
    std::fill_n(root, kLoops, 0.f);
    root[0] = 1;
    for (size_t loop = 0; loop < kLoops && isLoop(features, loop); ++loop) {
      for (size_t i = 0; i < kNumbers; ++i)
        loops[loop * kNumbers + i] = float((number(features, loop, i) - means_[i]) * scales_[i]);
      if (double parent = features[loop * (kNumbers + 1)]; parent >= 0)
        within[size_t(parent) * kLoops + loop] = 1;
    }
  }

  void feed(std::span<const Features> rows, std::span<const float> labels,
            std::span<const size_t> batch) {
    std::vector<Tensor> &fed = program_->fed();
    for (size_t row = 0; row < kBatch; ++row) {
      put(fed, row, rows[batch[row]]);
      if (loss_ == Loss::Regression)
        fed[3].as<float>()[row] = labels[batch[row]];
      else
        for (size_t other = 0; other < kBatch; ++other)
          fed[3].as<float>()[row * kBatch + other] =
              labels[batch[row]] > labels[batch[other]] + kDiffers ? 1.f / kBatch : 0.f;
    }
  }

  Loss loss_;
  uint64_t seed_;
  std::unique_ptr<TrainedProgram> program_;
  std::vector<double> means_, scales_;
};

} // namespace

Features treeFeatures(std::span<const Loop> loops) {
  Features row(kLoops * (kNumbers + 1), 0);
  for (size_t loop = 0; loop < kLoops; ++loop) {
    double *place = row.data() + loop * (kNumbers + 1);
    *place = kNoLoop;
    if (loop >= loops.size())
      continue;
    *place = double(loops[loop].parent);
    std::copy_n(loops[loop].numbers.begin(), std::min(kNumbers, loops[loop].numbers.size()),
                place + 1);
  }
  return row;
}

std::unique_ptr<CostModel> treeGruModel(Loss loss, uint64_t seed) {
  return std::make_unique<TreeGru>(loss, seed);
}

} // namespace tensmith::tune
