// A page that opens without a network: the plot is SVG that is drawn here, its explanations are
// titles, the table is a table.
#include "files/Words.h"
#include "tools/tensmith/KernelReport.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace tensmith::cli {
namespace {

constexpr double kWidth = 980, kHeight = 520, kLeft = 70, kRight = 120, kTop = 20, kBottom = 50;

constexpr const char *kStyle = R"(
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.3em; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; }
svg text { font-size: 12px; fill: #46515f; }
.grid { stroke: #e4e8ed; } .roof { stroke: #46515f; fill: none; stroke-width: 1.5; }
.kernel { fill-opacity: .65; stroke: #fff; } .kernel:hover { fill-opacity: 1; stroke: #000; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2em .6em; text-align: right; }
td:last-child, th:last-child { text-align: left; overflow-wrap: anywhere; }
tr:nth-child(even) { background: #f5f7f9; } tr.reference td { color: #b3261e; } th { border-bottom: 1px solid #46515f; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .3em 0 1em; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe5ec; }
  svg text { fill: #aab4c0; } .grid { stroke: #2a323b; } .roof { stroke: #aab4c0; }
  tr:nth-child(even) { background: #1c2229; } tr.reference td { color: #ff8a80; } }
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
    roofs();
    for (const Json &kernel : kernels_)
      if (placed(kernel))
        dot(kernel);
    return text_ + "</svg>\n";
  }

private:
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
  void write(double x, double y, const char *anchor, const std::string &text) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                         anchor, escaped(text));
  }

  void grid() {
    double bottom = kHeight - kBottom, right = kWidth - kRight;
    for (double power = x_.first; power <= x_.last; ++power) {
      double x = x_.at(std::pow(10, power));
      line(x, kTop, x, bottom, "grid");
      write(x, bottom + 18, "middle", fmt::format("{:g}", std::pow(10, power)));
    }
    for (double power = y_.first; power <= y_.last; ++power) {
      double y = y_.at(std::pow(10, power));
      line(kLeft, y, right, y, "grid");
      write(kLeft - 8, y + 4, "end", fmt::format("{:g}", std::pow(10, power - 9)));
    }
    write((kLeft + right) / 2, kHeight - 10, "middle", "operations for each byte");
    write(kLeft - 60, kTop - 6, "start", "Gflop/s");
  }

  void roofs() {
    double peak = roofline_.peak("f32"), right = kWidth - kRight;
    double leftmost = std::pow(10, x_.first), lowest = std::pow(10, y_.first);
    double ridge = std::numeric_limits<double>::infinity();
    for (const Roofline::Level &level : roofline_.levels()) {
      double knee = peak / level.bandwidth;
      double from = std::max(leftmost, lowest / level.bandwidth);
      ridge = std::min(ridge, knee);
      if (knee <= from)
        continue;
      double x = x_.at(from), y = y_.at(from * level.bandwidth);
      line(x, y, x_.at(knee), y_.at(peak), "roof");
      write(x + 6, y - 6, "start",
            fmt::format("{} {:.0f} GB/s", level.name, level.bandwidth * 1e-9));
    }
    line(x_.at(std::max(ridge, leftmost)), y_.at(peak), right, y_.at(peak), "roof");
    write(right + 6, y_.at(peak) + 4, "start", fmt::format("f32 {:.0f} Gflop/s", peak * 1e-9));
  }

  void dot(const Json &kernel) {
    double share = number(kernel, "seconds") / total_;
    std::string waits = cellText(kernel["waits_for"]);
    text_ += fmt::format(
        "<circle class=\"kernel\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\"><title>{}\n"
        "{}, {:.1f}% of the kernels' time\n{:.1f} Gflop/s, {:.2f} operations for each byte\n"
        "{:.0f}% of its limit, waits for {}</title></circle>\n",
        x_.at(intensity(kernel)), y_.at(speed(kernel)), 3 + 24 * std::sqrt(share), colourOf(waits),
        escaped(nodesText(kernel)), timeText(number(kernel, "seconds")), 100 * share,
        speed(kernel) * 1e-9, intensity(kernel), 100 * number(kernel, "limit_share"),
        escaped(waits));
  }

  const Json &kernels_;
  const Roofline &roofline_;
  Axis x_, y_;
  double total_ = 0;
  std::string text_;
};

std::string legend() {
  std::string text = "<p>Kernels wait for";
  for (const char *what : {"flops", "L1", "L2", "L3", "memory", "overhead", "latency"})
    text +=
        fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", colourOf(what), what);
  return text + ". Areas are times; point at one for its name.</p>\n";
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
                     kernel["kind"] == "routine" ? " class=\"reference\"" : "", timeText(seconds),
                     total > 0 ? 100 * seconds / total : 0, number(kernel, "calls"), rate("flops"),
                     rate("bytes"), share, escaped(cellText(kernel["waits_for"])),
                     escaped(nodesText(kernel)));
}

} // namespace

std::string rooflinePage(const Json &bench, const Roofline &roofline) {
  const Json &kernels = bench["kernels"];
  double total = 0, byReference = 0;
  for (const Json &kernel : kernels) {
    total += number(kernel, "seconds");
    byReference += kernel["kind"] == "routine" ? number(kernel, "seconds") : 0;
  }
  std::string file = escaped(cellText(bench["file"]));
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
      "<style>{1}</style></head><body>\n<h1>{0}</h1>\n"
      "<p>Median {2} of {3} runs on {4}; the kernels take {5}.</p>\n",
      file, kStyle, timeText(number(bench, "median")), number(bench, "runs"),
      number(bench, "threads") == 1 ? "1 thread"
                                    : fmt::format("{:g} threads", number(bench, "threads")),
      timeText(total));
  page += Plot(kernels, roofline).svg() + legend();
  if (byReference > 0)
    page += fmt::format("<p>Of the time {:.1f}% goes to operators that have no kernel and are done "
                        "by the reference evaluator; they are red in the table.</p>\n",
                        100 * byReference / total);
  page += "<table>\n<tr><th>time<th>share<th>calls<th>Gflop/s<th>GB/s<th>of limit<th>waits for"
          "<th>kernel\n";
  for (const Json &kernel : kernels)
    page += row(kernel, total);
  return page + "</table>\n</body></html>\n";
}

} // namespace tensmith::cli
