// Several models side by side: the time of a run of each, and where the difference lies, kernel by
// kernel. What all pages have in common is here, too.
#include "files/Plot.h"
#include "files/Words.h"
#include "tools/tensmith/KernelReport.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace tensmith::cli {
namespace {

constexpr double kWidth = 980, kLeft = 10, kRight = 120, kRow = 46, kBar = 18, kTop = 8,
                 kBottom = 40;

constexpr const char *kPage = R"(
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.3em; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; }
svg text { font-size: 12px; fill: #46515f; stroke: #fff; stroke-width: 3px; paint-order: stroke; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2em .6em; text-align: right; white-space: nowrap; }
tr:nth-child(even) { background: #f5f7f9; } th { border-bottom: 1px solid #46515f; white-space: normal; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .3em 0 1em; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe5ec; }
  svg text { fill: #aab4c0; stroke: #14181d; } tr:nth-child(even) { background: #1c2229; } }
)";

constexpr const char *kStyle = R"(
.bar { fill: #2f6fde; } .spread { stroke: #1c2430; stroke-width: 1.5; } .grid { stroke: #e4e8ed; }
td:last-child, th:last-child { text-align: left; overflow-wrap: anywhere; white-space: normal; }
td.slower { color: #b3261e; } td.faster { color: #17714f; } tr.sum td { border-top: 1px solid #46515f; font-weight: bold; }
@media (prefers-color-scheme: dark) { .spread { stroke: #dfe5ec; } .grid { stroke: #2a323b; }
  td.slower { color: #ff8a80; } td.faster { color: #6fd6ae; } }
)";

/// What is within 5% is not told from noise.
const char *classOf(double ratio) {
  return ratio > 1.05 ? "slower" : ratio < 1 / 1.05 ? "faster" : "same";
}

std::string threadsText(int threads) {
  return threads == 1 ? "1 thread" : fmt::format("{} threads", threads);
}

/// Round steps, at most eight to the whole.
double stepOf(double most) {
  double step = std::pow(10, std::floor(std::log10(most / 8)));
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if (factor * step >= most / 8)
      return factor * step;
  return 10 * step;
}

/// A bar up to the median, with a line from the least time to the one that 90% are within.
std::string bars(const Json &benches) {
  double slowest = 1e-9, furthest = 0, height = kTop + kRow * double(benches.size()) + kBottom;
  for (const Json &bench : benches) {
    slowest = std::max(slowest, bench["median"].get<double>());
    furthest = std::max(furthest, bench["p90"].get<double>());
  }
  // A line may leave the picture; bars are what is compared.
  double most = std::clamp(furthest, slowest, 1.5 * slowest);
  auto at = [&](double seconds) {
    return kLeft + (kWidth - kLeft - kRight) * std::min(seconds / most, 1.02);
  };
  Labels labels(kWidth, height);
  std::string text = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Times\">\n",
                                 kWidth, height);
  bool isMilli = most < 1;
  double unit = isMilli ? 1e-3 : 1, step = stepOf(most / unit);
  for (int i = 0; i * step * unit <= most; ++i) {
    double x = at(i * step * unit);
    text +=
        fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n",
                    x, kTop, height - kBottom);
    labels.write({{x, height - kBottom + 16, i ? Labels::Anchor::Middle : Labels::Anchor::Start}},
                 tickText(i * step));
  }
  labels.write({{kLeft, height - 6}},
               isMilli ? "ms, median; lines from the least to what 90% are within"
                       : "s, median; lines from the least to what 90% are within");
  for (size_t i = 0; i < benches.size(); ++i) {
    double top = kTop + kRow * double(i) + kRow - kBar - 6, middle = top + kBar / 2;
    double median = benches[i]["median"],
           end = at(std::max(median, benches[i]["p90"].get<double>()));
    text +=
        fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                    kLeft, top, at(median) - kLeft, kBar);
    text += fmt::format(
        "<line class=\"spread\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
        at(benches[i]["min"]), middle, at(benches[i]["p90"]), middle);
    labels.write({{end + 8, middle + 4}}, timeText(median));
    std::string name = cellText(benches[i]["file"]);
    constexpr size_t kLongest = 120; // of which the end says more
    labels.write({{kLeft, top - 5}},
                 name.size() > kLongest ? "..." + name.substr(name.size() - kLongest) : name);
  }
  return text + labels.svg() + "</svg>\n";
}

/// What the kernels of the same nodes take in each of the files; 0: there are none.
struct Row {
  std::string nodes, kernels; // kernels: a line for each
  std::vector<double> seconds;
  double difference() const {
    auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return *most - *least;
  }
};

/// The nodes that a kernel was made from; without any, what it does.
std::vector<std::string> nodesOf(const Json &kernel) {
  std::string location = cellText(kernel["location"]);
  std::vector<std::string> nodes;
  for (size_t begin = location.find('\''); begin != std::string::npos;) {
    size_t end = location.find('\'', begin + 1);
    if (end == std::string::npos)
      break;
    nodes.push_back(location.substr(begin + 1, end - begin - 1));
    begin = location.find('\'', end + 1);
  }
  return nodes.empty() ? std::vector{cellText(kernel["label"])} : nodes;
}

/// Sets of nodes that a kernel of some file joins: files that fuse differently are compared set by
/// set.
class NodeSets {
public:
  void join(const std::vector<std::string> &nodes) {
    for (const std::string &node : nodes)
      parents_[find(node)] = find(nodes.front());
  }
  std::string find(const std::string &node) {
    auto [at, isNew] = parents_.try_emplace(node, node);
    while (at->second != at->first)
      at = parents_.find(at->second);
    return at->first;
  }
  std::map<std::string, std::vector<std::string>> members() {
    std::map<std::string, std::vector<std::string>> sets;
    for (const auto &[node, parent] : parents_)
      sets[find(node)].push_back(node);
    return sets;
  }

private:
  std::map<std::string, std::string> parents_;
};

std::string listed(const std::vector<std::string> &names) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i ? ", " : "") + names[i];
  return names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost) : text;
}

