// Points as digits of a mixed radix, and as texts; see Space.h.
#include "compiler/kernel/Space.h"

#include "llvm/ADT/STLExtras.h"

namespace tensmith::kernel {
namespace {

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

MixedRadix Space::radix() const {
  MixedRadix radix;
  for (const Dimension &dimension : dimensions_) {
    MixedRadix::Digit digit{int32_t(dimension.values.size())};
    if (dimension.guard) {
      const auto *guard = llvm::find_if(
          dimensions_, [&](const Dimension &earlier) { return earlier.choice == dimension.guard; });
      if (guard >= &dimension) // one that is not there has none of the values
        digit.values = 0;
      else
        digit.guard = int32_t(guard - dimensions_.begin());
      for (int64_t value : dimension.guardValues)
        if (digit.values > 0)
          if (const auto *place = llvm::find(guard->values, value); place != guard->values.end())
            digit.guardValues.push_back(int32_t(place - guard->values.begin()));
    }
    radix.add(std::move(digit));
  }
  return radix;
}

bool Space::contains(const Point &point) const {
  Digits digits;
  size_t made = 0;
  for (const Dimension &dimension : dimensions_) {
    auto value = point[*dimension.choice];
    const auto *place = value ? llvm::find(dimension.values, *value) : nullptr;
    if (place == dimension.values.end())
      return false;
    digits.push_back(value ? int32_t(place - dimension.values.begin()) : kAbsent);
    made += value.has_value();
  }
  return radix().contains(digits) && made == size_t(point.end() - point.begin());
}

Point Space::at(uint64_t number) const {
  Point point;
  for (auto [dimension, digit] : llvm::zip(dimensions_, radix().at(number)))
    if (digit != kAbsent)
      point.set(*dimension.choice, dimension.values[size_t(digit)]);
  return point;
}

} // namespace tensmith::kernel
