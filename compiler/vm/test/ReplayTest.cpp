// Replays of chains: what they compute is what the original computes, at how much memory and work.
#include "compiler/vm/Replay.h"
#include "compiler/vm/Recomputation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace tensmith::vm {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kBytes = 64;

/// `layers` times an operator that is dear and one that is cheap, each of which the way back reads,
/// from the last to the first.
Tape chain(size_t layers, double dear = 100, double cheap = 1) {
  Tape tape;
  auto add = [&](std::vector<uint32_t> reads, double cost) {
    auto value = uint32_t(tape.bytes.size());
    tape.bytes.push_back(kBytes);
    tape.operators.push_back({std::move(reads), {value}, cost, true});
    return value;
  };
  std::vector<uint32_t> values;
  for (size_t i = 0; i < 2 * layers; ++i)
    values.push_back(add(values.empty() ? std::vector<uint32_t>{} : std::vector{values.back()},
                         i % 2 ? cheap : dear));
  tape.turn = tape.operators.size();
  uint32_t gradient = add({values.back()}, 1);
  for (size_t i = values.size(); i-- > 0;)
    gradient = add({gradient, values[i]}, 1);
  return tape;
}

/// A number for what each operator of the function gives when the steps are taken one after the
/// other on values that are there; 0 where one is not.
std::map<uint32_t, uint64_t> valuesOf(const Tape &tape, const Replay &replay) {
  std::map<uint32_t, uint64_t> now, own;
  for (const Replay::Step &step : replay.steps) {
    uint64_t hash = step.number * 0x9e3779b97f4a7c15 + 1;
    for (uint32_t value : tape.operators[step.number].reads) {
      EXPECT_TRUE(now.contains(value)) << "operator " << step.number << " reads " << value;
      hash = (hash ^ now[value]) * 0xff51afd7ed558ccd;
    }
    for (uint32_t value : tape.operators[step.number].writes)
      now[value] = hash;
    if (!step.isCopy)
      own[step.number] = hash;
  }
  return own;
}

TEST(Replay, ComputesWhatTheFunctionComputes) {
  Tape tape = chain(50);
  Replayer replayer(tape);
  auto expected = valuesOf(tape, replayer.original());
  ASSERT_EQ(expected.size(), tape.operators.size());
  for (size_t cuts : {1, 2, 5, 99})
    for (size_t leaves : {2, 5, 20, 100})
      for (double dear : {0.0, 0.5, kNever})
        for (double part : {0.0, 0.5, 1.0}) {
          Replay replay = replayer.replay({cuts, leaves, dear, part}, kNever);
          EXPECT_EQ(valuesOf(tape, replay), expected);
          EXPECT_LE(replay.peakBytes, replayer.original().peakBytes + 4 * kBytes);
        }
}

TEST(Replay, SegmentsTakeTheRootOfTheMemoryAndOneMoreWayForward) {
  for (size_t layers : {50, 200, 800}) {
    Tape tape = chain(layers);
    Replayer replayer(tape);
    auto root = size_t(std::sqrt(2 * layers));
    Replay replay = replayer.replay({root - 1, root, kNever, 0}, kNever);
    EXPECT_LE(replay.peakBytes, int64_t(3 * root + 8) * kBytes);
    EXPECT_LE(replay.copies, int64_t(2 * layers));
    EXPECT_EQ(replayer.original().peakBytes, int64_t(2 * layers + 2) * kBytes);
  }
}

TEST(Replay, RecursionTakesTheLogarithm) {
  for (size_t layers : {64, 512, 4096}) {
    Tape tape = chain(layers);
    Replay replay = Replayer(tape).replay({1, layers, kNever, 0}, kNever);
    double logarithm = std::log2(double(layers));
    EXPECT_LE(double(replay.peakBytes), (2 * logarithm + 8) * kBytes) << layers;
    EXPECT_LE(double(replay.copies), 2 * double(layers) * (logarithm + 1)) << layers;
  }
}

TEST(Replay, WorkBeyondWhatIsAllowedIsGivenUp) {
  Tape tape = chain(64);
  Replayer replayer(tape);
  EXPECT_TRUE(replayer.replay({1, 64, kNever, 0}, replayer.forwardCost()).steps.empty());
}

/// What the model says is what is measured.
Result<Recomputation> choose(const Tape &tape, std::optional<int64_t> bytes, int64_t &least,
                             RecomputationPlan plan = RecomputationPlan::Cost) {
  return chooseRecomputation(
      tape, {plan, bytes}, [](const Replay &replay) { return Result<int64_t>(replay.peakBytes); },
      least);
}

TEST(Recomputation, WhatIsCheapIsComputedAgainFirst) {
  Tape tape = chain(100);
  int64_t least = 0, whole = Replayer(tape).original().peakBytes;
  auto half = choose(tape, whole * 6 / 10, least);
  ASSERT_TRUE(half.ok());
  EXPECT_LE(half->arenaBytes, whole * 6 / 10);
  EXPECT_LT(half->work, 0.05) << "no dear operator runs again";
  auto fifth = choose(tape, whole / 5, least);
  ASSERT_TRUE(fifth.ok());
  EXPECT_LE(fifth->arenaBytes, whole / 5);
  EXPECT_GT(fifth->work, half->work);
}

TEST(Recomputation, EveryBudgetFromTheLeastIsMet) {
  Tape tape = chain(300);
  int64_t least = 0, whole = Replayer(tape).original().peakBytes;
  auto recursive = choose(tape, std::nullopt, least, RecomputationPlan::Recursive);
  ASSERT_TRUE(recursive.ok());
  double before = kNever;
  for (int64_t bytes = recursive->arenaBytes; bytes < whole; bytes = bytes * 4 / 3) {
    auto chosen = choose(tape, bytes, least);
    ASSERT_TRUE(chosen.ok()) << bytes;
    EXPECT_LE(chosen->arenaBytes, bytes);
    EXPECT_LE(chosen->work, before * 1.05) << "more memory, more work";
    before = chosen->work;
  }
  EXPECT_FALSE(choose(tape, whole, least)->keeping) << "nothing is computed again in vain";
}

TEST(Recomputation, ABudgetBelowTheLeastFailsWithTheLeast) {
  Tape tape = chain(100);
  int64_t least = 0;
  auto chosen = choose(tape, 2 * kBytes, least);
  EXPECT_EQ(chosen.status().code(), StatusCode::ResourceExhausted);
  EXPECT_GT(least, 2 * kBytes);
  EXPECT_TRUE(choose(tape, least, least).ok()) << "the least is possible";
}

} // namespace
} // namespace tensmith::vm
