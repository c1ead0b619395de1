// The plots are SVG that is drawn here, a figure for loss, accuracy and throughput each; points
// carry titles, so that a pointer reads them off.
#include "files/Plot.h"
#include "files/Words.h"
#include "train/Metrics.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace tensmith::train {
namespace {

constexpr double kWidth = 980, kHeight = 340, kLeft = 70, kRight = 20, kTop = 16, kBottom = 44;
constexpr size_t kMostPoints = 1000; // of a curve; of more, means are drawn

constexpr const char *kStyle = R"(
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.3em; overflow-wrap: anywhere; } h2 { font-size: 1em; margin: 1.5em 0 0; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: #46515f; }
.grid { stroke: #e4e8ed; } path { fill: none; stroke-width: 1.8; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .3em 0 1em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid #46515f; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe5ec; }
  svg text { fill: #aab4c0; } .grid { stroke: #2a323b; } }
)";

constexpr std::pair<const char *, const char *> kKinds[] = {
    {"train", "#2f6fde"}, {"validation", "#e07b1a"}, {"test", "#1f9d74"}};

using Value = std::function<std::optional<double>(const Metric &)>;

struct Point {
  double x, y;
};

std::vector<Point> pointsOf(const std::vector<Metric> &metrics, const std::string &kind,
                            const Value &value) {
  std::vector<Point> all, drawn;
  for (const Metric &metric : metrics)
    if (auto y = value(metric); metric.kind == kind && y && std::isfinite(*y))
      all.push_back({metric.epoch, *y});
  size_t each = (all.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < all.size(); i += each) {
    size_t end = std::min(i + each, all.size());
    Point mean = {0, 0};
    for (size_t j = i; j < end; ++j)
      mean = {mean.x + all[j].x / double(end - i), mean.y + all[j].y / double(end - i)};
    drawn.push_back(mean);
  }
  return drawn;
}

/// About `count` round steps from the least to the most.
std::vector<double> ticks(double least, double most, int count) {
  double rough = (most - least) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {2.0, 5.0, 10.0})
    if (step < rough)
      step = factor * power;
  std::vector<double> places;
  for (double at = std::ceil(least / step) * step; at <= most + step * 1e-9; at += step)
    places.push_back(std::abs(at) < step * 1e-9 ? 0 : at);
  return places;
}

struct Scale {
  double least, most, from, to;
  double at(double value) const { return from + (to - from) * (value - least) / (most - least); }
};

Scale scaleOver(double least, double most, double from, double to) {
  // Numbers that are equal but for their rounding have no places between them for ticks.
  if (!(most - least > 1e-9 * std::max(std::abs(least), std::abs(most)))) {
    double room = std::max(1e-6, std::abs(most) * 0.1);
    least -= room, most += room;
  }
  return {least, most, from, to};
}

std::string grid(const Scale &x, const Scale &y) {
  constexpr double kBase = kHeight - kBottom;
  std::string text;
  Labels labels(kWidth, kHeight);
  for (double at : ticks(x.least, x.most, 10)) {
    text +=
        fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n",
                    x.at(at), kTop, kBase);
    labels.write({{x.at(at), kBase + 18, Labels::Anchor::Middle}}, tickText(at));
  }
  for (double at : ticks(y.least, y.most, 6)) {
    text +=
        fmt::format("<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>\n",
                    kLeft, y.at(at), kWidth - kRight);
    labels.write({{kLeft - 8, y.at(at) + 4, Labels::Anchor::End}}, tickText(at));
  }
  labels.write({{(kLeft + kWidth - kRight) / 2, kHeight - 8, Labels::Anchor::Middle}}, "epochs");
  return text + labels.svg();
}

std::string curve(const std::vector<Point> &points, const Scale &x, const Scale &y,
                  const char *kind, const char *colour) {
  std::string path, dots;
  for (const Point &point : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(point.x), y.at(point.y));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{}, epoch "
                        "{:.2f}: {}</title></circle>",
                        x.at(point.x), y.at(point.y), points.size() > 100 ? 1.2 : 2.5, colour, kind,
                        point.x, tickText(point.y));
  }
  return fmt::format("<path stroke=\"{}\" d=\"{}\"/>{}\n", colour, path, dots);
}

std::string figure(const std::string &title, const std::vector<Metric> &metrics,
                   const Value &value) {
  std::vector<std::vector<Point>> curves;
  double least = INFINITY, most = -INFINITY, last = 0;
  for (auto [kind, colour] : kKinds) {
    curves.push_back(pointsOf(metrics, kind, value));
    for (const Point &point : curves.back()) {
      least = std::min(least, point.y);
      most = std::max(most, point.y);
      last = std::max(last, point.x);
    }
  }
  if (!(least <= most))
    return "";
  Scale x = scaleOver(0, last, kLeft, kWidth - kRight);
  Scale y = scaleOver(least, most, kHeight - kBottom, kTop);
  std::string text = "<h2>" + title, drawn;
  for (size_t i = 0; i < std::size(kKinds); ++i)
    if (!curves[i].empty()) {
      auto [kind, colour] = kKinds[i];
      text += fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", colour, kind);
      drawn += curve(curves[i], x, y, kind, colour);
    }
  return text +
         fmt::format("</h2>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                     kHeight, title) +
         grid(x, y) + drawn + "</svg>\n";
}

/// The last measurement of each kind.
std::string table(const std::vector<Metric> &metrics) {
  std::string text = "<table>\n<tr><th>last<th>step<th>epoch<th>loss<th>accuracy<th>time\n";
  for (auto [kind, colour] : kKinds)
    for (auto metric = metrics.rbegin(); metric != metrics.rend(); ++metric)
      if (metric->kind == kind) {
        text +=
            fmt::format("<tr><td>{}<td>{}<td>{:.2f}<td>{:.5g}<td>{}<td>{:.0f} s\n", kind,
                        metric->step, metric->epoch, metric->loss,
                        metric->accuracy ? fmt::format("{:.2f} %", 100 * *metric->accuracy) : "-",
                        metric->seconds);
        break;
      }
  return text + "</table>\n";
}

} // namespace

std::string curvesPage(const std::string &title, const std::vector<Metric> &metrics) {
  std::string page =
      fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
                  "<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
                  escaped(title), kStyle);
  page += table(metrics);
  page += figure("Loss", metrics, [](const Metric &metric) { return metric.loss; });
  page += figure("Accuracy", metrics, [](const Metric &metric) { return metric.accuracy; });
  page += figure("Samples in a second", metrics, [](const Metric &metric) -> std::optional<double> {
    return metric.samplesPerSecond > 0 ? std::optional(metric.samplesPerSecond) : std::nullopt;
  });
  return page + "</body></html>\n";
}

} // namespace tensmith::train
