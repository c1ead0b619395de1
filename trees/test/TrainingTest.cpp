// What a training promises, whatever the data: the same forest from any number of threads and
// processes, from sparse and dense rows, with constraints kept.
#include "trees/Agreement.h"
#include "trees/Booster.h"
#include "trees/HistogramFinder.h"
#include "trees/Prediction.h"
#include "trees/SparseFinder.h"
#include "trees/TreeOutputs.h"

#include "trees/test/Data.h"
#include "trees/test/SharedMemoryExchange.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace tensmith;
using namespace tensmith::trees;
using namespace tensmith::trees::test;

namespace {

Parameters small(int64_t rounds = 5) {
  Parameters parameters;
  parameters.rounds = rounds;
  parameters.threads = 1;
  parameters.maxDepth = 4;
  return parameters;
}

Forest trained(const Matrix &matrix, const Parameters &parameters) {
  Result<Forest> forest = train(matrix, {}, parameters);
  EXPECT_TRUE(forest.ok()) << (forest.ok() ? "" : forest.status().message());
  return forest.ok() ? *forest : Forest();
}

std::vector<float> outputsOf(const Forest &forest, const Matrix &matrix) {
  Threads threads(1);
  std::vector<float> outputs(matrix.rows * forest.channels());
  for (size_t at = 0; at < outputs.size(); ++at)
    outputs[at] = float(forest.baseScores[at % forest.channels()]);
  for (size_t tree = 0; tree < forest.trees.size(); ++tree)
    addTree(forest.trees[tree], forest.scale[tree], forest.features, matrix, outputs,
            forest.channels(), forest.channel[tree], threads);
  return outputs;
}

double squaredError(const Forest &forest, const Matrix &matrix) {
  std::vector<float> outputs = outputsOf(forest, matrix);
  double sum = 0;
  for (int64_t row = 0; row < matrix.rows; ++row)
    sum += (outputs[row] - matrix.labels[row]) * double(outputs[row] - matrix.labels[row]);
  return sum / double(matrix.rows);
}

TEST(Gradients, SumsHaveNoOrder) {
  Threads threads(1);
  std::vector<Gradient> gradients(10000);
  for (size_t at = 0; at < gradients.size(); ++at)
    gradients[at] = {drawn(1, at, 0) * std::exp2(float(at % 40)), drawn(2, at, 0)};
  roundToQuantum(gradients, int64_t(gradients.size()), largest(gradients, threads), threads);
  GradientSum forward, backward;
  for (size_t at = 0; at < gradients.size(); ++at) {
    forward.add(gradients[at]);
    backward.add(gradients[gradients.size() - 1 - at]);
  }
  EXPECT_EQ(forward, backward);
}

TEST(Training, SameForestWithAnyThreads) {
  for (const char *method : {"hist", "exact", "approx"})
    for (double missing : {0., 0.3, 0.9}) {
      Matrix matrix = drawnMatrix(5000, 9, missing);
      Parameters parameters = small();
      parameters.method = method;
      parameters.subsample = 0.7;
      parameters.columnsByNode = 0.8;
      Forest one = trained(matrix, parameters);
      EXPECT_GT(one.trees[0].size(), 5);
      for (int64_t threads : {2, 3, 7}) {
        parameters.threads = threads;
        EXPECT_TRUE(isSame(one, trained(matrix, parameters))) << method << missing << threads;
      }
    }
}

/// Each process's forest. Unequal shares of 4000 rows, the last one smallest.
std::vector<Forest> trainedBy(int count, const Matrix &matrix, const Parameters &parameters) {
  std::vector<Forest> forests(static_cast<size_t>(count));
  SharedMemory memory(count);
  std::vector<std::thread> processes;
  for (int rank = 0; rank < count; ++rank)
    processes.emplace_back([&, rank] {
      int64_t begin = rank * 1500, end = rank + 1 == count ? 4000 : (rank + 1) * 1500;
      Matrix own = someRows(matrix, begin, end);
      SharedMemoryExchange exchange(memory, rank);
      TrainingInput input;
      input.matrix = &own;
      input.exchange = &exchange;
      Result<Forest> forest = train(input, parameters);
      ASSERT_TRUE(forest.ok()) << forest.status().message();
      forests[rank] = *forest;
    });
  for (std::thread &process : processes)
    process.join();
  return forests;
}

TEST(Training, SameForestWithAnyProcesses) {
  for (double missing : {0.2, 0.9})
    for (int64_t bins : {256, 16}) {
      Matrix matrix = drawnMatrix(4000, 6, missing);
      Parameters parameters = small();
      parameters.maxBins = bins;
      parameters.subsample = 0.8;
      Forest one = trained(matrix, parameters);
      for (int count : {2, 3})
        for (const Forest &forest : trainedBy(count, matrix, parameters))
          EXPECT_TRUE(isSame(one, forest)) << missing << " " << bins << " " << count;
    }
}

// Fails where processes propose from their own rows alone, or where what they send loses values.
TEST(Training, SameForestWithAnyProcessesByProposals) {
  Matrix matrix = drawnMatrix(4000, 6, 0.2);
  for (const char *proposals : {"global", "local"}) {
    Parameters parameters = small(3);
    parameters.method = "approx";
    parameters.proposals = proposals;
    parameters.subsample = 0.8;
    Forest one = trained(matrix, parameters); // sketches of so few values are exact
    for (int count : {2, 3})
      for (const Forest &forest : trainedBy(count, matrix, parameters))
        EXPECT_TRUE(isSame(one, forest)) << proposals << " " << count;
    parameters.maxBins = 16; // now they are not, but all have the same
    one = trained(matrix, parameters);
    std::vector<Forest> forests = trainedBy(3, matrix, parameters);
    EXPECT_TRUE(isSame(forests[0], forests[1]) && isSame(forests[0], forests[2]));
    EXPECT_LT(squaredError(forests[0], matrix), 1.05 * squaredError(one, matrix));
  }
}

// Breaks if a block's bins come back as others: bytes, and one, two and four bits above them; or if
// a prefix of a cut is looked up as another.
TEST(Training, BlocksOnDiskGiveTheSameForest) {
  constexpr int64_t kRows = 20001; // several blocks, the last one's bins no multiple of eight
  for (double missing : {0., 0.4})
    for (int64_t bins : {missing > 0 ? 3000 : 1000, 256, 20}) {
      Matrix matrix = drawnMatrix(kRows, 17, missing);
      matrix.weights.assign(kRows, 1);
      for (int64_t row = 0; row < kRows; ++row)
        matrix.weights[row] = float(1 + row % 3);
      Parameters parameters = small(2);
      parameters.maxBins = bins;
      Forest inMemory = trained(matrix, parameters);
      parameters.blocks = testing::TempDir();
      for (bool compresses : {true, false}) {
        parameters.compression = compresses;
        parameters.threads = 1 + compresses;
        EXPECT_TRUE(isSame(inMemory, trained(matrix, parameters))) << missing << bins;
      }
      parameters.subtraction = false;
      EXPECT_TRUE(isSame(inMemory, trained(matrix, parameters)));
      parameters.subtraction = true;
      parameters.growth = "loss", parameters.maxLeaves = 9;
      Forest onDisk = trained(matrix, parameters);
      parameters.blocks = "";
      EXPECT_TRUE(isSame(onDisk, trained(matrix, parameters)));
    }
  Parameters parameters = small();
  parameters.blocks = "there/is/no/such/folder";
  Result<Forest> refused = train(drawnMatrix(10, 2), {}, parameters);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("no/such"), std::string::npos);
}