/// Where the files differ most comes first.
std::vector<Row> rowsOf(const Json &benches) {
  NodeSets sets;
  for (const Json &bench : benches)
    for (const Json &kernel : bench["kernels"])
      sets.join(nodesOf(kernel));
  std::map<std::string, Row> bySet;
  for (const auto &[set, nodes] : sets.members())
    bySet[set] = {listed(nodes), "", std::vector<double>(benches.size())};
  for (size_t i = 0; i < benches.size(); ++i)
    for (const Json &kernel : benches[i]["kernels"]) {
      Row &row = bySet[sets.find(nodesOf(kernel).front())];
      double seconds = kernel["seconds"];
      row.seconds[i] += seconds;
      row.kernels +=
          fmt::format("{}{}: {}, {}", row.kernels.empty() ? "" : "\n", cellText(benches[i]["file"]),
                      cellText(kernel["label"]), timeText(seconds));
    }
  std::vector<Row> rows;
  for (auto &[set, row] : bySet)
    rows.push_back(std::move(row));
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return std::pair(-a.difference(), a.nodes) < std::pair(-b.difference(), b.nodes);
  });
  return rows;
}

std::string rowText(const Row &row, const char *style) {
  std::string text = fmt::format("<tr{} title=\"{}\">", style, escaped(row.kernels));
  for (size_t i = 0; i < row.seconds.size(); ++i) {
    double first = row.seconds[0], own = row.seconds[i];
    text += own > 0 ? "<td>" + timeText(own) : std::string("<td>-");
    if (i > 0)
      text += first > 0 && own > 0
                  ? fmt::format("<td class=\"{}\">{:.2f}", classOf(own / first), own / first)
                  : "<td>";
  }
  return text + "<td>" + escaped(row.nodes) + "\n";
}

std::string table(const Json &benches) {
  std::string text = "<table>\n<tr>";
  for (size_t i = 0; i < benches.size(); ++i)
    text += "<th>" + escaped(cellText(benches[i]["file"])) + (i > 0 ? "<th>ratio" : "");
  text += "<th>nodes; point at a row for its kernels\n";
  std::vector<Row> rows = rowsOf(benches);
  Row sum = {"all of them", "", std::vector<double>(benches.size())};
  for (const Row &row : rows)
    for (size_t i = 0; i < row.seconds.size(); ++i)
      sum.seconds[i] += row.seconds[i];
  for (const Row &row : rows)
    text += rowText(row, "");
  return text + rowText(sum, " class=\"sum\"") + "</table>\n";
}

} // namespace

std::string pageHead(const std::string &title, const char *style) {
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
                     "<style>{1}{2}</style></head><body>\n<h1>{0}</h1>\n",
                     escaped(title), kPage, style);
}

std::string comparisonPage(const Json &benches) {
  std::string title;
  for (const Json &bench : benches)
    title += (title.empty() ? "" : " and ") + cellText(bench["file"]);
  std::string page = pageHead(title, kStyle);
  page += fmt::format("<p>{} runs of each, in turns, on {}. A ratio is that of a time to the first "
                      "file's: below 1 is faster.</p>\n",
                      benches[0]["runs"].get<size_t>(), threadsText(benches[0]["threads"]));
  page += "<ul>\n";
  for (size_t i = 1; i < benches.size(); ++i)
    page += fmt::format("<li>{} takes {:.3f} of the time of {}, in the median of the turns.\n",
                        escaped(cellText(benches[i]["file"])), benches[i]["ratio"].get<double>(),
                        escaped(cellText(benches[0]["file"])));
  page += "</ul>\n" + bars(benches);
  return page + table(benches) + "</body></html>\n";
}

} // namespace tensmith::cli
