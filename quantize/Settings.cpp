// Settings from JSON, each key checked; see Settings.h.
#include "quantize/Settings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>

namespace tensmith::quantize {
namespace {

using Json = nlohmann::ordered_json;

Status wrong(const std::string &key, const std::string &wanted, const Json &given) {
  return invalidArgument("'" + key + "' is " + wanted + ", not " + given.dump());
}

constexpr const char *kFormats = "a number of bits (1 to 8, or 16), int1 to int8, uint1 to uint8, "
                                 "int16, uint16, float, fp8, nf4, or a table of bits, type, "
                                 "symmetric, per and power_of_two";

bool areBits(int64_t bits) { return (bits >= 1 && bits <= 8) || bits == 16; }

Status parseBits(const Json &json, const std::string &key, FormatChange &change) {
  if (!json.is_number_integer() || !areBits(json.get<int64_t>()))
    return wrong(key, "1 to 8, or 16", json);
  change.bits = int(json.get<int64_t>());
  if (!change.storage)
    change.storage = Storage::Integer;
  return {};
}

/// "int8", "uint", "fp8": the storage, and perhaps bits.
bool parseType(std::string text, FormatChange &change) {
  static const std::map<std::string, Storage> kOthers = {
      {"float", Storage::Float}, {"fp8", Storage::Float8}, {"nf4", Storage::NormalFloat4}};
  if (auto other = kOthers.find(text); other != kOthers.end()) {
    change.storage = other->second;
    return true;
  }
  bool isUnsigned = text.starts_with("u");
  if (!text.starts_with(isUnsigned ? "uint" : "int"))
    return false;
  text.erase(0, isUnsigned ? 4 : 3);
  change.storage = Storage::Integer;
  change.isSigned = !isUnsigned;
  if (text.empty())
    return true;
  bool isNumber =
      text.size() <= 2 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!isNumber || !areBits(std::stoi(text)))
    return false;
  change.bits = std::stoi(text);
  return true;
}

Status parseGranularity(const Json &json, const std::string &key, FormatChange &change) {
  if (json == "tensor" || json == "channel") {
    change.granularity = json == "tensor" ? Granularity::Tensor : Granularity::Channel;
    return {};
  }
  // A kernel reads whole groups, in vectors of 16 at least.
  bool isGroup =
      json.is_number_integer() && json.get<int64_t>() >= 16 && json.get<int64_t>() <= (1 << 20);
  if (!isGroup)
    return wrong(key, "\"tensor\", \"channel\" or the size of a group (16 or more)", json);
  change.granularity = Granularity::Group;
  change.group = json.get<int64_t>();
  return {};
}

Status parseFlag(const Json &json, const std::string &key, std::optional<bool> &flag) {
  if (!json.is_boolean())
    return wrong(key, "true or false", json);
  flag = json.get<bool>();
  return {};
}

Status parseFormatTable(const Json &json, const std::string &key, FormatChange &change) {
  for (const auto &[name, value] : json.items()) {
    std::string inner = key + "." + name;
    Status status;
    if (name == "bits")
      status = parseBits(value, inner, change);
    else if (name == "type")
      status = value.is_string() && parseType(value.get<std::string>(), change)
                   ? Status()
                   : wrong(inner, "int, uint, float, fp8 or nf4", value);
    else if (name == "symmetric")
      status = parseFlag(value, inner, change.isSymmetric);
    else if (name == "power_of_two")
      status = parseFlag(value, inner, change.hasPowerOfTwoScale);
    else if (name == "per")
      status = parseGranularity(value, inner, change);
    else
      status = invalidArgument("'" + inner +
                               "' is unknown; a format has bits, type, symmetric, per and "
                               "power_of_two");
    if (!status.ok())
      return status;
  }
  return {};
}

Status parseFormat(const Json &json, const std::string &key, FormatChange &change) {
  if (json.is_object())
    return parseFormatTable(json, key, change);
  if (json.is_number_integer() && areBits(json.get<int64_t>()))
    return parseBits(json, key, change);
  return json.is_string() && parseType(json.get<std::string>(), change)
             ? Status()
             : wrong(key, kFormats, json);
}

Status parseNames(const Json &json, const std::string &key, std::vector<std::string> &names) {
  const Json list = json.is_string() ? Json::array({json}) : json;
  if (!list.is_array())
    return wrong(key, "a name or a list of names", json);
  for (const Json &name : list) {
    if (!name.is_string())
      return wrong(key, "a name or a list of names", json);
    names.push_back(name.get<std::string>());
  }
  return {};
}

Status parseRule(const Json &json, const std::string &key, Rule &rule) {
  if (!json.is_object())
    return wrong(key, "a table of nodes, operators, weights, activations and keep", json);
  for (const auto &[name, value] : json.items()) {
    std::string inner = key + "." + name;
    Status status;
    std::optional<bool> keeps;
    if (name == "nodes")
      status = parseNames(value, inner, rule.nodes);
    else if (name == "operators")
      status = parseNames(value, inner, rule.operators);
    else if (name == "weights")
      status = parseFormat(value, inner, rule.weights);
    else if (name == "activations")
      status = parseFormat(value, inner, rule.activations);
    else if (name == "keep")
      status = parseFlag(value, inner, keeps);
    else
      status = invalidArgument("'" + inner +
                               "' is unknown; a rule has nodes, operators, weights, activations "
                               "and keep");
    if (!status.ok())
      return status;
    rule.keeps = keeps.value_or(rule.keeps);
  }
  if (rule.nodes.empty() && rule.operators.empty())
    return invalidArgument("'" + key + "' says neither nodes nor operators; name some, or \"*\"");
  return {};
}

template <typename Value>
Status parseWord(const Json &json, const std::string &key,
                 const std::map<std::string, Value> &words, Value &value) {
  auto found = json.is_string() ? words.find(json.get<std::string>()) : words.end();
  if (found == words.end()) {
    std::string all;
    for (const auto &[word, unused] : words)
      all += (all.empty() ? "" : ", ") + word;
    return wrong(key, "one of " + all, json);
  }
  value = found->second;
  return {};
}

Status parseNumber(const Json &json, const std::string &key, double low, double high,
                   double &value) {
  bool isFit = json.is_number() && json.get<double>() >= low && json.get<double>() <= high;
  if (!isFit)
    return wrong(key, "a number from " + Json(low).dump() + " to " + Json(high).dump(), json);
  value = json.get<double>();
  return {};
}

Status parseSwitch(const Json &json, const std::string &key, bool &flag) {
  std::optional<bool> given;
  Status status = parseFlag(json, key, given);
  flag = given.value_or(flag);
  return status;
}

Status parseKept(const Json &json, const std::string &key, std::vector<Rule> &rules) {
  std::vector<std::string> names;
  Status status = parseNames(json, key, names);
  for (std::string &name : names) {
    Rule &rule = rules.emplace_back();
    rule.nodes = {std::move(name)};
    rule.keeps = true;
  }
  return status;
}

Status parseRules(const Json &json, const std::string &key, std::vector<Rule> &rules) {
  if (!json.is_array())
    return wrong(key, "a list of tables", json);
  for (const Json &rule : json)
    if (Status status =
            parseRule(rule, key + "[" + std::to_string(rules.size()) + "]", rules.emplace_back());
        !status.ok())
      return status;
  return {};
}

using Parser = std::function<Status(const Json &, const std::string &)>;

std::map<std::string, Parser> parsersInto(Settings &settings) {
  static const std::map<std::string, RangeRule> kRanges = {{"minmax", RangeRule::MinMax},
                                                           {"percentile", RangeRule::Percentile},
                                                           {"mse", RangeRule::MeanSquare},
                                                           {"entropy", RangeRule::Entropy}};
  static const std::map<std::string, Rounding> kRoundings = {{"nearest", Rounding::Nearest},
                                                             {"gptq", Rounding::Gptq}};
  static const std::map<std::string, bool> kWeightRanges = {{"minmax", false}, {"mse", true}};
  constexpr double kMostBytes = 1e15;
  Settings &s = settings;
  auto flag = [](bool &to) {
    return [&to](const Json &json, const std::string &key) { return parseSwitch(json, key, to); };
  };
  auto number = [](double low, double high, auto set) {
    return [=](const Json &json, const std::string &key) {
      double value = 0;
      Status status = parseNumber(json, key, low, high, value);
      if (status.ok())
        set(value);
      return status;
    };
  };
  return {
      {"weights", [&](auto &json, auto &key) { return parseFormat(json, key, s.weights); }},
      {"activations", [&](auto &json, auto &key) { return parseFormat(json, key, s.activations); }},
      {"rules", [&](auto &json, auto &key) { return parseRules(json, key, s.rules); }},
      {"keep", [&](auto &json, auto &key) { return parseKept(json, key, s.rules); }},
      {"calibration",
       [&](auto &json, auto &key) { return parseWord(json, key, kRanges, s.ranges.rule); }},
      {"weight_ranges",
       [&](auto &json, auto &key) {
         return parseWord(json, key, kWeightRanges, s.bestWeightRange);
       }},
      {"rounding",
       [&](auto &json, auto &key) { return parseWord(json, key, kRoundings, s.rounding); }},
      {"percentile", number(50, 100, [&](double value) { s.ranges.percentile = value; })},
      {"smooth", number(0, 1, [&](double value) { s.smoothing = value; })},
      {"accuracy", number(0, 100, [&](double value) { s.accuracy = value; })},
      {"size", number(1, kMostBytes, [&](double value) { s.size = int64_t(value); })},
      {"batch", number(1, 65536, [&](double value) { s.batch = int64_t(value); })},
      {"awq", flag(s.awq)},
      {"bias_correction", flag(s.correctsBias)},
      {"equalise", flag(s.equalises)},
      {"training", flag(s.forTraining)},
      {"sensitivity", flag(s.measuresSensitivity)},
  };
}

} // namespace