/// Without subtraction and without prefetch nothing changes but the time.
TEST(Training, AblationsChangeNothing) {
  Matrix matrix = drawnMatrix(3000, 7, 0.2);
  Forest plain = trained(matrix, small());
  Parameters parameters = small();
  parameters.subtraction = parameters.prefetch = false;
  EXPECT_TRUE(isSame(plain, trained(matrix, parameters)));
}

TEST(Training, SparseAndDenseRowsGiveTheSame) {
  Matrix dense = drawnMatrix(3000, 8, 0.5), sparse = toSparse(dense);
  for (const char *method : {"hist", "exact", "approx"}) {
    Parameters parameters = small();
    parameters.method = method;
    EXPECT_TRUE(isSame(trained(dense, parameters), trained(sparse, parameters))) << method;
  }
}

/// Both finders of histograms on the same bins.
TEST(Training, RowsAndColumnsOfBinsFindTheSameSplits) {
  Threads threads(2);
  Matrix dense = drawnMatrix(2000, 6, 0.6), sparse = toSparse(dense);
  Parameters parameters = small();
  Result<Cuts> cuts = makeCuts(dense, 64, threads, nullptr);
  std::vector<Gradient> gradients(dense.rows);
  for (int64_t row = 0; row < dense.rows; ++row)
    gradients[row] = {dense.labels[row], 1};
  roundToQuantum(gradients, dense.rows, largest(gradients, threads), threads);
  RowFinder rows(dense, *cuts, parameters, threads, nullptr);
  SparseFinder columns(sparse, *cuts, parameters, threads, nullptr);
  TreeGrower grower(parameters, dense.rows, dense.columns, threads);
  GradientSum sum = sumOf(gradients, threads);
  Tree byRows = grower.grow(rows, gradients, sum, 1)->tree;
  Tree byColumns = grower.grow(columns, gradients, sum, 1)->tree;
  EXPECT_GT(byRows.size(), 10);
  EXPECT_TRUE(isSame(byRows, byColumns));
}

