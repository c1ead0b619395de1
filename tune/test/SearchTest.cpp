// Searches on a planted space: that they find its best, propose no point twice, go on where others
// ended, and that the model is what makes the advantage.
#include "tune/search/Search.h"
#include "tune/search/Diversity.h"
#include "tune/test/PlantedSpaces.h"

#include "files/Failure.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace tensmith::tune;

namespace {

/// Trials until a point is within 5 % of the best; `most` where none was.
int64_t trialsOf(Search &search, const SearchSpace &space, int64_t most, double best,
                 uint64_t *permuted = nullptr) {
  int64_t trials = 0;
  while (trials < most) {
    std::vector<Observation> news;
    for (const Configuration &point : search.propose(16)) {
      ++trials;
      double seconds = plantedSeconds(point);
      if (seconds <= best * 1.05)
        return trials;
      news.push_back({point, seconds});
    }
    if (news.empty())
      break;
    if (permuted) { // labels of other points: a model learns nothing from them
      Random random((*permuted)++);
      for (size_t i = news.size(); i > 1; --i)
        std::swap(news[i - 1].seconds, news[random.below(i)].seconds);
    }
    search.observe(news);
  }
  return most;
}

double meanTrials(std::string_view name, std::function<std::unique_ptr<CostModel>(uint64_t)> model,
                  bool permutes = false) {
  constexpr int kSeeds = 5;
  constexpr int64_t kMost = 500;
  SearchSpace space = plantedSpace();
  double best = bestPlanted(space), sum = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    auto search = makeSearch(name, space, seed, {model(seed)});
    uint64_t labels = seed * 1000;
    sum += double(trialsOf(*search, space, kMost, best, permutes ? &labels : nullptr));
  }
  return sum / kSeeds;
}

std::unique_ptr<CostModel> ranking(uint64_t seed) { return treesModel(Loss::Rank, seed, 1); }
std::unique_ptr<CostModel> constant(uint64_t) { return constantModel(); }

} // namespace

TEST(Search, ProposesNoPointTwiceAndAllInTheEnd) {
  SearchSpace space = SearchSpace::fromJson(
      Json::parse(
          R"([{"choice": "a", "values": [1, 2, 3, 4]}, {"choice": "b", "values": [1, 2]}])"),
      "small");
  for (const SearchKind &kind : searchKinds()) {
    auto search = makeSearch(kind.name, space, 7, {ranking(7)});
    std::set<Configuration> all;
    for (int i = 0; i < 20; ++i) {
      std::vector<Observation> news;
      for (const Configuration &point : search->propose(3)) {
        EXPECT_TRUE(all.insert(point).second) << kind.name;
        news.push_back({point, double(1 + point[0] + point[1])});
      }
      search->observe(news);
    }
    EXPECT_EQ(all.size(), space.size()) << kind.name;
  }
}

// A search that is told of earlier trials must not measure them again.
TEST(Search, GoesOnWhereAnotherEnded) {
  SearchSpace space = plantedSpace();
  for (const SearchKind &kind : searchKinds()) {
    auto first = makeSearch(kind.name, space, 1, {ranking(1)});
    std::vector<Observation> history;
    for (const Configuration &point : first->propose(60))
      history.push_back({point, plantedSeconds(point)});
    auto second = makeSearch(kind.name, space, 1, {ranking(1)});
    second->observe(history);
    for (const Configuration &point : second->propose(30))
      EXPECT_TRUE(std::ranges::none_of(history, [&](const Observation &known) {
        return known.configuration == point;
      })) << kind.name;
  }
}

TEST(Search, SameSeedSameTrials) {
  SearchSpace space = plantedSpace();
  for (const SearchKind &kind : searchKinds()) {
    auto run = [&] {
      auto search = makeSearch(kind.name, space, 11, {ranking(11)});
      std::vector<Configuration> all;
      for (int i = 0; i < 4; ++i) {
        std::vector<Observation> news;
        for (const Configuration &point : search->propose(10))
          all.push_back(point), news.push_back({point, plantedSeconds(point)});
        search->observe(news);
      }
      return all;
    };
    EXPECT_EQ(run(), run()) << kind.name;
  }
}

TEST(Search, FailuresAreNoEnd) {
  SearchSpace space = plantedSpace();
  for (const SearchKind &kind : searchKinds()) {
    auto search = makeSearch(kind.name, space, 5, {ranking(5)});
    for (int i = 0; i < 6; ++i) {
      std::vector<Observation> news;
      for (const Configuration &point : search->propose(16))
        news.push_back({point, i < 3 ? kFailed : plantedSeconds(point)});
      EXPECT_EQ(news.size(), 16u) << kind.name;
      search->observe(news);
    }
  }
}

// Held against random's trials on the same space; without what the model has learnt nothing is left
// of the advantage.
TEST(Search, ModelsHalveTheTrials) {
  double random = meanTrials("random", constant);
  double annealing = meanTrials("annealing", ranking);
  EXPECT_LT(annealing, random / 2);
  EXPECT_LT(meanTrials("evolutionary", ranking), random / 2);
  EXPECT_GT(meanTrials("annealing", ranking, /*permutes=*/true), 1.5 * annealing);
  EXPECT_GT(meanTrials("annealing", constant), 1.5 * annealing);
}

TEST(Search, RefusesAnUnknownName) {
  EXPECT_THROW(makeSearch("simulated", plantedSpace(), 1, {}), tensmith::Failure);
}

// The greedy set must have at least 1 - 1/e of the best set's value; small sets are counted whole.
TEST(Diversity, GreedyIsNearTheBestSet) {
  Random random(9);
  for (int round = 0; round < 20; ++round) {
    std::vector<Scored> candidates;
    for (int i = 0; i < 9; ++i)
      candidates.push_back(
          {{int32_t(random.below(3)), int32_t(random.below(3)), int32_t(random.below(2))},
           random.uniform()});
    constexpr double kAlpha = 0.5;
    double best = 0;
    for (int a = 0; a < 9; ++a)
      for (int b = a + 1; b < 9; ++b)
        for (int c = b + 1; c < 9; ++c) {
          const Scored set[] = {candidates[size_t(a)], candidates[size_t(b)],
                                candidates[size_t(c)]};
          best = std::max(best, diverseValue(set, kAlpha));
        }
    std::vector<Scored> greedy;
    for (size_t number : greedyDiverse(candidates, 3, kAlpha))
      greedy.push_back(candidates[number]);
    ASSERT_EQ(greedy.size(), 3u);
    EXPECT_GE(diverseValue(greedy, kAlpha), (1 - std::exp(-1)) * best);
  }
}
