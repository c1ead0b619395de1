// Records as JSON; see Exchange.h.
#include "tune/database/Exchange.h"

#include "files/Failure.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace tensmith::tune {
namespace {

using Json = nlohmann::ordered_json;
constexpr char kFormat[] = "tensmith-tuned-1";

struct Record {
  KernelName name;
  std::vector<Trial> trials;
  std::optional<Winner> winner;
};

Trial trialOf(const Json &json) {
  return {json.at("choices"),    json.at("outcome"),
          json.value("why", ""), json.value("search", ""),
          json.at("compiler"),   json.at("at"),
          json.at("seconds"),    json.value("features", std::vector<double>())};
}

Winner winnerOf(const Json &json) {
  return {json.at("choices"),    json.at("seconds"),  json.at("before"),
          json.at("confidence"), json.at("compiler"), json.at("at")};
}

/// Whether it is the members of an object whose values are numbers or words.
bool areChoices(const std::string &choices) {
  Json object = Json::parse("{" + choices + "}", nullptr, false);
  if (!object.is_object())
    return false;
  for (const auto &[name, value] : object.items())
    if (!value.is_number_integer() && !value.is_string())
      return false;
  return true;
}

bool isTime(double seconds) { return std::isfinite(seconds) && seconds > 0; }

bool isWinner(const Winner &winner) {
  return areChoices(winner.choices) && isTime(winner.seconds) && isTime(winner.before);
}

void check(const Record &record, const std::string &place) {
  for (const Trial &trial : record.trials) {
    if (!areChoices(trial.choices))
      fail(place, "a trial's choices are none: " + trial.choices);
    for (double seconds : trial.seconds)
      if (!isTime(seconds))
        fail(place, "a time is no number of seconds above 0");
  }
  if (record.winner && !isWinner(*record.winner))
    fail(place, "the winner's choices or time are none");
}

std::vector<Record> read(const std::string &text, const std::string &file) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", Json()) != kFormat || !json.contains("kernels") ||
      !json["kernels"].is_array())
    fail(file, "holds no tuned points; `tensmith tuned export` writes such a file");
  std::vector<Record> records;
  for (const Json &kernel : json["kernels"]) {
    std::string place = file + ": kernel " + std::to_string(records.size() + 1);
    Record record;
    try {
      record.name = {kernel.at("machine"), kernel.at("key"), kernel.value("kernel", "")};
      for (const Json &trial : kernel.at("trials"))
        record.trials.push_back(trialOf(trial));
      if (kernel.contains("winner"))
        record.winner = winnerOf(kernel["winner"]);
    } catch (const Json::exception &error) {
      fail(place, error.what());
    }
    check(record, place);
    records.push_back(std::move(record));
  }
  return records;
}

Imported take(Database &into, std::span<const Record> records) {
  Imported imported;
  std::set<std::pair<std::string, std::string>> known;
  for (const TunedKernel &kernel : into.kernels())
    known.insert({kernel.name.machine, kernel.name.key});
  for (const Record &record : records) {
    imported.kernels += known.insert({record.name.machine, record.name.key}).second;
    std::set<std::pair<std::string, std::string>> here;
    for (const Trial &trial : into.trials(record.name.machine, record.name.key))
      here.insert({trial.choices, trial.compiler});
    for (const Trial &trial : record.trials)
      if (here.insert({trial.choices, trial.compiler}).second) {
        into.add(record.name, trial);
        ++imported.trials;
      }
    auto winner = into.winner(record.name.machine, record.name.key);
    if (record.winner && (!winner || winner->at < record.winner->at)) {
      into.setWinner(record.name, *record.winner);
      ++imported.winners;
    }
  }
  return imported;
}

} // namespace

Json exportAll(const Database &database) {
  Json kernels = Json::array();
  for (const TunedKernel &kernel : database.kernels()) {
    Json json = {{"machine", kernel.name.machine},
                 {"key", kernel.name.key},
                 {"kernel", kernel.name.structure},
                 {"trials", Json::array()}};
    for (const Trial &trial : database.trials(kernel.name.machine, kernel.name.key))
      json["trials"].push_back({{"choices", trial.choices},
                                {"outcome", trial.outcome},
                                {"why", trial.why},
                                {"search", trial.search},
                                {"compiler", trial.compiler},
                                {"at", trial.at},
                                {"seconds", trial.seconds},
                                {"features", trial.features}});
    if (const auto &winner = kernel.winner)
      json["winner"] = {{"choices", winner->choices},   {"seconds", winner->seconds},
                        {"before", winner->before},     {"confidence", winner->confidence},
                        {"compiler", winner->compiler}, {"at", winner->at}};
    kernels.push_back(std::move(json));
  }
  return {{"format", kFormat}, {"kernels", std::move(kernels)}};
}

Imported importAll(Database &into, const std::string &text, const std::string &file) {
  return take(into, read(text, file));
}

Imported merge(Database &into, const std::string &path) {
  Database other(path, Access::Read);
  std::vector<Record> records;
  int64_t unread = 0;
  for (const TunedKernel &kernel : other.kernels()) {
    Record record{kernel.name, {}, {}};
    if (kernel.winner && isWinner(*kernel.winner))
      record.winner = kernel.winner;
    try {
      record.trials = other.trials(kernel.name.machine, kernel.name.key);
      check(record, path);
    } catch (const Failure &) {
      record.trials.clear();
      ++unread;
    }
    records.push_back(std::move(record));
  }
  Imported imported = take(into, records);
  imported.unread = unread;
  return imported;
}

} // namespace tensmith::tune
