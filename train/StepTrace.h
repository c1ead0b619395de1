// When the parts of one step of training ran, and what went on between processes meanwhile, in the
// format of Chrome's trace viewer (chrome://tracing, Perfetto).
#pragma once

#include "train/Processes.h"

#include <nlohmann/json.hpp>

namespace tensmith::train {

/// The step that is traced, from 0: those before it find out sizes and get memory.
inline constexpr int64_t kTracedStep = 4;

/// What a session's trace gives as events of Chrome's; `start`: microseconds that it began at.
void addChromeEvents(nlohmann::ordered_json &events, const nlohmann::ordered_json &spans,
                     double start);
/// The whole file.
nlohmann::ordered_json chromeTrace(nlohmann::ordered_json events, const std::string &title);

class StepTrace {
public:
  /// A run of a module, with the JSON that the runtime gives of it.
  void addRun(const std::string &what, Processes::Clock::time_point begin, const std::string &json);
  void addSent(const std::vector<Processes::Span> &spans);
  /// Throws Failure.
  void write(const std::string &file, const std::string &title);

private:
  double microseconds(Processes::Clock::time_point time);
  std::optional<Processes::Clock::time_point> start_; // of the first run
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();
};

} // namespace tensmith::train
