// Where labels of a plot stand, and how its numbers are written.
#include "files/Plot.h"
#include "files/Words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith {
namespace {

constexpr double kLeastPlain = 1e-4, kMostPlain = 1e7;
constexpr int kDigits = 6; // of a number that is written plainly

/// Without the zeros at the end of a fraction.
std::string trimmed(std::string number) {
  if (number.find('.') == std::string::npos)
    return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.')
    number.pop_back();
  return number;
}

std::string withCommas(std::string number) {
  size_t end = std::min(number.find('.'), number.size());
  for (size_t at = end; at > 3 && at - 3 > size_t(number.front() == '-' ? 1 : 0);) {
    at -= 3;
    number.insert(at, ",");
  }
  return number;
}

std::string superscript(int number) {
  static constexpr const char *kDigitsAbove[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = number < 0 ? "⁻" : "";
  for (char digit : std::to_string(std::abs(number)))
    text += kDigitsAbove[digit - '0'];
  return text;
}

/// Code points, all of which are taken to be as wide as a wide letter.
double widthOf(std::string_view text) {
  constexpr double kOfFontSize = 0.62;
  auto letters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  return double(letters) * Labels::kFontSize * kOfFontSize;
}

const char *nameOf(Labels::Anchor anchor) {
  return anchor == Labels::Anchor::Start ? "start"
         : anchor == Labels::Anchor::End ? "end"
                                         : "middle";
}

} // namespace

std::string tickText(double value) {
  double magnitude = std::abs(value);
  if (magnitude == 0)
    return "0";
  if (!std::isfinite(value))
    return fmt::format("{}", value);
  int exponent = int(std::floor(std::log10(magnitude)));
  if (magnitude >= kLeastPlain && magnitude < kMostPlain)
    return withCommas(trimmed(fmt::format("{:.{}f}", value, std::max(0, kDigits - 1 - exponent))));
  std::string power = "10" + superscript(exponent);
  std::string factor = trimmed(fmt::format("{:.2f}", value / std::pow(10, exponent)));
  if (factor == "1")
    return power;
  return factor == "-1" ? "-" + power : factor + "·" + power;
}

Box Labels::boxOf(const Place &place, std::string_view text) {
  double width = widthOf(text);
  double left = place.x - (place.anchor == Anchor::Start ? 0
                           : place.anchor == Anchor::End ? width
                                                         : width / 2);
  return {left, place.y - kFontSize, left + width, place.y + 0.3 * kFontSize};
}

bool Labels::isFree(const Box &box) const {
  return box.left >= picture_.left && box.right <= picture_.right && box.top >= picture_.top &&
         box.bottom <= picture_.bottom &&
         std::none_of(taken_.begin(), taken_.end(),
                      [&](const Box &other) { return box.overlaps(other); });
}

bool Labels::write(const std::vector<Place> &places, std::string_view text) {
  const Place *chosen = nullptr;
  for (const Place &place : places) {
    Box box = boxOf(place, text);
    if (!isFree(box))
      continue;
    bool isClear = std::none_of(avoided_.begin(), avoided_.end(),
                                [&](const Box &other) { return box.overlaps(other); });
    if (isClear || !chosen)
      chosen = &place;
    if (isClear)
      break;
  }
  if (!chosen)
    return false;
  taken_.push_back(boxOf(*chosen, text));
  svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", chosen->x,
                      chosen->y, nameOf(chosen->anchor), escaped(text));
  return true;
}

} // namespace tensmith
