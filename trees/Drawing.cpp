// Places of nodes, and their SVG; see Drawing.h.
#include "trees/Drawing.h"

#include "files/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace tensmith::trees {
namespace {

constexpr double kLeafWidth = 96, kLevelHeight = 84, kBoxHeight = 44, kMargin = 12;
constexpr double kCharacter = 6.6, kBarHeight = 18, kRow = 26, kLabel = 180, kBars = 460;
constexpr size_t kMostCharacters = 26;

constexpr const char *kStyle =
    "<style>text{font:12px sans-serif;fill:#222}rect.split{fill:#dbe7f6;stroke:#4671a8}"
    "rect.leaf{fill:#e4f2df;stroke:#5b8f46}path{stroke:#888;fill:none}path.missing{stroke-width:2."
    "5}"
    "rect.bar{fill:#4671a8}.small{font-size:10px;fill:#666}"
    "@media(prefers-color-scheme:dark){svg{background:#1b1b1b}text{fill:#ddd}rect.split{fill:#"
    "24364d}"
    "rect.leaf{fill:#2a3d22}.small{fill:#aaa}}</style>";

std::string opened(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">{2}\n",
      width, height, kStyle);
}

std::string shortened(const std::string &text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 1) + "\xe2\x80\xa6";
}

/// Of each node: the middle of its box, and its level.
struct Places {
  std::vector<double> x;
  std::vector<int32_t> level;
  int32_t leaves = 0, levels = 1;
};

Places placesOf(const Tree &tree, double width) {
  Places places;
  places.x.resize(size_t(tree.size()));
  places.level.resize(size_t(tree.size()), 0);
  std::vector<int32_t> waiting{0};
  while (!waiting.empty()) { // from left to right
    int32_t node = waiting.back();
    waiting.pop_back();
    places.levels = std::max(places.levels, places.level[size_t(node)] + 1);
    if (tree.isLeaf(node)) {
      places.x[size_t(node)] = kMargin + (places.leaves++ + 0.5) * width;
      continue;
    }
    for (int32_t child : {tree.right[size_t(node)], tree.left[size_t(node)]}) {
      places.level[size_t(child)] = places.level[size_t(node)] + 1;
      waiting.push_back(child);
    }
  }
  for (int32_t node = tree.size() - 1; node >= 0; --node)
    if (!tree.isLeaf(node))
      places.x[size_t(node)] =
          (places.x[size_t(tree.left[size_t(node)])] + places.x[size_t(tree.right[size_t(node)])]) /
          2;
  return places;
}

std::string boxOf(const Forest &forest, const Tree &tree, int32_t node, double x, double y,
                  double width) {
  bool isLeaf = tree.isLeaf(node);
  std::string title =
      isLeaf ? fmt::format("{:.5g}", tree.value[size_t(node)]) : testOf(forest, tree, node);
  std::string detail = isLeaf ? fmt::format("cover {:.5g}", tree.cover[size_t(node)])
                              : fmt::format("gain {:.5g}", tree.gain[size_t(node)]);
  auto most = size_t((width - 14) / kCharacter);
  return fmt::format(
      "<g><title>node {}: {}, cover {:.6g}</title><rect class=\"{}\" x=\"{:.1f}\" "
      "y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"5\"/>"
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>"
      "<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>"
      "</g>\n",
      node, escaped(title), tree.cover[size_t(node)], isLeaf ? "leaf" : "split", x - width / 2 + 4,
      y, width - 8, kBoxHeight, x, y + 18, escaped(shortened(title, most)), x, y + 34, detail);
}

} // namespace

Result<std::string> treeSvg(const Forest &forest, int64_t number) {
  if (number < 0 || number >= int64_t(forest.trees.size()))
    return invalidArgument(
        fmt::format("there is no tree {}; there are {}", number, forest.trees.size()));
  const Tree &tree = forest.trees[size_t(number)];
  if (tree.size() / 2 + 1 > kMostDrawn)
    return unsupported(fmt::format("tree {} has more than {} leaves, too many to read; draw "
                                   "another, or dump the forest as text",
                                   number, kMostDrawn));
  size_t longest = 10;
  for (int32_t node = 0; node < tree.size(); ++node)
    if (!tree.isLeaf(node))
      longest = std::max(longest, std::min(testOf(forest, tree, node).size(), kMostCharacters));
  double width = std::max(kLeafWidth, double(longest) * kCharacter + 16);
  Places places = placesOf(tree, width);
  auto top = [&](int32_t node) { return kMargin + places.level[size_t(node)] * kLevelHeight; };
  std::string svg = opened(places.leaves * width + 2 * kMargin,
                           (places.levels - 1) * kLevelHeight + kBoxHeight + 2 * kMargin);
  for (int32_t node = 0; node < tree.size(); ++node)
    for (int32_t child : {tree.left[size_t(node)], tree.right[size_t(node)]})
      if (!tree.isLeaf(node)) {
        bool isMissing =
            (child == tree.left[size_t(node)]) == (tree.missingLeft[size_t(node)] != 0);
        svg += fmt::format("<path{} d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n",
                           isMissing ? " class=\"missing\"" : "", places.x[size_t(node)],
                           top(node) + kBoxHeight, places.x[size_t(child)], top(child));
      }
  for (int32_t node = 0; node < tree.size(); ++node)
    svg += boxOf(forest, tree, node, places.x[size_t(node)], top(node), width);
  return svg + "</svg>\n";
}

std::string importanceSvg(const Forest &forest, Importance kind, int64_t most) {
  std::vector<double> values = importances(forest, kind);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return values[i]; });
  std::erase_if(order, [&](size_t i) { return values[i] == 0; });
  order.resize(std::min(order.size(), size_t(std::max<int64_t>(most, 0))));
  std::string svg = opened(kLabel + kBars + 110, double(order.size()) * kRow + 2 * kMargin);
  for (size_t i = 0; i < order.size(); ++i) {
    double y = kMargin + double(i) * kRow, length = kBars * values[order[i]] / values[order[0]];
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
                       "<rect class=\"bar\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>"
                       "<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\">{:.5g}</text>\n",
                       kLabel - 8, y + 13,
                       escaped(shortened(nameOf(forest, int64_t(order[i])), kMostCharacters)),
                       kLabel, y, std::max(length, 0.0), kBarHeight,
                       kLabel + std::max(length, 0.0) + 6, y + 13, values[order[i]]);
  }
  return svg + "</svg>\n";
}

Result<std::string> forestPage(const Forest &forest, int64_t tree, Importance kind) {
  auto drawing = treeSvg(forest, tree);
  if (!drawing.ok())
    return drawing;
  return fmt::format(
      "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>Forest</title>\n"
      "<h1>{} trees, {}</h1>\n<h2>Importance of features</h2>\n{}"
      "<h2>Tree {}</h2>\n<p>Left where the test holds; missing values take the thick "
      "line.</p>\n<div style=\"overflow:auto\">{}</div>\n",
      forest.trees.size(), escaped(forest.objective), importanceSvg(forest, kind), tree, *drawing);
}

} // namespace tensmith::trees
