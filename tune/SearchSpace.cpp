// From descriptions and texts to points, and moves that are drawn; see SearchSpace.h.
#include "tune/SearchSpace.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

/// By the ratio, since what choices count is mostly doubled.
ptrdiff_t nearestOf(std::span<const double> numbers, double wanted) {
  auto distance = [&](double number) { return std::abs(std::log2((1 + number) / (1 + wanted))); };
  return std::ranges::min_element(numbers, {}, distance) - numbers.begin();
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
    if (same == dimension.values.end() && value->is_number())
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
  for (size_t i = 0; i < dimensions_.size(); ++i)
    numbers.push_back(configuration[i] == kAbsent
                          ? -1
                          : std::log2(1 + dimensions_[i].numbers[size_t(configuration[i])]));
  return numbers;
}

} // namespace tensmith::tune
