// What is printed of words that come from outside, and which of some names was meant by one.
#include "files/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <strings.h>
#include <utility>

namespace tensmith {

std::string printable(std::string_view text) {
  std::string result;
  for (unsigned char c : text)
    result += c < 0x20 || c == 0x7f ? fmt::format("\\x{:02x}", c) : std::string(1, char(c));
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1],
                               std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

std::optional<std::string> nearest(const std::string &name, const std::vector<std::string> &names) {
  std::optional<std::string> best;
  size_t distance = std::min(std::max<size_t>(2, name.size() / 3) + 1, name.size());
  for (const std::string &candidate : names)
    if (::strcasecmp(name.c_str(), candidate.c_str()) == 0)
      return candidate; // also where one letter is all there is
  for (const std::string &candidate : names)
    if (size_t d = editDistance(name.substr(0, 100), candidate.substr(0, 100)); d < distance)
      best = candidate, distance = d;
  return best;
}

std::string suggestion(const std::string &word, const std::vector<std::string> &names) {
  auto close = nearest(word, names);
  return close ? "; did you mean '" + *close + "'?" : "";
}

} // namespace tensmith
