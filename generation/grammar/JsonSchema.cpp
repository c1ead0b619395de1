// Schemas to rules; see JsonSchema.h.
#include "generation/grammar/JsonSchema.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostRepeats = Grammar::kMostRepeats;

class SchemaRules {
public:
  Grammar grammar;

  explicit SchemaRules(const Json &root) : root_(root) {
    grammar.add(); // of the whole
    addFixed();
  }

  void begin(const Json &schema) { grammar.rules[0] = {{call(of(schema))}}; }
  void beginObject() { grammar.rules[0] = {{call(object(any_))}}; }

private:
  // Items and sequences.

  static GrammarItem call(int rule) { return {{}, rule}; }
  static GrammarItem byteOf(char byte) { return {Bytes256().set(uint8_t(byte)), -1}; }
  static GrammarItem oneOf(std::string_view bytes) {
    GrammarItem item;
    for (char byte : bytes)
      item.bytes.set(uint8_t(byte));
    return item;
  }
  GrammarSequence literal(std::string_view text) {
    grammar.count(text.size());
    GrammarSequence sequence;
    for (char byte : text)
      sequence.push_back(byteOf(byte));
    return sequence;
  }
  static GrammarSequence joined(std::initializer_list<GrammarSequence> parts) {
    GrammarSequence all;
    for (const GrammarSequence &part : parts)
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  int rule(GrammarRule alternatives) { return grammar.add(std::move(alternatives)); }
  int repeated(const GrammarSequence &item, int64_t least, int64_t most) {
    return grammar.addRepeated(item, least, most);
  }

  // What all schemas use.

  void addFixed() {
    GrammarItem blank = oneOf(" \t");
    space_ = rule({{}, {byteOf(' ')}, {byteOf('\n'), call(repeated({blank}, 0, 20))}});
    GrammarItem hex = oneOf("0123456789abcdefABCDEF");
    GrammarRule character = characterRange(0x20, 0x21);
    for (auto [first, last] : {std::pair(0x23u, 0x5bu), std::pair(0x5du, 0x10ffffu)})
      for (GrammarSequence &each : characterRange(first, last))
        character.push_back(std::move(each));
    character.push_back({byteOf('\\'), oneOf("\"\\/bfnrt")});
    // No halves of pairs, which would be a character together.
    character.push_back({byteOf('\\'), byteOf('u'), oneOf("0123456789abcefABCEF"), hex, hex, hex});
    character_ = rule(std::move(character));
    string_ = stringOf(0, -1);
    GrammarItem digit = oneOf("0123456789");
    int whole = rule({{byteOf('0')}, {oneOf("123456789"), call(repeated({digit}, 0, 15))}});
    integer_ = rule({{call(whole)}, {byteOf('-'), call(whole)}});
    int fraction = rule({{}, {byteOf('.'), call(repeated({digit}, 1, 16))}});
    int sign = rule({{}, {oneOf("+-")}});
    int exponent = rule({{}, {oneOf("eE"), call(sign), call(repeated({digit}, 1, 2))}});
    number_ = rule({{call(integer_), call(fraction), call(exponent)}});
    boolean_ = rule({literal("true"), literal("false")});
    null_ = rule({literal("null")});
    any_ = grammar.add();
    GrammarRule any = {{call(object(any_))}, {call(array({}, any_, 0, -1))},
                       {call(string_)},      {call(number_)},
                       {call(boolean_)},     {call(null_)}};
    grammar.rules[size_t(any_)] = std::move(any);
  }

  int stringOf(int64_t least, int64_t most) {
    return rule({{byteOf('"'), call(repeated({call(character_)}, least, most)), byteOf('"')}});
  }

  GrammarSequence spaced(char sign) { return {byteOf(sign), call(space_)}; }

  /// Any keys with values by that rule.
  int object(int value) {
    GrammarSequence entry = joined({{call(string_)}, spaced(':'), {call(value)}});
    int more = repeated(joined({spaced(','), entry}), 0, -1);
    return rule({joined({spaced('{'), {byteOf('}')}}),
                 joined({spaced('{'), entry, {call(more), call(space_), byteOf('}')}})});
  }

  /// First items by `prefix`, others by `rest` (below 0: none).
  int array(const std::vector<int> &prefix, int rest, int64_t least, int64_t most) {
    auto fixed = int64_t(prefix.size());
    if (rest < 0)
      most = most < 0 ? fixed : std::min(most, fixed);
    if ((most >= 0 && most < least) || least > kMostRepeats)
      failUsage("no array has as few or as many items as the schema asks for");
    // tails[i]: what follows i items.
    int64_t counted = std::max(fixed, least);
    int64_t last = most < 0 ? counted : most;
    if (last > kMostRepeats)
      failUsage(fmt::format("the schema's arrays have up to {} items", kMostRepeats));
    GrammarSequence end = {call(space_), byteOf(']')};
    int tail = rest >= 0 && most < 0
                   ? rule({{call(repeated(joined({spaced(','), {call(rest)}}), 0, -1)),
                            call(space_), byteOf(']')}})
                   : rule({end});
    for (int64_t i = last; i-- > 1;) {
      int item = i < fixed ? prefix[size_t(i)] : rest;
      GrammarRule next = {joined({spaced(','), {call(item), call(tail)}})};
      if (i >= least)
        next.push_back(end);
      tail = rule(std::move(next));
    }
    GrammarRule all;
    if (least == 0)
      all.push_back(joined({spaced('['), {byteOf(']')}}));
    if (last > 0 || (most < 0 && rest >= 0)) {
      // With no counted items, the first is one of the others.
      int first = fixed ? prefix[0] : rest;
      all.push_back(joined({spaced('['), {call(first), call(tail)}}));
    }
    return rule(std::move(all));
  }

  // Schemas.

  /// Schemas may refer to one another, and so be deeper than their text.
  int of(const Json &schema) {
    if (depth_ == kMostDepth)
      failUsage(fmt::format("the schema is more than {} schemas deep", kMostDepth));
    ++depth_;
    int result = inside(schema);
    --depth_;
    return result;
  }

  int inside(const Json &schema) {
    if (schema.is_boolean() && schema.get<bool>())
      return any_;
    if (!schema.is_object())
      failUsage("a schema is an object, or true");
    for (const auto &[key, value] : schema.items())
      checkKeyword(key);
    for (const char *key : {"$ref", "anyOf", "oneOf", "allOf", "const", "enum"})
      if (schema.contains(key)) {
        alone(schema, key);
        return byKeyword(schema, key);
      }
    GrammarRule alternatives;
    for (const std::string &type : typesOf(schema))
      alternatives.push_back({call(ofType(schema, type))});
    return alternatives.size() == 1 ? alternatives[0][0].rule : rule(std::move(alternatives));
  }

  static const std::set<std::string> &known() {
    static const std::set<std::string> kKnown = {
        "$ref",        "anyOf",      "oneOf",    "allOf",
        "const",       "enum",       "type",     "items",
        "prefixItems", "minItems",   "maxItems", "minLength",
        "maxLength",   "properties", "required", "additionalProperties"};
    return kKnown;
  }
  static bool isAnnotation(const std::string &key) {
    static const std::set<std::string> kSaid = {
        "$schema",     "$id",     "$comment", "$defs",    "definitions", "title",
        "description", "default", "example",  "examples", "readOnly",    "writeOnly",
        "deprecated",  "format",  "strict",   "name"};
    return kSaid.contains(key);
  }
  void checkKeyword(const std::string &key) const {
    if (!known().contains(key) && !isAnnotation(key))
      failUsage(fmt::format("the schema's '{}' can't be kept to here; leave it out", key));
  }
  void alone(const Json &schema, const std::string &key) const {
    for (const auto &[other, value] : schema.items())
      if (other != key && !isAnnotation(other) &&
          !(other == "type" && (key == "const" || key == "enum")))
        failUsage(fmt::format("the schema's '{}' beside '{}' can't be kept to here", other, key));
  }

  int byKeyword(const Json &schema, const std::string &key) {
    const Json &value = schema[key];
    if (key == "$ref")
      return reference(value);
    if (key == "const")
      return oneOfValues(schema, Json::array({value}), key);
    if (!value.is_array() || value.empty())
      failUsage(fmt::format("the schema's '{}' is a list of at least one", key));
    if (key == "allOf" && value.size() > 1)
      failUsage("the schema's 'allOf' of several can't be kept to here");
    if (key == "enum")
      return oneOfValues(schema, value, key);
    GrammarRule alternatives;
    for (const Json &each : value)
      alternatives.push_back({call(of(each))});
    return rule(std::move(alternatives));
  }

  /// Those of the values that are of the schema's types, where it has some.
  int oneOfValues(const Json &schema, const Json &values, const std::string &key) {
    std::vector<std::string> types;
    if (schema.contains("type"))
      types = typesOf(schema);
    GrammarRule alternatives;
    for (const Json &value : values)
      if (types.empty() || std::ranges::any_of(types, [&](auto &type) { return is(value, type); }))
        alternatives.push_back(literal(value.dump()));
    if (alternatives.empty())
      failUsage(fmt::format("the schema's '{}' has no value of its 'type'", key));
    return rule(std::move(alternatives));
  }

  static bool is(const Json &value, const std::string &type) {
    if (type == "number")
      return value.is_number();
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
    return type == value.type_name(); // "string", "boolean", "array", "object", "null"
  }

  int reference(const Json &to) {
    std::string path = to.is_string() ? to.get<std::string>() : "";
    if (!path.starts_with("#"))
      failUsage("the schema's '$ref' is to a place within it: #/$defs/NAME");
    auto [found, isNew] = references_.try_emplace(path, -1);
    if (!isNew)
      return found->second;
    const Json *place = &root_;
    try {
      place = &root_.at(Json::json_pointer(path.substr(1)));
    } catch (const Json::exception &) {
      failUsage(fmt::format("the schema has no '{}'", path));
    }
    int result = found->second = grammar.add();
    int target = of(*place);
    grammar.rules[size_t(result)] = {{call(target)}};
    return result;
  }

  std::vector<std::string> typesOf(const Json &schema) const {
    Json types = schema.value("type", Json());
    if (types.is_null())
      types = schema.contains("properties") || schema.contains("required") ||
                      schema.contains("additionalProperties")
                  ? Json("object")
              : schema.contains("items") || schema.contains("prefixItems") ||
                      schema.contains("minItems") || schema.contains("maxItems")
                  ? Json("array")
                  : Json();
    if (types.is_null())
      return {schema.contains("minLength") || schema.contains("maxLength") ? "string" : "any"};
    if (!types.is_array())
      types = Json::array({types});
    std::vector<std::string> names;
    for (const Json &type : types) // "any" is none of JSON's, but the name of all here
      names.push_back(type.is_string() && type != "any" ? type.get<std::string>() : "");
    if (names.empty())
      failUsage("the schema's 'type' is empty");
    return names;
  }

  int ofType(const Json &schema, const std::string &type) {
    if (type == "string")
      return stringOf(count(schema, "minLength", 0), count(schema, "maxLength", -1));
    if (type == "array")
      return arrayOf(schema);
    if (type == "object")
      return objectOf(schema);
    const std::map<std::string, int> simple = {{"integer", integer_},
                                               {"number", number_},
                                               {"boolean", boolean_},
                                               {"null", null_},
                                               {"any", any_}};
    auto found = simple.find(type);
    if (found == simple.end())
      failUsage(fmt::format("the schema's type '{}' is none of JSON's", type));
    return found->second;
  }

  static int64_t count(const Json &schema, const char *key, int64_t otherwise) {
    auto found = schema.find(key);
    if (found == schema.end())
      return otherwise;
    if (!found->is_number_integer() || *found < 0 || *found > kMostRepeats)
      failUsage(fmt::format("the schema's '{}' is a whole number from 0 to {}", key, kMostRepeats));
    return *found;
  }

  int arrayOf(const Json &schema) {
    std::vector<int> prefix;
    if (auto found = schema.find("prefixItems"); found != schema.end())
      for (const Json &each : *found)
        prefix.push_back(of(each));
    auto items = schema.find("items");
    bool isClosed = items != schema.end() && items->is_boolean() && !items->get<bool>();
    int rest = items == schema.end() ? any_ : isClosed ? -1 : of(*items);
    return array(prefix, rest, count(schema, "minItems", 0), count(schema, "maxItems", -1));
  }

  int objectOf(const Json &schema) {
    Json properties = schema.value("properties", Json::object());
    Json required = schema.value("required", Json::array());
    if (!properties.is_object() || !required.is_array())
      failUsage("the schema's 'properties' are an object, and 'required' a list");
    std::set<std::string> needed;
    auto others = schema.find("additionalProperties");
    bool isClosed = others != schema.end() && others->is_boolean() && !others->get<bool>();
    for (const Json &name : required) {
      if (!name.is_string())
        failUsage("the schema's 'required' are names");
      needed.insert(name.get<std::string>());
      if (properties.contains(name.get<std::string>()))
        continue;
      if (isClosed)
        failUsage(fmt::format("the schema requires '{}' and forbids it", name.get<std::string>()));
      properties[name.get<std::string>()] = others == schema.end() ? Json(true) : *others;
    }
    if (properties.empty())
      return isClosed ? rule({joined({spaced('{'), {byteOf('}')}})})
                      : object(others == schema.end() ? any_ : of(*others));
    return rule({joined({spaced('{'), {call(entries(properties, needed))}})});
  }

  /// What follows '{': each of the properties, in order, where it is needed or not.
  int entries(const Json &properties, const std::set<std::string> &needed) {
    std::vector<std::pair<std::string, int>> values;
    for (const auto &[name, schema] : properties.items())
      values.emplace_back(name, of(schema));
    // Behind one that is there, and behind none.
    int behind = rule({{call(space_), byteOf('}')}}), first = rule({{byteOf('}')}});
    for (size_t i = values.size(); i-- > 0;) {
      GrammarSequence entry = joined({literal(Json(values[i].first).dump()),
                                      spaced(':'),
                                      {call(values[i].second), call(behind)}});
      GrammarRule others = {joined({spaced(','), entry})}, begin = {entry};
      if (!needed.contains(values[i].first))
        others.push_back({call(behind)}), begin.push_back({call(first)});
      behind = rule(std::move(others)), first = rule(std::move(begin));
    }
    return first;
  }

  static constexpr int kMostDepth = 200;
  const Json &root_;
  int depth_ = 0;
  std::map<std::string, int> references_;
  int space_ = 0, character_ = 0, string_ = 0, integer_ = 0, number_ = 0, boolean_ = 0, null_ = 0,
      any_ = 0;
};

} // namespace

Grammar schemaGrammar(const Json &schema) {
  SchemaRules rules(schema);
  rules.begin(schema);
  return std::move(rules.grammar);
}

Grammar objectGrammar() {
  Json none;
  SchemaRules rules(none);
  rules.beginObject();
  return std::move(rules.grammar);
}

} // namespace tensmith::generation
