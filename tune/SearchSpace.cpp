// Configurations by number, and their neighbours; see SearchSpace.h.
#include "tune/SearchSpace.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>

namespace tensmith::tune {
namespace {

constexpr uint64_t kMostPoints = uint64_t(1) << 62;

uint64_t bounded(uint64_t a, uint64_t b) {
  return a != 0 && b > kMostPoints / a ? kMostPoints : a * b;
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
    const Json where = choice.value("where", Json::object());
    for (const auto &[name, allowed] : where.items()) {
      auto guard = std::ranges::find(space.dimensions_, name, &Dimension::name);
      if (guard == space.dimensions_.end())
        fail(what, "'" + dimension.name + "' depends on '" + name + "', which is no choice before");
      dimension.guard = int32_t(guard - space.dimensions_.begin());
      for (const Json &value : allowed) {
        auto place = std::ranges::find(guard->values, value.dump());
        if (place != guard->values.end())
          dimension.guardValues.push_back(int32_t(place - guard->values.begin()));
      }
    }
    space.dimensions_.push_back(std::move(dimension));
  }
  return space;
}

bool SearchSpace::exists(size_t dimension, const Configuration &before) const {
  const Dimension &here = dimensions_[dimension];
  return here.guard < 0 ||
         std::ranges::find(here.guardValues, before[size_t(here.guard)]) != here.guardValues.end();
}

bool SearchSpace::guards(size_t dimension) const {
  return std::any_of(dimensions_.begin() + ptrdiff_t(dimension) + 1, dimensions_.end(),
                     [&](const Dimension &later) { return later.guard == int32_t(dimension); });
}

uint64_t SearchSpace::behind(size_t dimension, const Configuration &before) const {
  if (dimension == dimensions_.size())
    return 1;
  Configuration with = before;
  with.push_back(kAbsent);
  if (!exists(dimension, before))
    return behind(dimension + 1, with);
  const auto count = int32_t(dimensions_[dimension].values.size());
  if (!guards(dimension)) {
    with.back() = 0;
    return bounded(uint64_t(count), behind(dimension + 1, with));
  }
  uint64_t sum = 0;
  for (with.back() = 0; with.back() < count; ++with.back())
    sum = std::min(sum + behind(dimension + 1, with), kMostPoints);
  return sum;
}

Configuration SearchSpace::at(uint64_t number) const {
  Configuration point;
  for (size_t place = 0; place < dimensions_.size(); ++place) {
    if (!exists(place, point)) {
      point.push_back(kAbsent);
      continue;
    }
    point.push_back(0);
    for (;; ++point.back()) {
      uint64_t later = behind(place + 1, point);
      if (number < later || point.back() + 1 == int32_t(dimensions_[place].values.size()))
        break;
      number -= later;
    }
  }
  return point;
}

bool SearchSpace::contains(const Configuration &configuration) const {
  if (configuration.size() != dimensions_.size())
    return false;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    int32_t value = configuration[i];
    if ((value != kAbsent) != exists(i, configuration) ||
        value >= int32_t(dimensions_[i].values.size()) || value < kAbsent)
      return false;
  }
  return true;
}

Configuration SearchSpace::completed(Configuration configuration) const {
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (!exists(i, configuration))
      configuration[i] = kAbsent;
    else if (configuration[i] == kAbsent)
      configuration[i] = 0;
  }
  return configuration;
}

std::vector<Configuration> SearchSpace::neighbours(const Configuration &configuration) const {
  std::vector<Configuration> all;
  for (size_t i = 0; i < dimensions_.size(); ++i)
    for (int32_t step : {-1, 1}) {
      int32_t next = configuration[i] + step;
      if (configuration[i] == kAbsent || next < 0 || next >= int32_t(dimensions_[i].values.size()))
        continue;
      Configuration changed = configuration;
      changed[i] = next;
      all.push_back(completed(std::move(changed)));
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
  return completed(std::move(changed));
}

Configuration SearchSpace::crossover(std::span<const Configuration *const> parents,
                                     Random &random) const {
  Configuration mixed(dimensions_.size(), kAbsent);
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    mixed[i] = (*parents[random.below(parents.size())])[i];
    for (size_t other = 0; mixed[i] == kAbsent && other < parents.size(); ++other)
      mixed[i] = (*parents[other])[i];
  }
  return completed(std::move(mixed));
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
  return completed(std::move(configuration));
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