void FormatChange::apply(Format &format) const {
  if (storage && *storage != format.storage) {
    format.storage = *storage;
    if (*storage == Storage::NormalFloat4)
      format.bits = 4;
    else if (*storage == Storage::Float8)
      format.bits = 8;
  }
  format.bits = bits.value_or(format.bits);
  if (isSigned && *isSigned != format.isSigned) {
    format.isSigned = *isSigned;
    format.isSymmetric = *isSigned; // unless the change says otherwise
  }
  format.isSymmetric = isSymmetric.value_or(format.isSymmetric);
  format.hasPowerOfTwoScale = hasPowerOfTwoScale.value_or(format.hasPowerOfTwoScale);
  if (granularity) {
    format.granularity = *granularity;
    format.group = group;
  }
}

bool fitsPattern(std::string_view pattern, std::string_view text) {
  size_t star = std::string_view::npos, mark = 0, p = 0, t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool Rule::fits(std::string_view node, std::string_view op) const {
  auto any = [](const std::vector<std::string> &patterns, std::string_view text) {
    return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string &pattern) {
             return fitsPattern(pattern, text);
           });
  };
  return any(nodes, node) && any(operators, op);
}

std::string Rule::text() const {
  std::string text;
  for (const auto *names : {&nodes, &operators})
    for (const std::string &name : *names)
      text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

Result<Settings> parseSettings(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return invalidArgument("the quantiser's settings are no JSON object");
  Settings settings;
  auto parsers = parsersInto(settings);
  for (const auto &[key, value] : json.items()) {
    auto parser = parsers.find(key);
    if (parser == parsers.end()) {
      std::string all;
      for (const auto &[name, unused] : parsers)
        all += (all.empty() ? "" : ", ") + name;
      return invalidArgument("'" + key + "' is none of the quantiser's settings, which are " + all);
    }
    if (Status status = parser->second(value, key); !status.ok())
      return status;
  }
  return settings;
}

} // namespace tensmith::quantize
