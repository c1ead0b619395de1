// Plots are SVG that is drawn here, the table is a table; see Page.h.
#include "tune/Page.h"

#include "files/Plot.h"
#include "files/Words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::tune {
namespace {

using client::Json;

constexpr double kWidth = 440, kHeight = 220, kLeft = 56, kRight = 12, kTop = 20, kBottom = 34;

constexpr const char *kStyle = R"(
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 980px; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid #d8dde3; padding: .25em .6em; text-align: right; }
td:first-child, th:first-child { text-align: left; overflow-wrap: anywhere; }
svg { width: 48%; } svg text { font-size: 12px; fill: currentColor; } h2 { font-size: 1em; overflow-wrap: anywhere; }
.axis { stroke: #7d8894; } .best { stroke: #2f6fde; fill: none; stroke-width: 2; } .point { fill: #2f6fde; fill-opacity: .6; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe5ec; } td, th { border-color: #2a323b; } }
)";

struct Range {
  double least = INFINITY, most = -INFINITY;
  void add(double value) { least = std::min(least, value), most = std::max(most, value); }
  double part(double value) const { return most > least ? (value - least) / (most - least) : 0.5; }
};

/// Points between two axes, with the ends of each written at it.
class Plot {
public:
  Plot(const char *title, const char *across, const char *up)
      : title_(title), across_(across), up_(up) {}
  void add(double x, double y) {
    points_.emplace_back(x, y);
    x_.add(x);
    y_.add(y);
  }

  std::string svg(bool isCurve) const {
    double bottom = kHeight - kBottom, right = kWidth - kRight;
    Labels labels(kWidth, kHeight);
    using Anchor = Labels::Anchor;
    labels.write({{4, 12}}, up_);
    labels.write({{(kLeft + right) / 2, kHeight - 4, Anchor::Middle}}, across_);
    labels.write({{kLeft - 4, kTop + 10, Anchor::End}}, fmt::format("{:.3g}", y_.most));
    labels.write({{kLeft - 4, bottom, Anchor::End}}, fmt::format("{:.3g}", y_.least));
    labels.write({{kLeft, bottom + 14}}, fmt::format("{:.3g}", x_.least));
    labels.write({{right, bottom + 14, Anchor::End}}, fmt::format("{:.3g}", x_.most));
    std::string marks, path;
    for (auto [x, y] : points_) {
      double left = kLeft + (right - kLeft) * x_.part(x),
             top = bottom - (bottom - kTop) * y_.part(y);
      if (isCurve)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", left, top);
      else
        marks += fmt::format("<circle class=\"point\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                             left, top);
    }
    return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n"
                       "<path class=\"axis\" fill=\"none\" d=\"M{} {} V{} H{}\"/>\n"
                       "<path class=\"best\" d=\"{}\"/>\n{}{}</svg>\n",
                       kWidth, kHeight, title_, kLeft, kTop, bottom, right, path, marks,
                       labels.svg());
  }
  bool empty() const { return points_.empty(); }

private:
  const char *title_, *across_, *up_;
  std::vector<std::pair<double, double>> points_;
  Range x_, y_;
};

double number(const Json &json, const char *key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0;
}

std::string rowOf(const Json &kernel) {
  double before = number(kernel, "before_us"), after = number(kernel, "after_us");
  return fmt::format("<tr><td>{}</td><td>{:.0f}</td><td>{:.0f}</td><td>{:.2f}</td><td>{:.2f}</td>"
                     "<td>{}</td></tr>\n",
                     escaped(kernel.value("kernel", "")), number(kernel, "uses"),
                     number(kernel, "trials"), before, after,
                     after > 0 ? fmt::format("{:.3f}", before / after) : "-");
}

std::string kernelSection(const Json &kernel) {
  Plot curve("best time by trials", "trials", "us"),
      predicted("predicted against measured", "measured, us", "predicted score");
  double trial = 0;
  for (const Json &best : kernel["curve_us"])
    curve.add(++trial, best.get<double>());
  for (const Json &pair : kernel["predicted"])
    predicted.add(pair[1].get<double>(), pair[0].get<double>());
  if (curve.empty())
    return {};
  std::vector<std::pair<double, std::string>> shares;
  for (const auto &[name, share] : kernel["importances"].items())
    shares.emplace_back(share.get<double>(), name);
  std::ranges::sort(shares, std::greater());
  std::string mattered;
  for (const auto &[share, name] : shares)
    if (share >= 0.01)
      mattered += fmt::format("{}{} {:.0f} %", mattered.empty() ? "What mattered: " : ", ",
                              escaped(name), 100 * share);
  return fmt::format("<h2>{}</h2>\n<p>{}<br>{}</p>\n{}{}", escaped(kernel.value("kernel", "")),
                     escaped(kernel.value("choices", "")), mattered, curve.svg(true),
                     predicted.empty() ? "" : predicted.svg(false));
}

} // namespace

std::string pageOf(const Json &report) {
  std::string rows, sections;
  for (const Json &kernel : report["kernels"]) {
    rows += rowOf(kernel);
    sections += kernelSection(kernel);
  }
  std::string model = escaped(report.value("model", ""));
  std::string whole = report["before_ms"].is_number()
                          ? fmt::format("The model takes {:.3f} ms, and took {:.3f} ms before.",
                                        number(report, "after_ms"), number(report, "before_ms"))
                          : "The model as a whole was not measured.";
  return fmt::format(
      "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Tuning {0}</title>\n<style>{1}</style>\n"
      "<h1>Tuning {0}</h1>\n<p>{2} {3:.0f} trials in {4:.0f} s on {5}.</p>\n"
      "<table><tr><th>kernel</th><th>uses</th><th>trials</th><th>before, us</th><th>after, us</th>"
      "<th>faster</th></tr>\n{6}</table>\n{7}",
      model, kStyle, whole, number(report, "trials"), number(report, "seconds"),
      escaped(report.value("machine", "")), rows, sections);
}

} // namespace tensmith::tune
