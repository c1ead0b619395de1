// A page that opens without a network: the plot is SVG that is drawn here, its explanations are
// titles, the table is a table. Operators of the reference evaluator are no kernels: they have
// marks and a sum of their own.
#include "files/Plot.h"
#include "files/Words.h"
#include "tools/tensmith/KernelReport.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace tensmith::cli {
namespace {

constexpr double kWidth = 980, kHeight = 520, kLeft = 70, kRight = 120, kTop = 34, kBottom = 50;

constexpr const char *kStyle = R"(
.grid { stroke: #e4e8ed; } .roof { stroke: #46515f; fill: none; stroke-width: 1.5; }
.kernel { fill-opacity: .65; stroke: #fff; } .kernel:hover, .reference:hover { fill-opacity: 1; stroke: #000; }
rect.reference { fill: #fff; fill-opacity: .3; stroke: #b3261e; stroke-width: 2; }
td:last-child, th:last-child { text-align: left; overflow-wrap: anywhere; white-space: normal; }
tr.reference td { color: #b3261e; }
@media (prefers-color-scheme: dark) { .grid { stroke: #2a323b; } .roof { stroke: #aab4c0; }
  rect.reference { stroke: #ff8a80; } tr.reference td { color: #ff8a80; } }
)";

const char *colourOf(const std::string &waitsFor) {
  static const std::pair<const char *, const char *> kColours[] = {
      {"flops", "#2f6fde"},  {"L1", "#1f9d74"},       {"L2", "#56b356"},     {"L3", "#b8a51c"},
      {"memory", "#e07b1a"}, {"overhead", "#8a63c7"}, {"latency", "#d23c4b"}};
  for (auto [what, colour] : kColours)
    if (waitsFor == what)
      return colour;
  return "#7d8894";
}

double number(const Json &kernel, const char *key) {
  return kernel.contains(key) && kernel[key].is_number() ? kernel[key].get<double>() : 0;
}

bool isReference(const Json &kernel) { return kernel["kind"] == "routine"; }

/// A logarithmic axis from power of ten to power of ten.
struct Axis {
  double first, last; // exponents
  double from, to;    // on the picture

  static Axis over(double least, double most, double from, double to) {
    double first = std::floor(std::log10(least)), last = std::ceil(std::log10(most));
    return {first, std::max(last, first + 1), from, to};
  }
  double at(double value) const {
    double part = (std::log10(value) - first) / (last - first);
    return from + (to - from) * std::clamp(part, 0.0, 1.0);
  }
};

class Plot {
public:
  Plot(const Json &kernels, const Roofline &roofline) : kernels_(kernels), roofline_(roofline) {
    double least = 0.1, most = 100, slow = 1e9, fast = roofline.peak("f32");
    for (const Json &kernel : kernels) {
      if (!placed(kernel))
        continue;
      least = std::min(least, intensity(kernel));
      most = std::max(most, intensity(kernel));
      slow = std::min(slow, speed(kernel));
      fast = std::max(fast, speed(kernel));
      total_ += number(kernel, "seconds");
    }
    x_ = Axis::over(least, most, kLeft, kWidth - kRight);
    y_ = Axis::over(slow, fast * 1.01, kHeight - kBottom, kTop);
  }

  std::string svg() {
    text_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Roofline plot\">\n",
                        kWidth, kHeight);
    grid();
    for (const Json &kernel : kernels_)
      if (placed(kernel))
        labels_.avoid(boxOf(kernel));
    roofs();
    for (const Json &kernel : kernels_)
      if (placed(kernel))
        mark(kernel);
    return text_ + labels_.svg() + "</svg>\n";
  }

private:
  /// Whether it has a mark in the plot.
  static bool placed(const Json &kernel) {
    return number(kernel, "flops") > 0 && number(kernel, "bytes") > 0 &&
           number(kernel, "seconds") > 0;
  }
  static double intensity(const Json &kernel) {
    return number(kernel, "flops") / number(kernel, "bytes");
  }
  static double speed(const Json &kernel) {
    return number(kernel, "flops") / number(kernel, "seconds");
  }

  void line(double x1, double y1, double x2, double y2, const char *style) {
    text_ += fmt::format(
        "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
        y1, x2, y2);
  }
  using Anchor = Labels::Anchor;

  void grid() {
    double bottom = kHeight - kBottom, right = kWidth - kRight;
    labels_.write({{10, kTop - 18}}, "Gflop/s");
    labels_.write({{(kLeft + right) / 2, kHeight - 8, Anchor::Middle}}, "operations for each byte");
    for (double power = x_.first; power <= x_.last; ++power) {
      double x = x_.at(std::pow(10, power));
      line(x, kTop, x, bottom, "grid");
      labels_.write({{x, bottom + 18, Anchor::Middle}}, tickText(std::pow(10, power)));
    }
    for (double power = y_.first; power <= y_.last; ++power) {
      double y = y_.at(std::pow(10, power));
      line(kLeft, y, right, y, "grid");
      labels_.write({{kLeft - 8, y + 4, Anchor::End}}, tickText(std::pow(10, power - 9)));
    }
  }

  void roofs() {
    double peak = roofline_.peak("f32"), right = kWidth - kRight;
    double leftmost = std::pow(10, x_.first), lowest = std::pow(10, y_.first);
    double ridge = std::numeric_limits<double>::infinity();
    std::string name = fmt::format("f32 {:.0f} Gflop/s", peak * 1e-9);
    labels_.write({{right + 6, y_.at(peak) + 4}, {right - 6, y_.at(peak) - 8, Anchor::End}}, name);
    struct Roof {
      const Roofline::Level &level;
      double from, knee;
    };
    std::vector<Roof> roofs;
    for (const Roofline::Level &level : roofline_.levels()) {
      double knee = peak / level.bandwidth, from = std::max(leftmost, lowest / level.bandwidth);
      ridge = std::min(ridge, knee);
      if (knee > from)
        roofs.push_back({level, from, knee});
    }
    for (const auto &[level, from, knee] : roofs)
      roof(from, knee, level.bandwidth, peak);
    line(x_.at(std::max(ridge, leftmost)), y_.at(peak), right, y_.at(peak), "roof");
    for (const auto &[level, from, knee] : roofs)
      labels_.write(besides(from, knee, level.bandwidth),
                    fmt::format("{} {:.0f} GB/s", level.name, level.bandwidth * 1e-9));
  }

  /// A line that labels are kept from.
  void roof(double from, double knee, double bandwidth, double peak) {
    line(x_.at(from), y_.at(from * bandwidth), x_.at(knee), y_.at(peak), "roof");
    constexpr int kPieces = 100;
    for (int i = 0; i <= kPieces; ++i) {
      double at = from * std::pow(knee / from, double(i) / kPieces);
      labels_.avoid(
          {x_.at(at) - 2, y_.at(at * bandwidth) - 1, x_.at(at) + 2, y_.at(at * bandwidth) + 1});
    }
  }

  /// Places along a roof, above its line and below it, from its lower end on.
  std::vector<Labels::Place> besides(double from, double knee, double bandwidth) const {
    std::vector<Labels::Place> places;
    constexpr int kSteps = 48;
    constexpr double kRoom = 130; // that a label needs above a line, to the left
    for (int i = 1; i < kSteps; ++i) {
      double at = from * std::pow(knee / from, double(i) / kSteps);
      double x = x_.at(at), y = y_.at(at * bandwidth);
      if (x > kLeft + kRoom)
        places.push_back({x - 8, y - 6, Anchor::End});
      places.push_back({x + 12, y + 12, Anchor::Start});
    }
    return places;
  }

  double radiusOf(const Json &kernel) const {
    return 3 + 24 * std::sqrt(number(kernel, "seconds") / total_);
  }

  Box boxOf(const Json &kernel) const {
    double x = x_.at(intensity(kernel)), y = y_.at(speed(kernel)), radius = radiusOf(kernel);
    return {x - radius, y - radius, x + radius, y + radius};
  }

  void mark(const Json &kernel) {
    double share = number(kernel, "seconds") / total_;
    double x = x_.at(intensity(kernel)), y = y_.at(speed(kernel)), radius = radiusOf(kernel);
    std::string waits = cellText(kernel["waits_for"]);
    text_ +=
        isReference(kernel)
            ? fmt::format("<rect class=\"reference\" x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" "
                          "height=\"{2:.1f}\">",
                          x - radius, y - radius, 2 * radius)
            : fmt::format(
                  "<circle class=\"kernel\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\">",
                  x, y, radius, colourOf(waits));
    text_ += fmt::format(
        "<title>{}\n{}, {:.1f}% of the time\n{:.1f} Gflop/s, {:.2f} operations for each byte\n",
        escaped(nodesText(kernel)), timeText(number(kernel, "seconds")), 100 * share,
        speed(kernel) * 1e-9, intensity(kernel));
    text_ += isReference(kernel)
                 ? std::string("no kernel: the reference evaluator does it</title></rect>\n")
                 : fmt::format("{:.0f}% of its limit, waits for {}</title></circle>\n",
                               100 * number(kernel, "limit_share"), escaped(waits));
  }

  const Json &kernels_;
  const Roofline &roofline_;
  Axis x_, y_;
  double total_ = 0;
  Labels labels_{kWidth, kHeight};
  std::string text_;
};

std::string legend(bool hasSquares) {
  std::string text = "<p>Kernels wait for";
  for (const char *what : {"flops", "L1", "L2", "L3", "memory", "overhead", "latency"})
    text +=
        fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", colourOf(what), what);
  return text + ". Areas are times; point at one for its name." +
         (hasSquares ? " Squares are operators without a kernel.</p>\n" : "</p>\n");
}

std::string row(const Json &kernel, double total) {
  double seconds = number(kernel, "seconds");
  auto rate = [&](const char *key) {
    double amount = number(kernel, key);
    return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds * 1e-9) : "-";
  };
  std::string share = kernel["limit_share"].is_number()
                          ? fmt::format("{:.0f}%", 100 * number(kernel, "limit_share"))
                          : "-";
  return fmt::format("<tr{}><td>{}<td>{:.1f}%<td>{:g}<td>{}<td>{}<td>{}<td>{}<td>{}\n",
                     isReference(kernel) ? " class=\"reference\"" : "", timeText(seconds),
                     total > 0 ? 100 * seconds / total : 0, number(kernel, "calls"), rate("flops"),
                     rate("bytes"), share, escaped(cellText(kernel["waits_for"])),
                     escaped(nodesText(kernel)));
}

} // namespace

std::string rooflinePage(const Json &bench, const Roofline &roofline) {
  const Json &kernels = bench["kernels"];
  double total = 0, byReference = 0;
  bool squares = false;
  for (const Json &kernel : kernels) {
    total += number(kernel, "seconds");
    squares |= isReference(kernel) && number(kernel, "flops") > 0;
    byReference += isReference(kernel) ? number(kernel, "seconds") : 0;
  }
  std::string page = pageHead(cellText(bench["file"]), kStyle);
  double threads = number(bench, "threads");
  page += fmt::format("<p>Median {} of {} runs on {}; the kernels take {}",
                      timeText(number(bench, "median")), number(bench, "runs"),
                      threads == 1 ? "1 thread" : fmt::format("{:g} threads", threads),
                      timeText(total - byReference));
  page += byReference > 0 ? fmt::format(", operators without a kernel {}, which the reference "
                                        "evaluator does: {:.1f}% of both.</p>\n",
                                        timeText(byReference), 100 * byReference / total)
                          : ".</p>\n";
  page += Plot(kernels, roofline).svg() + legend(squares);
  page += "<table>\n<tr><th>time<th>share<th>calls<th>Gflop/s<th>GB/s<th>of limit<th>waits for"
          "<th>kernel\n";
  for (const Json &kernel : kernels)
    page += row(kernel, total);
  return page + "</table>\n</body></html>\n";
}

} // namespace tensmith::cli
