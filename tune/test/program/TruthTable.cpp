// truth-table: measures all points of a part of a kernel's space, and replays searches on the
// times.
//
//   truth-table spaces MODEL                         the model's kernels, as JSON
//   truth-table collect MODEL KEY KEPT FILE [TURNS]  all points of KEPT, {"tile_rows": [1, 2, 4],
//                                                    "steps": null}; goes on where FILE ends
//   truth-table replay FILE SEARCH SEEDS WITHIN [permuted|constant|regression]
//                                                    trials to within WITHIN of the best, each seed
//   truth-table accuracy FILE SAMPLES SEED           of models on points that they were not told of
//   truth-table programs MODEL FILE SAMPLES SEED     the same of models that see loop programs
//   truth-table planted SEARCH SEEDS TRIALS          the best of so many trials on factorisations
//   of
//                                                    a planted product, each seed
//   truth-table rows FILE                            features and times, for other models
//
// All print JSON. See TruthTable.h for what a table is, and bench/searches for who calls it.
#include "tune/test/TruthTable.h"
#include "tune/ModelSession.h"
#include "tune/test/PlantedProduct.h"

#include "client/Compiler.h"
#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace tensmith;
using namespace tensmith::tune;

namespace {

constexpr size_t kBatch = 8;

client::CompileSettings settings() {
  client::CompileSettings result;
  result.tuned = {"", false};
  result.progress = false;
  result.warns = false;
  return result;
}

RunnerSettings runner() {
  RunnerSettings result;
  result.threads = 1;
  result.repeatSeconds = 0.01;
  return result;
}

void say(const std::string &line) { fprintf(stderr, "truth-table: %s\n", line.c_str()); }

void printSpaces(const std::string &model) {
  ModelSession session(model, settings(), nullptr, runner(), say);
  Json list = Json::array();
  for (const TunableKernel &kernel : session.kernels()) {
    Json choices = Json::object();
    for (const SearchSpace::Dimension &each : kernel.space.dimensions()) {
      Json values = Json::array();
      for (const std::string &value : each.values)
        values.push_back(Json::parse(value));
      choices[each.name] = values;
    }
    list.push_back({{"key", kernel.name.key},
                    {"kernel", kernel.name.structure},
                    {"estimated", kernel.estimated},
                    {"flops", kernel.flops},
                    {"points", kernel.space.size()},
                    {"untunable", kernel.untunable},
                    {"choices", choices}});
  }
  std::cout << list.dump() << "\n";
}

size_t linesOf(const std::string &path) {
  std::ifstream in(path);
  std::string line;
  size_t lines = 0;
  while (std::getline(in, line))
    ++lines;
  return lines;
}

int collect(const std::string &model, const std::string &key, const std::string &kept,
            const std::string &path, int turns) {
  ModelSession session(model, settings(), nullptr, runner(), say);
  std::vector<TunableKernel> kernels = session.kernels();
  auto kernel = std::ranges::find_if(
      kernels, [&](const TunableKernel &each) { return each.name.key == key; });
  if (kernel == kernels.end())
    fail(model, "has no kernel " + key);
  Json choices = subSpace(session.choicesOf(key), Json::parse(kept), key);
  SearchSpace space = SearchSpace::fromJson(choices, key);
  const Json head{{"key", key},
                  {"kernel", kernel->name.structure},
                  {"machine", kernel->name.machine},
                  {"estimated", kernel->estimated},
                  {"choices", choices}};
  size_t lines = linesOf(path);
  if (lines > 0) { // it goes on where it stopped, but not with times of something else
    std::ifstream in(path);
    std::string first;
    std::getline(in, first);
    if (Json::parse(first) != Json::parse(head.dump()))
      fail(path, "is of another machine, kernel or part of its space; remove it to begin anew");
  }
  std::ofstream out(path, std::ios::app);
  if (lines == 0)
    out << head.dump() << std::endl;
  std::string why;
  auto estimated = session.build(key, "", why);
  if (!estimated)
    fail(key, why);
  for (uint64_t number = lines == 0 ? 0 : lines - 1; number < space.size(); ++number) {
    Json row = Json::array();
    auto candidate = session.build(key, space.text(space.at(number)), why);
    for (int turn = 0; candidate && turn < turns; ++turn) {
      RunOutcome point = session.run(*candidate), beside = session.run(*estimated);
      if (!point.isTimed())
        break;
      if (beside.isTimed())
        row.insert(row.end(), {point.seconds, beside.seconds});
    }
    if (candidate)
      session.drop(*candidate);
    out << row.dump() << std::endl;
  }
  return 0;
}

TruthTable tableOf(const std::string &path) {
  std::ifstream in(path);
  return TruthTable::read(in, path);
}

void replay(const std::string &path, const std::string &name, uint64_t seeds, double within,
            const std::string &how) {
  TruthTable table = tableOf(path);
  Json trials = Json::array();
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::shared_ptr<CostModel> model =
        how == "constant" ? constantModel()
                          : treesModel(how == "regression" ? Loss::Regression : Loss::Rank, seed);
    TruthTable told = how == "permuted" ? table.permuted(seed) : table;
    auto search = makeSearch(name, table.space(), seed, {model});
    trials.push_back(
        trialsToBest(*search, table, told, within, int64_t(table.space().size()), kBatch));
  }
  std::cout << Json({{"search", name},
                     {"how", how},
                     {"points", table.space().size()},
                     {"failures", table.failures()},
                     {"trials", trials}})
                   .dump()
            << "\n";
}

