// Reading parts of JSON files; see JsonPart.h.
#include "generation/tokenizer/JsonPart.h"

#include "files/Failure.h"
#include "files/Files.h"
#include "generation/unicode/Unicode.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int kDeepest = 64;

} // namespace

JsonPart::Json JsonPart::parse(const std::string &path) {
  Bytes bytes = readFile(path);
  const auto *text = reinterpret_cast<const char *>(bytes.data());
  bool isDeep = false;
  auto look = [&](int depth, Json::parse_event_t, Json &) {
    isDeep |= depth > kDeepest;
    return depth <= kDeepest;
  };
  Json json = Json::parse(text, text + bytes.size(), look, /*allow_exceptions=*/false);
  if (isDeep)
    fail(path, fmt::format("is nested deeper than {}", kDeepest));
  if (!json.is_object())
    fail(path, "is no JSON object; the file is damaged, or was not downloaded whole");
  return json;
}

void JsonPart::wrong(const std::string &what) const {
  fail(*file_, place_.empty() ? what : "'" + place_ + "' " + what);
}

JsonPart JsonPart::within(const Json &json, const std::string &step) const {
  bool isFirst = place_.empty();
  return {json, *file_, isFirst ? step : place_ + (step[0] == '[' ? "" : ".") + step};
}

bool JsonPart::has(const char *name) const {
  if (!json_->is_object())
    return false;
  auto found = json_->find(name);
  return found != json_->end() && !found->is_null();
}

JsonPart JsonPart::at(const char *name) const {
  if (!has(name))
    wrong(fmt::format("has no '{}'", name));
  return within(*json_->find(name), name);
}

std::optional<JsonPart> JsonPart::find(const char *name) const {
  return has(name) ? std::optional(at(name)) : std::nullopt;
}

std::vector<JsonPart> JsonPart::list(const char *name) const { return at(name).parts(); }

std::vector<JsonPart> JsonPart::parts() const {
  if (!json_->is_array())
    wrong("is no list");
  std::vector<JsonPart> result;
  result.reserve(json_->size());
  for (const Json &each : *json_)
    result.push_back(within(each, fmt::format("[{}]", result.size())));
  return result;
}

std::string JsonPart::asText() const {
  if (!json_->is_string())
    wrong("is no text");
  return json_->get<std::string>();
}

int64_t JsonPart::asInteger() const {
  if (!json_->is_number_integer() ||
      (json_->is_number_unsigned() && json_->get<uint64_t>() > uint64_t(INT64_MAX)))
    wrong("is no integer");
  return json_->get<int64_t>();
}

double JsonPart::asReal() const {
  if (!json_->is_number())
    wrong("is no number");
  return json_->get<double>();
}

bool JsonPart::flag(const char *name, bool otherwise) const {
  if (!has(name))
    return otherwise;
  JsonPart part = at(name);
  if (!part.json_->is_boolean())
    part.wrong("is neither true nor false");
  return part.json_->get<bool>();
}

uint32_t JsonPart::character(const char *name) const {
  std::string given = text(name);
  if (given.empty() || readCharacter(given).bytes != given.size())
    at(name).wrong("is not one character");
  return readCharacter(given).code;
}

} // namespace tensmith::generation
