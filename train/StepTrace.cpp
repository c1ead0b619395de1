// Complete events ("X") on a line for each thread, and one for what is between processes; see
// StepTrace.h.
#include "train/StepTrace.h"

#include "files/Files.h"
#include "files/Words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace tensmith::train {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kProcessesLine = 1000; // a thread's number that no thread has

Json event(const std::string &name, const char *category, double begin, double duration, int line,
           Json arguments) {
  return {{"name", name},    {"cat", category}, {"ph", "X"},   {"ts", begin},
          {"dur", duration}, {"pid", 1},        {"tid", line}, {"args", std::move(arguments)}};
}

} // namespace

void addChromeEvents(Json &events, const Json &spans, double start) {
  for (const Json &span : spans) {
    double begin = span["begin"].get<double>() * 1e-3, end = span["end"].get<double>() * 1e-3;
    bool part = span.contains("items");
    Json arguments = {{"function", span["function"]}, {"instruction", span["instruction"]}};
    if (part)
      arguments["items"] = span["items"];
    std::string kind = part ? "part of a loop" : span["kind"].get<std::string>();
    events.push_back(event(span["label"], kind.c_str(), start + begin, end - begin,
                           span["thread"].get<int>(), std::move(arguments)));
  }
}

Json chromeTrace(Json events, const std::string &title) {
  std::set<int> lines;
  for (const Json &event : events)
    lines.insert(event["tid"].get<int>());
  auto name = [&](const char *what, int line, const std::string &text) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", line}, {"args", {{"name", text}}}});
  };
  name("process_name", 0, title);
  for (int line : lines)
    name("thread_name", line,
         line == kProcessesLine ? "between processes" : fmt::format("thread {}", line));
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

double StepTrace::microseconds(Processes::Clock::time_point time) {
  if (!start_)
    start_ = time;
  return std::chrono::duration<double, std::micro>(time - *start_).count();
}

void StepTrace::addRun(const std::string &what, Processes::Clock::time_point begin,
                       const std::string &json) {
  Json spans = Json::parse(json);
  for (Json &span : spans)
    span["function"] = what;
  addChromeEvents(events_, spans, microseconds(begin));
}

void StepTrace::addSent(const std::vector<Processes::Span> &spans) {
  for (const Processes::Span &span : spans) {
    double begin = microseconds(span.begin);
    if (begin >= 0)
      events_.push_back(event(span.label, "between processes", begin,
                              microseconds(span.end) - begin, kProcessesLine,
                              {{"bytes", span.bytes}}));
  }
}

void StepTrace::write(const std::string &file, const std::string &title) {
  writeFile(
      file,
      chromeTrace(std::move(events_), title).dump(-1, ' ', false, Json::error_handler_t::replace));
}

} // namespace tensmith::train