/// With as many bins as values, histograms see all that exact growth sees.
TEST(Training, HistogramsOfAllValuesAreExact) {
  Matrix matrix = drawnMatrix(200, 5, 0.3);
  Parameters parameters = small();
  Forest hist = trained(matrix, parameters);
  parameters.method = "exact";
  Forest exact = trained(matrix, parameters);
  EXPECT_NEAR(squaredError(hist, matrix), squaredError(exact, matrix), 1e-3);
  EXPECT_EQ(hist.trees[0].feature, exact.trees[0].feature);
}

TEST(Training, MissingValuesTakeTheBetterSide) {
  std::vector<float> values, labels;
  for (int row = 0; row < 90; ++row) {
    float value = row % 3 == 2 ? std::nanf("") : float(row % 3);
    values.push_back(value);
    labels.push_back(std::isnan(value) || value == 1 ? 5 : 0); // missing rows are like those of 1
  }
  Matrix matrix = makeDense(values, 90, 1);
  matrix.labels = labels;
  for (const char *method : {"hist", "exact", "approx"}) {
    Parameters parameters = small(1);
    parameters.method = method;
    Tree tree = trained(matrix, parameters).trees[0];
    EXPECT_EQ(tree.missingLeft[0], 0) << method;
    EXPECT_EQ(tree.size(), 3) << method;
  }
}

TEST(Training, MonotoneConstraintsHold) {
  Matrix matrix = drawnMatrix(3000, 4);
  for (const char *method : {"hist", "exact", "approx"})
    for (int64_t sign : {1, -1}) {
      Parameters parameters = small(10);
      parameters.method = method;
      parameters.monotone = {0, 0, sign}; // the label rises and falls with it
      Forest forest = trained(matrix, parameters);
      for (uint64_t row = 0; row < 50; ++row) {
        float last = 0;
        for (int step = 0; step <= 20; ++step) {
          std::vector<float> values{drawn(9, row, 0), drawn(9, row, 1), float(step) / 10 - 1,
                                    drawn(9, row, 3)};
          float output = outputsOf(forest, makeDense(values, 1, 4))[0];
          if (step > 0)
            EXPECT_GE((output - last) * float(sign), -1e-5) << method << sign;
          last = output;
        }
      }
    }
}

void followPaths(const Tree &tree, int32_t node, std::vector<uint8_t> path,
                 const std::vector<std::vector<int64_t>> &sets) {
  if (tree.isLeaf(node)) {
    bool isAllowed = false;
    for (const std::vector<int64_t> &set : sets) {
      bool hasAll = true;
      for (size_t feature = 0; feature < path.size(); ++feature)
        hasAll &= !path[feature] || std::count(set.begin(), set.end(), int64_t(feature)) > 0;
      isAllowed |= hasAll;
    }
    EXPECT_TRUE(isAllowed || std::count(path.begin(), path.end(), 1) <= 1);
    return;
  }
  path[tree.feature[node]] = 1;
  followPaths(tree, tree.left[node], path, sets);
  followPaths(tree, tree.right[node], path, sets);
}

