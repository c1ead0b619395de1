// The settings of a run as a table: what each is called in a configuration file and on the command
// line, what it may be, and what it says of itself in the help.
//
// Both ways in go through `assign`, so that they take the same values and refuse the same ones.
#pragma once

#include "train/Settings.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <variant>

namespace tensmith::train {

using Json = nlohmann::ordered_json;

using Field = std::variant<bool Settings::*, int64_t Settings::*, double Settings::*,
                           std::string Settings::*, std::optional<double> Settings::*,
                           std::vector<double> Settings::*, std::vector<std::string> Settings::*,
                           std::map<std::string, double> Settings::*, ByteCount Settings::*>;

/// What a setting may change when a run goes on from a checkpoint.
enum class OnResume { May, MayNot };

struct Setting {
  const char *section, *key, *option; // "data", "scale", "scale"; the option without its dashes
  Field field;
  const char *valueName, *help;
  OnResume onResume = OnResume::MayNot;
  double least = 0, most = 1e15; // of numbers
  bool path = false;             // relative to the folder of the file that names it
  std::vector<std::string> choices = {};
};

std::span<const Setting> settingTable();
/// Null where there is none.
const Setting *findSetting(const std::string &section, const std::string &key);

/// Sets it, or says what is wrong with the value: "is 1.5; a whole number from 1 on is expected".
[[nodiscard]] std::string assign(Settings &settings, const Setting &setting, const Json &value);
/// From words of the command line.
[[nodiscard]] std::string assign(Settings &settings, const Setting &setting,
                                 const std::vector<std::string> &words);

Json valueOf(const Settings &settings, const Setting &setting);
/// By "section.key", all of them.
Json toJson(const Settings &settings);
/// Which settings a run that goes on must not have changed, but did: "learning_rate was 0.1".
std::vector<std::string> changedSince(const Json &recorded, const Settings &settings);

/// Reads the configuration file into the settings; throws Failure.
void readConfiguration(const std::string &path, Settings &settings);
/// What no single setting can be blamed for; throws Failure.
void checkSettings(const Settings &settings);

} // namespace tensmith::train
