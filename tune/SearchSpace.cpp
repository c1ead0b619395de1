// From descriptions and texts to points, and moves that are drawn; see SearchSpace.h.
#include "tune/SearchSpace.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace tensmith::tune {
namespace {

/// By the ratio, since what choices count is mostly doubled.
ptrdiff_t nearestOf(std::span<const double> numbers, double wanted) {
  auto distance = [&](double number) { return std::abs(std::log2((1 + number) / (1 + wanted))); };
  return std::ranges::min_element(numbers, {}, distance) - numbers.begin();
}

void addFactors(SearchSpace::Dimension &dimension, const Json &said, const std::string &what) {
  int64_t size = said.value("of", int64_t(0));
  auto parts = said.value("parts", size_t(0));
  std::map<Factors, int32_t> places;
  for (double number : dimension.numbers) {
    auto factors = size > 0 && parts > 0 && parts <= kMostFactors
                       ? factorsOf(int64_t(number), size, parts)
                       : std::nullopt;
    if (!factors)
      fail(what, "'" + dimension.name +
                     "' has a value that is no factorisation; this is a mistake in tensmith");
    places.emplace(*factors, int32_t(dimension.factors.size()));
    dimension.factors.push_back(std::move(*factors));
  }
  for (const Factors &each : dimension.factors) {
    std::vector<int32_t> &moves = dimension.moves.emplace_back();
    for (const Factors &near : neighboursOf(each))
      if (auto place = places.find(near); place != places.end())
        moves.push_back(place->second);
  }
}

} // namespace

SearchSpace SearchSpace::fromJson(const Json &choices, const std::string &what) {
  SearchSpace space;
  if (!choices.is_array())
    fail(what, "its choices are no list; this is a mistake in tensmith");
  for (const Json &choice : choices) {
    Dimension dimension;
    dimension.name = choice.value("choice", "");
    const Json values = choice.value("values", Json::array());
    for (const Json &value : values) {
      dimension.numbers.push_back(value.is_number() ? value.get<double>()
                                                    : double(dimension.numbers.size()));
      dimension.values.push_back(value.dump());
    }
    if (dimension.name.empty() || dimension.values.empty())
      fail(what, "a choice has no name or no values; this is a mistake in tensmith");
    if (choice.contains("factors"))
      addFactors(dimension, choice["factors"], what);
    MixedRadix::Digit digit{int32_t(dimension.values.size())};
    const Json where = choice.value("where", Json::object());
    for (const auto &[name, allowed] : where.items()) {
      auto guard = std::ranges::find(space.dimensions_, name, &Dimension::name);
      if (guard == space.dimensions_.end())
        fail(what, "'" + dimension.name + "' depends on '" + name + "', which is no choice before");
      digit.guard = int32_t(guard - space.dimensions_.begin());
      for (const Json &value : allowed) {
        auto place = std::ranges::find(guard->values, value.dump());
        if (place != guard->values.end())
          digit.guardValues.push_back(int32_t(place - guard->values.begin()));
      }
    }
    space.dimensions_.push_back(std::move(dimension));
    space.radix_.add(std::move(digit));
  }
  return space;
}

std::vector<Configuration> SearchSpace::neighbours(const Configuration &configuration) const {
  std::vector<Configuration> all = radix_.neighbours(configuration);
  auto changedPlace = [&](const Configuration &near) {
    return size_t(std::ranges::mismatch(near, configuration).in1 - near.begin());
  };
  std::erase_if(all, [&](const Configuration &near) {
    return !dimensions_[changedPlace(near)].factors.empty();
  });
  for (size_t place = 0; place < dimensions_.size(); ++place) {
    if (configuration[place] == kAbsent || dimensions_[place].factors.empty())
      continue;
    for (int32_t move : dimensions_[place].moves[size_t(configuration[place])]) {
      all.push_back(configuration);
      all.back()[place] = move;
    }
  }
  return all;
}

