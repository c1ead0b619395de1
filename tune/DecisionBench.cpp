// Models compiled by a schedule file each; see DecisionBench.h.
#include "tune/DecisionBench.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::tune {

using client::Json;

double errorTold(const std::string &schedules, const std::string &key) {
  double most = 0;
  for (const Json &entry : client::parseJson(schedules, "a module's schedules"))
    if (entry.value("key", "") == key)
      most = std::max(most, entry.value("error", 0.0));
  return most;
}

std::string choiceNotTaken(const std::string &schedules, const std::string &key,
                           const std::string &choices) {
  const Json wanted = client::parseJson("{" + choices + "}", "choices");
  for (const Json &entry : client::parseJson(schedules, "a module's schedules"))
    if (entry.value("key", "") == key)
      for (const auto &[name, value] : wanted.items())
        if (entry.contains(name) && entry[name] != value)
          return name;
  return "";
}

DecisionBench::DecisionBench(ModelSession &session, const client::CompileSettings &settings,
                             Compile compile)
    : session_(session), settings_(settings), compile_(std::move(compile)) {
  settings_.progress = false;
  settings_.warns = false;
}

/// What the user's own file says comes behind, and so first.
std::string DecisionBench::scheduleFile(const std::string &key, const std::string &choices) const {
  Json all{{"schedules", Json::array({client::parseJson(
                             fmt::format(R"({{"key":"{}",{}}})", key, choices), "choices")})}};
  if (!settings_.schedules.empty()) {
    Bytes text = readFile(settings_.schedules);
    Json own = client::parseJson({reinterpret_cast<const char *>(text.data()), text.size()},
                                 settings_.schedules);
    for (const Json &entry : own.value("schedules", Json::array()))
      all["schedules"].push_back(entry);
  }
  return all.dump();
}

std::optional<size_t> DecisionBench::build(const std::string &key, const std::string &choices,
                                           std::string &why) {
  const std::string file = fileOf(next_);
  try {
    client::CompileSettings settings = settings_;
    settings.schedules = file + ".json";
    writeFile(settings.schedules, scheduleFile(key, choices));
    compile_(settings, file);
    Json told = client::parseJson(Module::loadDescribed(file).describe(), file);
    std::string taken = told.value("metadata", Json::object()).value("schedules", "[]");
    double error = errorTold(taken, key);
    std::string other = choiceNotTaken(taken, key, choices);
    if (error > session_.mostError()) {
      why = fmt::format("it errs by {:.2g} of the largest result, and may by {:.2g}", error,
                        session_.mostError());
    } else if (!other.empty()) {
      why = fmt::format("it was compiled with another choice of {}", other);
    }
    if (!why.empty()) {
      drop(next_);
      return std::nullopt;
    }
  } catch (const std::exception &failure) {
    why = failure.what();
    return std::nullopt;
  }
  return next_++;
}

void DecisionBench::drop(size_t candidate) {
  std::error_code unknown;
  std::filesystem::remove(fileOf(candidate), unknown);
}

RunOutcome DecisionBench::run(size_t candidate) {
  constexpr double kSeconds = 0.2; // a model runs long, and its fastest run counts
  return session_.runModule(fileOf(candidate), kSeconds);
}

} // namespace tensmith::tune
