// Points by number: the digits of a mixed radix, of which a conditional choice may be none; see
// Space.h.
#include "compiler/kernel/Space.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

namespace tensmith::kernel {
namespace {

constexpr uint64_t kMostPoints = uint64_t(1) << 63;

uint64_t bounded(uint64_t a, uint64_t b) {
  return a != 0 && b > kMostPoints / a ? kMostPoints : a * b;
}

bool isBefore(const Point::Entry &entry, const Choice *choice) {
  return entry.first->name < choice->name;
}

} // namespace

std::optional<int64_t> Point::operator[](const Choice &choice) const {
  const auto *it =
      llvm::find_if(entries_, [&](const Entry &entry) { return entry.first == &choice; });
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

void Point::set(const Choice &choice, std::optional<int64_t> value) {
  auto *it = std::lower_bound(entries_.begin(), entries_.end(), &choice, isBefore);
  bool isThere = it != entries_.end() && it->first == &choice;
  if (isThere && value)
    it->second = *value;
  else if (isThere)
    entries_.erase(it);
  else if (value)
    entries_.insert(it, {&choice, *value});
}

void Point::override(const Point &other) {
  for (auto [choice, value] : other)
    set(*choice, value);
}

Point Point::of(llvm::ArrayRef<const Choice *> choices) const {
  Point result;
  for (const Choice *choice : choices)
    result.set(*choice, (*this)[*choice]);
  return result;
}

std::string Point::text() const {
  std::string text;
  for (auto [choice, value] : entries_)
    text += (text.empty() ? "\"" : ",\"") + choice->name.str() + "\":" + std::to_string(value);
  return text;
}

double productOf(llvm::ArrayRef<int64_t> sizes) {
  double product = 1;
  for (int64_t size : sizes)
    product *= double(size);
  return product;
}

Space::Dimension *Space::add(const Choice &choice, llvm::ArrayRef<int64_t> values) {
  Dimension dimension{&choice, {}};
  llvm::copy_if(values, std::back_inserter(dimension.values),
                [&](int64_t value) { return choice.takes(value); });
  llvm::sort(dimension.values);
  dimension.values.erase(std::unique(dimension.values.begin(), dimension.values.end()),
                         dimension.values.end());
  if (dimension.values.empty())
    return nullptr;
  dimensions_.push_back(std::move(dimension));
  return &dimensions_.back();
}

Space::Dimension *Space::addAll(const Choice &choice, int64_t most) {
  llvm::SmallVector<int64_t> values{choice.least};
  for (int64_t value = choice.least + choice.multiple; value <= std::min(most, choice.most);
       value += choice.multiple)
    values.push_back(value);
  return add(choice, values);
}

Space::Dimension *Space::addDoubling(const Choice &choice, int64_t most) {
  most = std::min(most, choice.most) / choice.multiple * choice.multiple;
  llvm::SmallVector<int64_t> values{choice.least};
  for (int64_t value = 2 * std::max(choice.least, choice.multiple); value < most; value *= 2)
    values.push_back(value);
  values.push_back(std::max(most, choice.least));
  return add(choice, values);
}

bool Space::exists(const Dimension &dimension, const Point &before) const {
  if (!dimension.guard)
    return true;
  auto value = before[*dimension.guard];
  return value && llvm::is_contained(dimension.guardValues, *value);
}

bool Space::guards(size_t number) const {
  return llvm::any_of(llvm::drop_begin(dimensions_, number + 1), [&](const Dimension &later) {
    return later.guard == dimensions_[number].choice;
  });
}

bool Space::contains(const Point &point) const {
  size_t made = 0;
  for (const Dimension &dimension : dimensions_) {
    auto value = point[*dimension.choice];
    if (value.has_value() != exists(dimension, point) ||
        (value && !llvm::is_contained(dimension.values, *value)))
      return false;
    made += value.has_value();
  }
  return made == size_t(point.end() - point.begin());
}

uint64_t Space::sizeFrom(size_t number, const Point &before) const {
  if (number == dimensions_.size())
    return 1;
  const Dimension &dimension = dimensions_[number];
  if (!exists(dimension, before))
    return sizeFrom(number + 1, before);
  if (!guards(number))
    return bounded(dimension.values.size(), sizeFrom(number + 1, before));
  uint64_t sum = 0;
  for (int64_t value : dimension.values) {
    Point with = before;
    with.set(*dimension.choice, value);
    sum = std::min(sum + sizeFrom(number + 1, with), kMostPoints);
  }
  return sum;
}

Point Space::at(uint64_t number) const {
  Point point;
  for (auto [place, dimension] : llvm::enumerate(dimensions_)) {
    if (!exists(dimension, point))
      continue;
    for (int64_t value : dimension.values) {
      point.set(*dimension.choice, value);
      uint64_t behind = sizeFrom(place + 1, point);
      if (number < behind)
        break;
      number -= behind;
    }
  }
  return point;
}

Point Space::completed(const Point &point) const {
  Point result;
  for (const Dimension &dimension : dimensions_)
    if (exists(dimension, result))
      result.set(*dimension.choice, point[*dimension.choice].value_or(dimension.values.front()));
  return result;
}

void Space::neighbours(const Point &point, llvm::function_ref<void(const Point &)> visit) const {
  for (const Dimension &dimension : dimensions_) {
    auto value = point[*dimension.choice];
    if (!value)
      continue;
    size_t place = llvm::find(dimension.values, *value) - dimension.values.begin();
    for (size_t next : {place - 1, place + 1}) {
      if (next >= dimension.values.size())
        continue;
      Point changed = point;
      changed.set(*dimension.choice, dimension.values[next]);
      visit(completed(changed));
    }
  }
}

Point Space::crossover(const Point &a, const Point &b, const Random &random) const {
  Point mixed;
  for (const Dimension &dimension : dimensions_) {
    const Point &first = random(2) ? a : b, &second = &first == &a ? b : a;
    auto value = first[*dimension.choice];
    mixed.set(*dimension.choice, value ? value : second[*dimension.choice]);
  }
  return completed(mixed);
}

} // namespace tensmith::kernel
