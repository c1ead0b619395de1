// A configuration in TOML (toml.io, 1.0): the table's sections and keys, with errors that say the
// file and the line.
//
// Paths in it start at the folder that it lies in.
#include "base/Spelling.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Words.h"
#include "train/SettingTable.h"
#include "train/Toml.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::train {
Json jsonOf(const toml::node &node) {
  if (auto value = node.as_boolean())
    return value->get();
  if (auto value = node.as_integer())
    return value->get();
  if (auto value = node.as_floating_point())
    return value->get();
  if (auto value = node.as_string())
    return value->get();
  Json result;
  if (auto array = node.as_array()) {
    result = Json::array();
    for (const toml::node &item : *array)
      result.push_back(jsonOf(item));
  } else if (auto map = node.as_table()) {
    result = Json::object();
    for (const auto &[key, item] : *map)
      result[std::string(key.str())] = jsonOf(item);
  }
  return result;
}

namespace {

constexpr size_t kLargestFile = 1 << 20;

/// Whether it is one, or a list with one: no setting takes any.
bool isTime(const toml::node &node) {
  if (auto array = node.as_array())
    return std::ranges::any_of(*array, isTime);
  return node.is_date() || node.is_time() || node.is_date_time();
}

class Reader {
public:
  Reader(const std::string &path, Settings &settings)
      : path_(path), folder_(std::filesystem::path(path).parent_path()), settings_(settings) {}

  void readSection(const std::string &section, const toml::table &table) {
    for (const auto &[name, node] : table) {
      std::string key = knownSpelling(underscored(name.str()), namesIn(section));
      if (const Setting *setting = findSetting(section, key))
        set(*setting, node);
      else if (section.empty() && node.is_table() && isSection(key))
        readSection(key, *node.as_table());
      else if (section.empty() && isSection(key))
        noSection(key, node);
      else if (section == "optimiser" && !node.is_table() && !resembles(section, key))
        setHyperparameter(key, node);
      else
        unknown(section, std::string(name.str()), node);
    }
  }

private:
  static std::string underscored(std::string_view name) {
    std::string key(name);
    for (char &c : key)
      c = c == '-' ? '_' : c;
    return key;
  }

  /// A constant of the optimiser's own. What is almost a setting's name is taken for a slip.
  void setHyperparameter(const std::string &key, const toml::node &node) {
    auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value))
      fail(at(node), fmt::format("'{}' has to be a number: it is none of the settings in "
                                 "[optimiser], and so a constant of the optimiser's own",
                                 printable(key)));
    settings_.hyperparameters[key] = *value;
    settings_.origins["hyperparameter " + key] = at(node);
  }
  static bool resembles(const std::string &section, const std::string &key) {
    return nearest(key, namesIn(section)).has_value();
  }

  static std::vector<std::string> namesIn(const std::string &section) {
    std::vector<std::string> names;
    for (const Setting &setting : settingTable()) {
      if (section == setting.section)
        names.emplace_back(setting.key);
      if (section.empty() && *setting.section)
        names.emplace_back(setting.section);
    }
    return names;
  }

  static bool isSection(const std::string &name) {
    for (const Setting &setting : settingTable())
      if (*setting.section && name == setting.section)
        return true;
    return false;
  }

  std::string at(const toml::node &node) const {
    return fmt::format("{}:{}", path_, node.source().begin.line);
  }

  [[noreturn]] void noSection(const std::string &key, const toml::node &node) const {
    if (node.is_array_of_tables())
      fail(at(node), fmt::format("[[{0}]] is a list of sections, but there is one: [{0}]", key));
    std::string first = namesIn(key).at(0);
    fail(at(node), fmt::format("'{0}' is a section and no setting; write [{0}], and below it "
                               "settings like {1} = ...",
                               key, first));
  }

  void set(const Setting &setting, const toml::node &node) {
    if (isTime(node))
      fail(at(node), fmt::format("{} is a date or a time, which no setting takes; a text stands in "
                                 "quotes",
                                 setting.key));
    std::string problem = assign(settings_, setting, jsonOf(node));
    if (!problem.empty())
      fail(at(node), fmt::format("{} {}", setting.key, problem));
    settings_.origins[setting.option] = at(node);
    bool program = jsonOf(node).is_string() && jsonOf(node).get<std::string>().ends_with(".tsm");
    if (setting.path || program)
      std::visit([&](auto field) { resolve(settings_.*field); }, setting.field);
  }

  void resolve(std::string &path) const {
    size_t name = path.find('='); // NAME=FILE
    name = name == std::string::npos ? 0 : name + 1;
    path = path.substr(0, name) + (folder_ / path.substr(name)).lexically_normal().string();
  }
  void resolve(std::vector<std::string> &paths) const {
    for (std::string &path : paths)
      resolve(path);
  }
  template <typename T> void resolve(const T &) const {}

  [[noreturn]] void unknown(const std::string &section, const std::string &key,
                            const toml::node &node) const {
    std::string place = section.empty() ? "" : " in [" + section + "]";
    std::string elsewhere;
    for (const Setting &setting : settingTable())
      if (underscored(key) == setting.key && section != setting.section)
        elsewhere = *setting.section ? fmt::format("; it belongs in [{}]", setting.section)
                                     : "; it belongs before the first section";
    fail(at(node),
         fmt::format("there is no setting '{}'{}{}; see tensmith train --help", printable(key),
                     place, elsewhere.empty() ? suggestion(key, namesIn(section)) : elsewhere));
  }

  std::string path_;
  std::filesystem::path folder_;
  Settings &settings_;
};

} // namespace

void readConfiguration(const std::string &path, Settings &settings) {
  Bytes bytes = readFile(path);
  if (bytes.size() > kLargestFile)
    fail(path, "is larger than 1 MiB; it is no configuration");
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed)
    fail(fmt::format("{}:{}", path, parsed.error().source().begin.line),
         printable(std::string(parsed.error().description())));
  Reader(path, settings).readSection("", parsed.table());
}

} // namespace tensmith::train