TEST(Training, InteractionsStayWithinTheirSets) {
  Matrix matrix = drawnMatrix(3000, 5);
  for (const char *method : {"hist", "exact"}) {
    Parameters parameters = small();
    parameters.method = method;
    parameters.interactions = {{0, 2}, {1, 3, 4}};
    Forest forest = trained(matrix, parameters);
    for (const Tree &tree : forest.trees)
      followPaths(tree, 0, std::vector<uint8_t>(5, 0), parameters.interactions);
  }
}

TEST(Training, LimitsOfTreesHold) {
  Matrix matrix = drawnMatrix(3000, 5);
  Parameters parameters = small();
  parameters.growth = "loss";
  parameters.maxDepth = 0;
  parameters.maxLeaves = 11;
  for (const Tree &tree : trained(matrix, parameters).trees)
    EXPECT_EQ(tree.size(), 21);
  parameters = small();
  parameters.minChildWeight = 100;
  for (const char *method : {"hist", "exact"}) {
    parameters.method = method;
    for (const Tree &tree : trained(matrix, parameters).trees)
      for (float cover : tree.cover)
        EXPECT_GE(cover, 100);
  }
  parameters = small();
  parameters.maxDeltaStep = 0.01;
  for (const Tree &tree : trained(matrix, parameters).trees)
    for (float value : tree.value)
      EXPECT_LE(std::fabs(value), 0.003001);
}

TEST(Training, CategoriesAreSplitAsSets) {
  // The label depends on whether a category is one of {1, 4, 5}; as a number it would take many
  // splits.
  std::vector<float> values, labels;
  for (uint64_t row = 0; row < 2000; ++row) {
    auto category = int(mixed(3, row) % 7);
    values.insert(values.end(), {float(category), drawn(4, row, 1)});
    labels.push_back(category == 1 || category >= 4 ? (category == 6 ? 0 : 3) : 0);
  }
  Matrix matrix = makeDense(values, 2000, 2);
  matrix.labels = labels;
  matrix.features = {{"kind", 7}, {"", 0}};
  for (const char *method : {"hist", "approx"})
    for (int64_t oneHot : {2, 100}) {
      Parameters parameters = small(20);
      parameters.method = method;
      parameters.oneHotCategories = oneHot;
      Forest forest = trained(matrix, parameters);
      EXPECT_TRUE(forest.trees[0].isCategorical(0));
      if (oneHot == 2)
        EXPECT_EQ(forest.trees[0].size(), 3) << "one split tells the sets apart";
      EXPECT_LT(squaredError(forest, matrix), 0.05) << method << oneHot;
    }
}

TEST(Training, WeightsCountLikeCopies) {
  Matrix matrix = drawnMatrix(300, 3);
  Matrix twice = drawnMatrix(300, 3);
  std::vector<float> values(matrix.dense, matrix.dense + 900);
  values.insert(values.end(), matrix.dense, matrix.dense + 300);
  Matrix copies = makeDense(values, 400, 3);
  copies.labels = matrix.labels;
  copies.labels.insert(copies.labels.end(), matrix.labels.begin(), matrix.labels.begin() + 100);
  twice.weights.assign(300, 1);
  std::fill_n(twice.weights.begin(), 100, 2.f);
  Parameters parameters = small();
  parameters.maxBins = 1000;
  EXPECT_TRUE(isSame(trained(twice, parameters), trained(copies, parameters)));
}

TEST(Training, ContinuesWhereItEnded) {
  Matrix matrix = drawnMatrix(1000, 5);
  Forest all = trained(matrix, small(6)), some = trained(matrix, small(4));
  Result<Forest> rest = train(matrix, {}, small(2), &some);
  ASSERT_TRUE(rest.ok());
  EXPECT_TRUE(isSame(all, *rest));
}

/// Trains to a round, where it is cut off, and goes on from the file.
Forest trainedAgain(TrainingInput input, Parameters parameters, int64_t last) {
  parameters.checkpoint = testing::TempDir() + "training.checkpoint";
  parameters.checkpointEvery = 2;
  std::filesystem::remove(parameters.checkpoint);
  input.watch = [&](const Round &round) { return round.number < last; };
  EXPECT_TRUE(train(input, parameters).ok());
  int64_t rounds = 0;
  input.watch = [&](const Round &round) { return round.number == rounds++; };
  parameters.resume = true;
  Result<Forest> forest = train(input, parameters);
  EXPECT_TRUE(forest.ok()) << (forest.ok() ? "" : forest.status().message());
  return forest.ok() ? std::move(*forest) : Forest();
}

