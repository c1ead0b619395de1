// metrics.jsonl is the one that is read back when a run goes on; the page is drawn of all there is.
#include "train/Metrics.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tensmith::train {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Metric> fromJson(const std::string &text) {
  Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto number = [&](const char *key) {
    return line.contains(key) && line[key].is_number() ? line[key].get<double>() : std::nan("");
  };
  if (!line.is_object() || !line.contains("kind") || !line["kind"].is_string() ||
      !std::isfinite(number("step")))
    return std::nullopt;
  Metric metric = {line["kind"], int64_t(number("step")), number("epoch"), number("loss")};
  if (line.contains("accuracy"))
    metric.accuracy = number("accuracy");
  metric.seconds = number("seconds");
  if (line.contains("samples_per_second")) {
    metric.samplesPerSecond = number("samples_per_second");
    metric.waited = number("waited_for_data");
  }
  return metric;
}

} // namespace

Json toJson(const Metric &metric) {
  Json line = {{"kind", metric.kind},
               {"step", metric.step},
               {"epoch", metric.epoch},
               {"loss", metric.loss},
               {"seconds", metric.seconds}};
  if (metric.accuracy)
    line["accuracy"] = *metric.accuracy;
  if (metric.samplesPerSecond > 0) {
    line["samples_per_second"] = metric.samplesPerSecond;
    line["waited_for_data"] = metric.waited;
  }
  return line;
}

Metrics::Metrics(std::filesystem::path folder, std::string title, int64_t step, bool tensorboard)
    : folder_(std::move(folder)), title_(std::move(title)) {
  std::filesystem::path path = folder_ / "metrics.jsonl";
  if (step > 0)
    readBack(step);
  std::string before;
  for (const Metric &metric : all_)
    before += toJson(metric).dump() + "\n";
  writeFile(path, before);
  lines_ = std::fopen(path.c_str(), "ae");
  if (!lines_)
    fail(path, std::string("can't be written: ") + std::strerror(errno));
  if (tensorboard)
    events_.emplace(folder_ / "tensorboard", step);
}

Metrics::~Metrics() {
  if (lines_)
    std::fclose(lines_);
}

void Metrics::readBack(int64_t step) {
  std::filesystem::path path = folder_ / "metrics.jsonl";
  std::error_code none;
  if (!std::filesystem::exists(path, none))
    return;
  Bytes bytes = readFile(path);
  std::istringstream lines(std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  for (std::string line; std::getline(lines, line);)
    if (auto metric = fromJson(line); metric && metric->step <= step)
      all_.push_back(*metric);
}

void Metrics::add(const Metric &metric) {
  all_.push_back(metric);
  std::string line = toJson(metric).dump() + "\n";
  if (std::fputs(line.c_str(), lines_) < 0 || std::fflush(lines_) != 0)
    fail(folder_ / "metrics.jsonl", std::string("can't be written: ") + std::strerror(errno));
  if (!events_)
    return;
  events_->scalar("loss/" + metric.kind, metric.loss, metric.step);
  if (metric.accuracy)
    events_->scalar("accuracy/" + metric.kind, *metric.accuracy, metric.step);
  if (metric.samplesPerSecond > 0)
    events_->scalar("samples_per_second", metric.samplesPerSecond, metric.step);
}

void Metrics::draw() const { writeFile(folder_ / "curves.html", curvesPage(title_, all_)); }

} // namespace tensmith::train
