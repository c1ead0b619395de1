// Points by number; see MixedRadix.h.
#include "base/MixedRadix.h"

#include <algorithm>

namespace tensmith {
namespace {

constexpr uint64_t kMostPoints = uint64_t(1) << 63;

uint64_t bounded(uint64_t a, uint64_t b) {
  return a != 0 && b > kMostPoints / a ? kMostPoints : a * b;
}

} // namespace

bool MixedRadix::exists(size_t place, const Digits &before) const {
  const Digit &digit = digits_[place];
  if (digit.values == 0)
    return false;
  return digit.guard < 0 || std::ranges::find(digit.guardValues, before[size_t(digit.guard)]) !=
                                digit.guardValues.end();
}

bool MixedRadix::guards(size_t place) const {
  return std::any_of(digits_.begin() + ptrdiff_t(place) + 1, digits_.end(),
                     [&](const Digit &later) { return later.guard == int32_t(place); });
}

uint64_t MixedRadix::sizeBehind(Digits &before) const {
  size_t place = before.size();
  if (place == digits_.size())
    return 1;
  uint64_t size = 0;
  bool isThere = exists(place, before);
  before.push_back(isThere ? 0 : kAbsent);
  if (!isThere)
    size = sizeBehind(before);
  else if (!guards(place)) // the same behind each value
    size = bounded(uint64_t(digits_[place].values), sizeBehind(before));
  else
    for (; before[place] < digits_[place].values; ++before[place])
      size = std::min(size + sizeBehind(before), kMostPoints);
  before.pop_back();
  return size;
}

uint64_t MixedRadix::size() const {
  Digits none;
  return sizeBehind(none);
}

Digits MixedRadix::at(uint64_t number) const {
  Digits point;
  for (size_t place = 0; place < digits_.size(); ++place) {
    bool isThere = exists(place, point);
    point.push_back(isThere ? 0 : kAbsent);
    for (; isThere; ++point.back()) {
      uint64_t behind = sizeBehind(point);
      if (number < behind || point.back() + 1 == digits_[place].values)
        break;
      number -= behind;
    }
  }
  return point;
}

bool MixedRadix::contains(const Digits &point) const {
  if (point.size() != digits_.size())
    return false;
  for (size_t place = 0; place < digits_.size(); ++place) {
    int32_t value = point[place];
    if ((value != kAbsent) != exists(place, point) || value >= digits_[place].values ||
        value < kAbsent)
      return false;
  }
  return true;
}

Digits MixedRadix::completed(Digits point) const {
  for (size_t place = 0; place < digits_.size(); ++place) {
    if (!exists(place, point))
      point[place] = kAbsent;
    else if (point[place] == kAbsent)
      point[place] = 0;
  }
  return point;
}

std::vector<Digits> MixedRadix::neighbours(const Digits &point) const {
  std::vector<Digits> all;
  for (size_t place = 0; place < digits_.size(); ++place)
    for (int32_t step : {-1, 1}) {
      int32_t next = point[place] + step;
      if (point[place] == kAbsent || next < 0 || next >= digits_[place].values)
        continue;
      Digits changed = point;
      changed[place] = next;
      all.push_back(completed(std::move(changed)));
    }
  return all;
}

} // namespace tensmith
