// American spellings where ours are British: `--optimizer` is `--optimiser`.
//
// Names of options, settings and modules are looked up as they are written; one that is unknown is
// compared with the known ones once more, both in one spelling. That spelling need not be a word
// ("size" becomes "sise"), since nobody sees it: it has to be the same for both. So a name that has
// no British form is never taken for another one, and either spelling finds either.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace tensmith {

/// The word with every American part replaced: "layer-normalization" gives "layer-normalisation".
inline std::string spelledOneWay(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kParts = {{
      {"iz", "is"},
      {"yz", "ys"},
      {"color", "colour"},
      {"gray", "grey"},
      {"center", "centre"},
      {"behavior", "behaviour"},
      {"neighbor", "neighbour"},
      {"license", "licence"},
  }};
  std::string result(word);
  for (auto [american, british] : kParts)
    for (size_t at = 0; (at = result.find(american, at)) != std::string::npos; at += british.size())
      result.replace(at, american.size(), british);
  return result;
}

/// Of `names`, the one that `word` is in another spelling; `word` itself where there is none.
template <typename Names> std::string knownSpelling(std::string_view word, const Names &names) {
  std::string wanted = spelledOneWay(word);
  std::string found(word);
  for (const auto &name : names) {
    if (std::string_view(name) == word)
      return std::string(word);
    if (spelledOneWay(name) == wanted)
      found = name;
  }
  return found;
}

} // namespace tensmith
