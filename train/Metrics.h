// What a run has measured, and where that goes: lines of JSON for programs, event files for
// TensorBoard, a page with curves for people.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::train {

/// One measurement: means over some samples, up to a step.
struct Metric {
  std::string kind; // "train", "validation", "test"
  int64_t step = 0;
  double epoch = 0; // with its part that is done
  double loss = 0;
  std::optional<double> accuracy = {};
  double samplesPerSecond = 0, waited = 0; // the part of the time that the step waited for data
  double seconds = 0;                      // of training, since the run began
};

/// As a line of metrics.jsonl has it.
nlohmann::ordered_json toJson(const Metric &metric);

/// TensorBoard's event files: records of protobuf's Event (tensorflow/core/util/event.proto) with
/// scalars.
class EventFile {
public:
  /// A new one in the folder. `step`: the one that a run goes on from; later ones of files before
  /// are void.
  EventFile(const std::filesystem::path &folder, int64_t step);
  ~EventFile();
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  void scalar(const std::string &tag, double value, int64_t step);

private:
  void record(const std::string &event);
  std::filesystem::path path_;
  std::FILE *file_;
};

/// The curves of all measurements, as one page that needs no network.
std::string curvesPage(const std::string &title, const std::vector<Metric> &metrics);

/// All of them, in a run's folder: metrics.jsonl, tensorboard/, curves.html.
class Metrics {
public:
  /// Goes on with what is there up to the step; what a killed process wrote after it is dropped.
  Metrics(std::filesystem::path folder, std::string title, int64_t step, bool tensorboard);
  ~Metrics();

  void add(const Metric &metric);
  /// Writes the page.
  void draw() const;
  const std::vector<Metric> &all() const { return all_; }

private:
  void readBack(int64_t step);
  std::filesystem::path folder_;
  std::string title_;
  std::vector<Metric> all_;
  std::FILE *lines_ = nullptr;
  std::optional<EventFile> events_;
};

} // namespace tensmith::train