// Fails where something that a round starts from is not kept: outputs to the bit, scales of DART,
// which round was the best, or what is drawn.
TEST(Training, GoesOnFromACheckpointToTheSameForest) {
  Matrix matrix = drawnMatrix(1500, 5, 0.2), valid = drawnMatrix(400, 5, 0.2, 9);
  for (const char *method : {"hist", "exact", "approx"})
    for (const char *booster : {"trees", "dart"}) {
      Parameters parameters = small(9);
      parameters.method = method;
      parameters.booster = booster;
      parameters.dropRate = 0.4;
      parameters.subsample = 0.6;
      parameters.columnsByNode = 0.7;
      parameters.earlyStoppingRounds = 4;
      TrainingInput input;
      input.matrix = &matrix;
      input.validation = {{"valid", &valid}};
      Result<Forest> whole = train(input, parameters);
      ASSERT_TRUE(whole.ok());
      for (int64_t last : {0, 3, 4, 8}) {
        Forest again = trainedAgain(input, parameters, last);
        EXPECT_TRUE(isSame(*whole, again)) << method << " " << booster << " " << last;
        EXPECT_EQ(whole->bestRound, again.bestRound);
      }
    }
}

TEST(Training, RefusesACheckpointOfAnotherTraining) {
  Matrix matrix = drawnMatrix(300, 4);
  Parameters parameters = small(2);
  parameters.resume = true;
  EXPECT_NE(train(matrix, {}, parameters).status().message().find("needs a checkpoint"),
            std::string::npos);
  parameters.checkpoint = testing::TempDir() + "other.checkpoint";
  std::filesystem::remove(parameters.checkpoint);
  ASSERT_TRUE(train(matrix, {}, parameters).ok()); // there is none yet
  Parameters other = parameters;
  other.lambda = 3;
  EXPECT_NE(train(matrix, {}, other).status().message().find("other data or parameters"),
            std::string::npos);
  Matrix changed = drawnMatrix(300, 4, 0, 5);
  EXPECT_FALSE(train(changed, {}, parameters).ok());
  other = parameters;
  other.rounds = 1;
  EXPECT_FALSE(train(matrix, {}, other).ok());
  // Each damage is told.
  std::ifstream file(parameters.checkpoint, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 40) {
    std::string damaged = bytes;
    damaged[at] ^= 0x20;
    std::ofstream(parameters.checkpoint, std::ios::binary) << damaged;
    EXPECT_FALSE(train(matrix, {}, parameters).ok()) << at;
    std::ofstream(parameters.checkpoint, std::ios::binary) << bytes.substr(0, at);
    EXPECT_FALSE(train(matrix, {}, parameters).ok()) << at;
  }
}

// Fails where a process goes on from a round that another has not written.
TEST(Training, ProcessesGoOnFromTheRoundThatAllHave) {
  Matrix matrix = drawnMatrix(4000, 6, 0.2);
  Parameters parameters = small(7);
  std::vector<Forest> whole = trainedBy(2, matrix, parameters);
  parameters.checkpoint = testing::TempDir() + "together.checkpoint";
  parameters.checkpointEvery = 2;
  parameters.rounds = 4;
  trainedBy(2, matrix, parameters);
  // The second one was killed before it wrote its last.
  std::filesystem::rename(parameters.checkpoint + ".1.before", parameters.checkpoint + ".1");
  parameters.rounds = 7;
  parameters.resume = true;
  for (const Forest &forest : trainedBy(2, matrix, parameters))
    EXPECT_TRUE(isSame(whole[0], forest));
}

TEST(Training, StopsEarlyAndTellsTheBestRound) {
  Matrix matrix = drawnMatrix(400, 5), valid = drawnMatrix(300, 5, 0, 5);
  Parameters parameters = small(200);
  parameters.learningRate = 1;
  parameters.earlyStoppingRounds = 5;
  std::vector<double> values;
  Result<Forest> forest =
      train(matrix, {{"valid", &valid}}, parameters, nullptr, [&](const Round &round) {
        values.push_back(round.metrics[0].value);
        return true;
      });
  ASSERT_TRUE(forest.ok());
  auto best = std::min_element(values.begin(), values.end()) - values.begin();
  EXPECT_EQ(forest->bestRound, best);
  EXPECT_EQ(int64_t(values.size()), best + 6);
}