Configuration SearchSpace::mutated(const Configuration &configuration, Random &random) const {
  std::vector<size_t> open;
  for (size_t i = 0; i < dimensions_.size(); ++i)
    if (configuration[i] != kAbsent && dimensions_[i].values.size() > 1)
      open.push_back(i);
  if (open.empty())
    return configuration;
  size_t place = open[random.below(open.size())];
  Configuration changed = configuration;
  auto value = int32_t(random.below(dimensions_[place].values.size() - 1));
  changed[place] = value + (value >= configuration[place] ? 1 : 0);
  return radix_.completed(std::move(changed));
}

Configuration SearchSpace::crossover(std::span<const Configuration *const> parents,
                                     Random &random) const {
  Configuration mixed(dimensions_.size(), kAbsent);
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    mixed[i] = (*parents[random.below(parents.size())])[i];
    for (size_t other = 0; mixed[i] == kAbsent && other < parents.size(); ++other)
      mixed[i] = (*parents[other])[i];
  }
  return radix_.completed(std::move(mixed));
}

std::string SearchSpace::text(const Configuration &configuration) const {
  std::vector<std::string> members;
  for (size_t i = 0; i < dimensions_.size(); ++i)
    if (configuration[i] != kAbsent)
      members.push_back("\"" + dimensions_[i].name +
                        "\":" + dimensions_[i].values[size_t(configuration[i])]);
  std::ranges::sort(members);
  std::string text;
  for (const std::string &member : members)
    text += (text.empty() ? "" : ",") + member;
  return text;
}

Configuration SearchSpace::parse(const std::string &text) const {
  Json object = Json::parse("{" + text + "}", nullptr, false);
  if (!object.is_object())
    return {};
  Configuration configuration(dimensions_.size(), kAbsent);
  for (const auto &[name, value] : object.items()) {
    auto dimension = std::ranges::find(dimensions_, name, &Dimension::name);
    if (dimension == dimensions_.end())
      return {};
    auto place = std::ranges::find(dimension->values, value.dump());
    if (place == dimension->values.end())
      return {};
    configuration[size_t(dimension - dimensions_.begin())] =
        int32_t(place - dimension->values.begin());
  }
  return radix_.completed(std::move(configuration));
}

Configuration SearchSpace::nearest(const std::string &text) const {
  Json object = Json::parse("{" + text + "}", nullptr, false);
  Configuration configuration(dimensions_.size(), kAbsent);
  bool saysSomething = false;
  for (size_t i = 0; object.is_object() && i < dimensions_.size(); ++i) {
    const Dimension &dimension = dimensions_[i];
    auto value = object.find(dimension.name);
    if (value == object.end())
      continue;
    auto same = std::ranges::find(dimension.values, value->dump());
    if (same == dimension.values.end() && value->is_number() && dimension.factors.empty())
      same = dimension.values.begin() + nearestOf(dimension.numbers, value->get<double>());
    if (same == dimension.values.end())
      continue;
    configuration[i] = int32_t(same - dimension.values.begin());
    saysSomething = true;
  }
  return saysSomething ? radix_.completed(std::move(configuration)) : Configuration();
}

std::vector<double> SearchSpace::knobs(const Configuration &configuration) const {
  std::vector<double> numbers;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const Dimension &dimension = dimensions_[i];
    bool isThere = configuration[i] != kAbsent;
    auto value = size_t(isThere ? configuration[i] : 0);
    if (dimension.factors.empty())
      numbers.push_back(isThere ? std::log2(1 + dimension.numbers[value]) : -1);
    else
      for (int64_t factor : dimension.factors[value])
        numbers.push_back(isThere ? std::log2(double(factor)) : -1);
  }
  return numbers;
}

std::vector<size_t> SearchSpace::dimensionsOfKnobs() const {
  std::vector<size_t> places;
  for (size_t i = 0; i < dimensions_.size(); ++i)
    places.insert(places.end(),
                  dimensions_[i].factors.empty() ? 1 : dimensions_[i].factors.front().size(), i);
  return places;
}

} // namespace tensmith::tune