void printRows(const std::string &path) {
  TruthTable table = tableOf(path);
  Json rows = Json::array();
  for (uint64_t number = 0; number < table.space().size(); ++number) {
    double time = table.times()[number];
    rows.push_back({table.space().knobs(table.space().at(number)),
                    std::isfinite(time) ? Json(time) : Json(nullptr)});
  }
  std::cout << rows.dump() << "\n";
}

/// Points, drawn: some to learn from, and some that are held out and ran. Pairs are quadratic.
struct Split {
  std::vector<size_t> order, learnt, held;
  std::vector<double> learntTimes, heldTimes;

  Split(const TruthTable &table, size_t samples, size_t mostHeld, uint64_t seed) {
    order.resize(table.times().size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    Random random(seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(i)]);
    for (size_t i = 0; i < std::min(order.size(), samples + mostHeld); ++i) {
      double time = table.times()[order[i]];
      if (i >= samples && !std::isfinite(time))
        continue;
      (i < samples ? learnt : held).push_back(order[i]);
      (i < samples ? learntTimes : heldTimes).push_back(time);
    }
  }

  using Of = std::function<Features(const Configuration &)>;
  double accuracy(CostModel &model, const TruthTable &table, const Of &featuresOf) const {
    auto rowsOf = [&](const std::vector<size_t> &numbers) {
      std::vector<Features> rows;
      for (size_t number : numbers)
        rows.push_back(featuresOf(table.space().at(number)));
      return rows;
    };
    model.fit(rowsOf(learnt), learntTimes);
    return pairwiseAccuracy(model, rowsOf(held), heldTimes);
  }
};

constexpr std::pair<Loss, const char *> kLosses[] = {{Loss::Rank, "rank"},
                                                     {Loss::Regression, "regression"}};

void accuracy(const std::string &path, size_t samples, uint64_t seed) {
  TruthTable table = tableOf(path);
  Split split(table, samples, 1000, seed);
  Json result{{"samples", samples}, {"held", split.held.size()}, {"order", split.order}};
  for (auto [loss, name] : kLosses)
    result[name] = split.accuracy(*treesModel(loss, seed), table, [&](const Configuration &point) {
      return table.space().knobs(point);
    });
  std::cout << result.dump() << "\n";
}

void programs(const std::string &model, const std::string &path, size_t samples, uint64_t seed) {
  std::ifstream in(path);
  std::string head;
  std::getline(in, head);
  std::string key = Json::parse(head).at("key");
  TruthTable table = tableOf(path);
  ModelSession session(model, settings(), nullptr, runner(), say);
  Split split(table, samples, 300, seed);
  Json result{{"samples", samples}, {"held", split.held.size()}};
  for (auto [loss, name] : kLosses) {
    result[std::string("trees, ") + name] =
        split.accuracy(*treesModel(loss, seed), table, [&](const Configuration &point) {
          return session.features(key, table.space().text(point));
        });
    result[std::string("TreeGRU, ") + name] =
        split.accuracy(*treeGruModel(loss, seed), table, [&](const Configuration &point) {
          return session.loops(key, table.space().text(point));
        });
  }
  std::cout << result.dump() << "\n";
}

void planted(const std::string &name, uint64_t seeds, int64_t trials) {
  Json best = Json::array();
  for (uint64_t seed = 1; seed <= seeds; ++seed)
    best.push_back(bestPlantedProduct(name, seed, trials));
  std::cout << Json({{"search", name}, {"best", best}}).dump() << "\n";
}

int run(const std::vector<std::string> &words) {
  auto is = [&](const char *name, size_t count) {
    return words.size() >= count + 1 && words[0] == name;
  };
  if (is("spaces", 1))
    printSpaces(words[1]);
  else if (is("collect", 4))
    return collect(words[1], words[2], words[3], words[4],
                   words.size() > 5 ? std::stoi(words[5]) : 2);
  else if (is("replay", 4))
    replay(words[1], words[2], std::stoull(words[3]), std::stod(words[4]),
           words.size() > 5 ? words[5] : "rank");
  else if (is("accuracy", 3))
    accuracy(words[1], std::stoul(words[2]), std::stoull(words[3]));
  else if (is("programs", 4))
    programs(words[1], words[2], std::stoul(words[3]), std::stoull(words[4]));
  else if (is("planted", 3))
    planted(words[1], std::stoull(words[2]), std::stoll(words[3]));
  else if (is("rows", 1))
    printRows(words[1]);
  else
    return 2;
  return 0;
}

} // namespace

int main(int count, char **words) {
  try {
    int status = run({words + 1, words + count});
    if (status == 2)
      fprintf(stderr,
              "spaces MODEL | collect MODEL KEY KEPT FILE [TURNS] | replay FILE SEARCH SEEDS "
              "WITHIN [HOW] | accuracy FILE SAMPLES SEED | programs MODEL FILE SAMPLES SEED | "
              "planted SEARCH SEEDS TRIALS | rows "
              "FILE\n");
    return status;
  } catch (const std::exception &failure) {
    fprintf(stderr, "truth-table: %s\n", failure.what());
    return 1;
  }
}