TEST(Training, DartDropsTreesAndKeepsTheirSum) {
  Matrix matrix = drawnMatrix(1000, 5), valid = drawnMatrix(500, 5, 0, 5);
  Parameters parameters = small(12);
  parameters.booster = "dart";
  parameters.dropRate = 0.3;
  double last = 0;
  Result<Forest> forest =
      train(matrix, {{"valid", &valid}}, parameters, nullptr, [&](const Round &round) {
        last = round.metrics[0].value;
        return true;
      });
  ASSERT_TRUE(forest.ok());
  EXPECT_NE(std::count(forest->scale.begin(), forest->scale.end(), 1.f),
            int64_t(forest->scale.size()));
  EXPECT_NEAR(last, std::sqrt(squaredError(*forest, valid)),
              1e-4); // what was kept is what the forest says
  EXPECT_LT(squaredError(*forest, matrix), 0.5);
}

TEST(Training, OwnLossIsTakenInsteadOfTheObjective) {
  Matrix matrix = drawnMatrix(500, 4);
  TrainingInput input;
  input.matrix = &matrix;
  input.ownLoss = [](auto outputs, auto labels, auto, auto first, auto second) {
    for (size_t row = 0; row < outputs.size(); ++row)
      first[row] = outputs[row] - labels[row], second[row] = 1;
    return Status();
  };
  Parameters parameters = small();
  parameters.baseScore = 0;
  Result<Forest> own = train(input, parameters);
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(isSame(*own, trained(matrix, parameters)));
  input.ownLoss = [](auto, auto, auto, auto, auto) { return invalidArgument("no such loss"); };
  EXPECT_EQ(train(input, parameters).status().message(), "no such loss");
}

std::string refusal(const Matrix &matrix, const Parameters &parameters) {
  Result<Forest> forest = train(matrix, {}, parameters);
  return forest.ok() ? "" : forest.status().message();
}

TEST(Training, BadInputIsToldInWords) {
  Matrix matrix = drawnMatrix(10, 2);
  Parameters parameters = small(1);
  Matrix wrong = matrix;
  wrong.labels[3] = std::nanf("");
  EXPECT_NE(refusal(wrong, parameters).find("label 3"), std::string::npos);
  wrong = matrix;
  wrong.weights.assign(10, -1);
  EXPECT_NE(refusal(wrong, parameters).find("weight 0"), std::string::npos);
  wrong = matrix;
  wrong.labels.pop_back();
  EXPECT_NE(refusal(wrong, parameters).find("9 labels of 10 rows"), std::string::npos);
  wrong = toSparse(matrix);
  std::vector<int32_t> columns(20, 5);
  wrong.column = columns.data();
  EXPECT_NE(refusal(wrong, parameters).find("column 5"), std::string::npos);
  parameters.objective = "logistic";
  EXPECT_NE(refusal(matrix, parameters).find("from 0 to 1"), std::string::npos);
  parameters.objective = "lambdamart";
  matrix.labels.assign(10, 1);
  EXPECT_NE(refusal(matrix, parameters).find("groups"), std::string::npos);
  EXPECT_FALSE(assign(parameters, "eta", -1).ok());
  EXPECT_FALSE(assign(parameters, "nothing", 1).ok());
  EXPECT_FALSE(assign(parameters, "tree_method", "best").ok());
  EXPECT_TRUE(assign(parameters, "grow_policy", "lossguide").ok());
}

TEST(Training, OddDataIsTrainedOn) {
  Parameters parameters = small(2);
  for (const char *method : {"hist", "exact", "approx"}) {
    parameters.method = method;
    Matrix one = makeDense({1, 2}, 1, 2);
    one.labels = {3};
    EXPECT_EQ(outputsOf(trained(one, parameters), one)[0], 3) << method;
    float none = std::nanf(""), infinite = HUGE_VALF;
    Matrix odd = makeDense({5, none, infinite, 5, none, -infinite, 5, none, 1, 5, none, 2}, 4, 3);
    odd.labels = {1, 0, 0, 0}; // the first row is the one with infinity
    parameters.minChildWeight = 0;
    Forest forest = trained(odd, parameters);
    EXPECT_GT(outputsOf(forest, odd)[0], outputsOf(forest, odd)[1]) << method;
    parameters.minChildWeight = 1;
  }
}

