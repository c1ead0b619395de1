// A part of a JSON file from outside, which knows where it stands: what is read of it is of the
// kind that is asked for, or there is a failure that names the file and the place.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::generation {

class JsonPart {
public:
  using Json = nlohmann::json;

  /// Both must outlive it. `place` is empty for the whole file.
  JsonPart(const Json &json, const std::string &file, std::string place = "")
      : json_(&json), file_(&file), place_(std::move(place)) {}
  /// Throws Failure where the file can't be read, is no JSON object, or is nested deeper than any
  /// that is meant.
  static Json parse(const std::string &path);

  const Json &json() const { return *json_; }
  const std::string &file() const { return *file_; }
  [[noreturn]] void wrong(const std::string &what) const;

  /// Whether there is one that is not null.
  bool has(const char *name) const;
  JsonPart at(const char *name) const;
  std::optional<JsonPart> find(const char *name) const;
  /// The parts of a list.
  std::vector<JsonPart> list(const char *name) const;
  std::vector<JsonPart> parts() const;
  /// What the part itself is.
  std::string asText() const;
  int64_t asInteger() const;
  double asReal() const;

  // Of an object's entries. With `otherwise` they need not be there, and may be null.
  std::string text(const char *name) const { return at(name).asText(); }
  std::string text(const char *name, const std::string &otherwise) const {
    return has(name) ? text(name) : otherwise;
  }
  int64_t integer(const char *name) const { return at(name).asInteger(); }
  int64_t integer(const char *name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  double real(const char *name) const { return at(name).asReal(); }
  double real(const char *name, double otherwise) const {
    return has(name) ? real(name) : otherwise;
  }
  bool flag(const char *name, bool otherwise) const;
  /// Exactly one character.
  uint32_t character(const char *name) const;

private:
  JsonPart within(const Json &json, const std::string &step) const;

  const Json *json_;
  const std::string *file_;
  std::string place_;
};

} // namespace tensmith::generation
