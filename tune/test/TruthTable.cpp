// Tables are read, looked up and replayed; see TruthTable.h.
#include "tune/test/TruthTable.h"

#include "files/Failure.h"
#include "tune/Challenge.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tensmith::tune {

Json subSpace(const Json &choices, const Json &kept, const std::string &what) {
  Json result = Json::array();
  for (const auto &[name, values] : kept.items()) {
    auto named = [&, &name = name](const Json &choice) {
      return choice.value("choice", "") == name;
    };
    if (std::ranges::none_of(choices, named))
      fail(what, "there is no choice '" + name + "'");
  }
  for (Json choice : choices) {
    auto keep = kept.find(choice.value("choice", ""));
    if (keep == kept.end())
      continue;
    Json values = keep->is_null() ? choice["values"] : *keep;
    for (const Json &value : values)
      if (std::ranges::find(choice["values"], value) == choice["values"].end())
        fail(what, "'" + keep.key() + "' has no value " + value.dump());
    choice["values"] = values;
    // What depends on a choice that is fixed is there as the estimates have it.
    const Json where = choice.value("where", Json::object());
    for (const auto &[guard, allowed] : where.items())
      if (!kept.contains(guard))
        choice.erase("where");
    result.push_back(std::move(choice));
  }
  return result;
}

TruthTable::TruthTable(SearchSpace space, std::vector<double> times)
    : space_(std::move(space)), times_(std::move(times)) {}

TruthTable TruthTable::read(std::istream &in, const std::string &name) {
  std::string line;
  std::getline(in, line);
  Json head = Json::parse(line, nullptr, false);
  if (!head.is_object())
    fail(name, "is no table: its first line is no object");
  SearchSpace space = SearchSpace::fromJson(head.value("choices", Json::array()), name);
  std::vector<double> times;
  while (std::getline(in, line)) {
    Json row = Json::parse(line, nullptr, false);
    if (!row.is_array() || row.size() % 2 != 0)
      fail(name, "line " + std::to_string(times.size() + 2) + " is no list of pairs of times");
    std::vector<double> ratios;
    for (size_t i = 0; i + 1 < row.size(); i += 2)
      ratios.push_back(row[i].get<double>() / row[i + 1].get<double>());
    times.push_back(ratios.empty() ? kFailed : medianOf(ratios));
  }
  if (times.size() != space.size())
    fail(name,
         "has " + std::to_string(times.size()) + " of " + std::to_string(space.size()) + " points");
  return {std::move(space), std::move(times)};
}

/// By bisection: `at` counts the last choice fastest, absent values before the first.
uint64_t TruthTable::numberOf(const Configuration &point) const {
  uint64_t low = 0, high = space_.size();
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    (point < space_.at(middle) ? high : low) = middle;
  }
  return low;
}

double TruthTable::time(const Configuration &point) const { return times_[numberOf(point)]; }

double TruthTable::best() const { return std::ranges::min(times_); }

int64_t TruthTable::failures() const { return std::ranges::count(times_, kFailed); }

TruthTable TruthTable::permuted(uint64_t seed) const {
  TruthTable other = *this;
  Random random(seed);
  for (size_t i = other.times_.size(); i > 1; --i)
    std::swap(other.times_[i - 1], other.times_[random.below(i)]);
  return other;
}

int64_t trialsToBest(Search &search, const TruthTable &table, const TruthTable &told, double within,
                     int64_t most, size_t batch) {
  double wanted = table.best() * (1 + within);
  int64_t trials = 0;
  while (trials < most) {
    std::vector<Observation> news;
    for (const Configuration &point : search.propose(batch)) {
      ++trials;
      if (table.time(point) <= wanted || trials >= most)
        return trials;
      news.push_back({point, told.time(point)});
    }
    if (news.empty())
      break;
    search.observe(news);
  }
  return most;
}

} // namespace tensmith::tune