// Breaks if memory or time of a feature that has nothing to say is more than a few bytes and a
// look.
TEST(Training, AMillionColumnsAreTrainedOn) {
  constexpr int64_t kColumns = 1'000'000;
  std::vector<float> values(4 * kColumns, 1);
  values[4 * kColumns - 1] = values[3 * kColumns - 1] = 2;
  Matrix matrix = makeDense(std::move(values), 4, kColumns);
  matrix.labels = {0, 0, 1, 1};
  Parameters parameters = small(2);
  parameters.minChildWeight = 0;
  for (const char *method : {"hist", "exact", "approx"}) {
    parameters.method = method;
    Forest forest = trained(matrix, parameters);
    ASSERT_EQ(forest.trees.size(), 2u) << method;
    EXPECT_EQ(forest.trees[0].feature[0], kColumns - 1) << method;
    EXPECT_EQ(forest.trees[0].size(), 3) << method;
  }
}

// Breaks if a label that training has not seen is taken for a channel that is there. What is not
// there has no probability, and each of its rows the greatest loss that counts.
TEST(Training, ClassesThatValidationAloneHas) {
  Matrix matrix = drawnMatrix(60, 3), valid = drawnMatrix(20, 3, 0, 9);
  for (int64_t row = 0; row < 60; ++row)
    matrix.labels[row] = float(row % 3);
  for (int64_t row = 0; row < 20; ++row)
    valid.labels[row] = float(row % 5);
  Parameters parameters = small(1);
  parameters.objective = "softmax";
  double loss = 0;
  auto watch = [&](const Round &round) { return loss = round.metrics[0].value, true; };
  Result<Forest> forest = train(matrix, {{"valid", &valid}}, parameters, nullptr, watch);
  ASSERT_TRUE(forest.ok()) << forest.status().message();
  EXPECT_EQ(forest->channels(), 3);
  EXPECT_GT(loss, 0.4 * -std::log(1e-16));
  EXPECT_LT(loss, 0.4 * -std::log(1e-16) + 5);
}

TEST(Threads, WhatABodyThrowsComesBackOnce) {
  Threads threads(4);
  auto fails = [&] { threads.parts(100, [](int64_t, int) { throw std::bad_alloc(); }); };
  EXPECT_THROW(fails(), std::bad_alloc);
  std::atomic<int64_t> sum = 0;
  threads.parts(100, [&](int64_t part, int) { sum += part; });
  EXPECT_EQ(sum, 4950);
}

TEST(Matrix, EntriesAreReadOnceAllRowsAreKnownToBeThere) {
  int64_t begins[] = {0, int64_t(1) << 40, 1};
  int32_t columns[] = {0};
  float values[] = {1};
  Matrix matrix;
  matrix.rows = 2, matrix.columns = 1;
  matrix.rowBegin = begins, matrix.column = columns, matrix.value = values;
  EXPECT_NE(check(matrix, "x").message().find("row 1 ends before"), std::string::npos);
}

/// The first of two columns is a category.
Matrix withCategories(int64_t categories, int64_t rows = 200) {
  std::vector<float> values;
  std::vector<float> labels;
  for (int64_t row = 0; row < rows; ++row) {
    values.insert(values.end(), {float(row % categories), drawn(1, row, 0)});
    labels.push_back(float(row % categories % 2));
  }
  Matrix matrix = makeDense(std::move(values), rows, 2);
  matrix.labels = std::move(labels);
  matrix.features = {{"kind", categories, false}, {"size", 0, false}};
  return matrix;
}

// Breaks if a set of categories changes on its way between processes, one of which has no feature
// to look at.
TEST(Training, SameForestWithAnyProcessesOfCategories) {
  Matrix matrix = withCategories(120, 4000);
  Forest one = trained(matrix, small());
  ASSERT_GT(one.trees[0].categories.back(), 104);
  for (int count : {2, 3})
    for (const Forest &forest : trainedBy(count, matrix, small()))
      EXPECT_TRUE(isSame(one, forest)) << count;
}

TEST(Matrix, TakesCategoriesThatABinHoldsBesideMissingValues) {
  Matrix matrix = withCategories(5);
  matrix.features[0].categories = 65535;
  EXPECT_TRUE(check(matrix, "x").ok());
  matrix.features[0].categories = 65536;
  EXPECT_FALSE(check(matrix, "x").ok());
}

TEST(Training, ValidationSendsUnseenCategoriesWherePredictionDoes) {
  Forest forest = trained(withCategories(6), small());
  Matrix other = withCategories(9);
  other.features.clear();
  const_cast<float *>(other.dense)[0] = 1e20f;
  const_cast<float *>(other.dense)[2] = -7;
  auto predictor = Predictor::of(forest);
  ASSERT_TRUE(predictor.ok());
  std::vector<float> predicted(size_t(other.rows));
  ASSERT_TRUE(predictor->outputs(DenseRows{other.dense, other.rows, 2, 2}, predicted).ok());
  std::vector<float> added = outputsOf(forest, other);
  for (int64_t row = 0; row < other.rows; ++row)
    EXPECT_NEAR(added[row], predicted[row], 1e-5) << row;
}

TEST(Training, ContinuesOnlyWhatMeansTheSame) {
  Forest forest = trained(withCategories(6), small(2));
  Matrix more = withCategories(9);
  Result<Forest> longer = train(more, {}, small(1), &forest);
  ASSERT_TRUE(longer.ok()) << longer.status().message();
  EXPECT_EQ(longer->features[0].categories, 9);
  more.features.clear();
  EXPECT_EQ(train(more, {}, small(1), &forest).status().code(), StatusCode::InvalidArgument);
  forest.features[1].zeroIsMissing = true;
  EXPECT_EQ(train(withCategories(6), {}, small(1), &forest).status().code(),
            StatusCode::Unsupported);
}

TEST(Training, ClassesAreCheckedWithAnOwnLoss) {
  Matrix matrix = withCategories(4);
  matrix.labels[3] = -1;
  Parameters parameters = small();
  parameters.objective = "softmax";
  TrainingInput input;
  input.matrix = &matrix;
  input.ownLoss = [](auto, auto, auto, auto, auto) { return Status(); };
  EXPECT_NE(train(input, parameters).status().message().find("label 3 is -1"), std::string::npos);
  parameters = small(1);
  parameters.metrics = {"mlogloss"}; // of labels that are no classes
  EXPECT_TRUE(train(matrix, {{"valid", &matrix}}, parameters).ok());
  EXPECT_FALSE(findMetric("ndcg@1e300").ok());
  EXPECT_TRUE(findMetric("ndcg@10").ok());
}

/// Two processes, each with a matrix of its own.
template <typename Body> void together(Body body) {
  SharedMemory memory(2);
  std::vector<std::thread> processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.emplace_back([&, rank] {
      SharedMemoryExchange exchange(memory, rank);
      body(rank, exchange);
    });
  for (std::thread &process : processes)
    process.join();
}

TEST(Agreement, TakesTheMostCategoriesAndTrainsWithThem) {
  Forest forests[2];
  together([&](int rank, Exchange &exchange) {
    Matrix matrix = withCategories(rank == 0 ? 4 : 7);
    TrainingInput input;
    input.matrix = &matrix;
    input.source = "rows.csv";
    Agreement agreement;
    Status status = agree(input, exchange, agreement);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(agreement.sharesSource);
    EXPECT_EQ(agreement.input.matrix->features[0].categories, 7);
    agreement.input.exchange = &exchange;
    // The first process ends training, and so both do.
    agreement.input.watch = [&](const Round &round) { return rank == 1 || round.number < 1; };
    Result<Forest> forest = train(agreement.input, small(5));
    ASSERT_TRUE(forest.ok()) << forest.status().message();
    forests[rank] = *forest;
  });
  EXPECT_EQ(forests[0].trees.size(), 2u);
  EXPECT_TRUE(isSame(forests[0], forests[1]));
}

TEST(Agreement, RefusesOtherClassesAndKinds) {
  together([&](int rank, Exchange &exchange) {
    Matrix matrix = withCategories(4);
    TrainingInput input;
    input.matrix = &matrix;
    input.classes = {"bad", rank == 0 ? "good" : "fair"};
    Agreement agreement, other;
    EXPECT_NE(agree(input, exchange, agreement).message().find("different texts"),
              std::string::npos);
    input.classes.clear();
    if (rank == 1)
      matrix.features.clear();
    EXPECT_NE(agree(input, exchange, other).message().find("numbers in the other"),
              std::string::npos);
  });
}

} // namespace
