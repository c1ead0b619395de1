// Schemas to rules; see JsonSchema.h.
#include "generation/grammar/JsonSchema.h"

#include "files/Failure.h"
#include "generation/grammar/IntegerRange.h"
#include "generation/grammar/StringPattern.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
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
    checkKeywords(schema);
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
    static const std::set<std::string> kKnown = {"$ref",
                                                 "anyOf",
                                                 "oneOf",
                                                 "allOf",
                                                 "const",
                                                 "enum",
                                                 "type",
                                                 "items",
                                                 "prefixItems",
                                                 "minItems",
                                                 "maxItems",
                                                 "minLength",
                                                 "maxLength",
                                                 "properties",
                                                 "required",
                                                 "additionalProperties",
                                                 "pattern",
                                                 "minimum",
                                                 "maximum",
                                                 "exclusiveMinimum",
                                                 "exclusiveMaximum"};
    return kKnown;
  }
  static bool isAnnotation(const std::string &key) {
    static const std::set<std::string> kSaid = {
        "$schema",     "$id",     "$comment", "$defs",    "definitions", "title",
        "description", "default", "example",  "examples", "readOnly",    "writeOnly",
        "deprecated",  "format",  "strict",   "name"};
    return kSaid.contains(key);
  }
  void checkKeywords(const Json &schema) const {
    for (const auto &[key, value] : schema.items())
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
    if (key == "enum")
      return oneOfValues(schema, value, key);
    if (key == "allOf" && value.size() > 1)
      return of(merged(value));
    if (key == "oneOf")
      checkApart(value);
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

  /// What a reference is to.
  const Json &placeOf(const Json &to) const {
    std::string path = to.is_string() ? to.get<std::string>() : "";
    if (!path.starts_with("#"))
      failUsage("the schema's '$ref' is to a place within it: #/$defs/NAME");
    try {
      return root_.at(Json::json_pointer(path.substr(1)));
    } catch (const Json::exception &) {
      failUsage(fmt::format("the schema has no '{}'", path));
    }
  }

  int reference(const Json &to) {
    const Json &place = placeOf(to);
    auto [found, isNew] = references_.try_emplace(to.get<std::string>(), -1);
    if (!isNew)
      return found->second;
    int result = found->second = grammar.add();
    int target = of(place);
    grammar.rules[size_t(result)] = {{call(target)}};
    return result;
  }

  /// The schema itself where it is a reference to another, or `allOf` of one. What stands beside
  /// either is refused, as it would be lost on the way.
  const Json &resolved(const Json &schema) const {
    const Json *at = &schema;
    for (int steps = 0; at->is_object() && steps < kMostDepth; ++steps) {
      checkKeywords(*at);
      auto all = at->find("allOf");
      if (at->contains("$ref")) {
        alone(*at, "$ref");
        at = &placeOf((*at)["$ref"]);
      } else if (all != at->end() && all->is_array() && all->size() == 1) {
        alone(*at, "allOf");
        at = &(*all)[0];
      } else {
        break;
      }
    }
    return *at;
  }

  // Several schemas at a time.

  /// Objects of all of these, which name different properties, as one schema.
  Json merged(const Json &schemas) const {
    Json all = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (const Json &each : schemas) {
      const Json &schema = resolved(each);
      bool isObject = schema.is_object() && schema.value("type", Json("object")) == "object";
      if (isObject)
        for (const auto &[key, value] : schema.items())
          isObject &= isAnnotation(key) || key == "type" ||
                      (key == "properties" && value.is_object()) ||
                      (key == "required" && value.is_array());
      if (!isObject)
        failUsage("the schema's 'allOf' of several is kept to for objects with 'properties' and "
                  "'required' alone");
      Json properties = schema.value("properties", Json::object());
      for (const auto &[name, value] : properties.items()) {
        if (all["properties"].contains(name) && all["properties"][name] != value)
          failUsage(fmt::format("the schemas of 'allOf' say different things of '{}'", name));
        all["properties"][name] = value;
      }
      for (const Json &name : schema.value("required", Json::array()))
        all["required"].push_back(name);
    }
    return all;
  }

  /// Texts follow one alternative; that no other fits as well, as `oneOf` asks for, has to be
  /// certain beforehand.
  void checkApart(const Json &alternatives) const {
    for (size_t i = 0; i < alternatives.size(); ++i)
      for (size_t j = 0; j < alternatives.size(); ++j)
        if (i != j && !isApart(alternatives[i], alternatives[j], 0))
          failUsage(fmt::format("a value may follow both alternatives {} and {} of the schema's "
                                "'oneOf', as far as can be told here; use 'anyOf', or a property "
                                "that is required in each and has another 'const'",
                                std::min(i, j) + 1, std::max(i, j) + 1));
  }

  /// Whether no value that is written by one schema follows the other.
  bool isApart(const Json &writtenBy, const Json &other, int depth) const {
    const Json &made = resolved(writtenBy), &with = resolved(other);
    if (++pairs_ > kMostPairs)
      failUsage("the schema's 'oneOf' has too many alternatives to hold against one another");
    if (depth > kMostApart || !made.is_object())
      return false;
    if (!with.is_object())
      return with == Json(false);
    for (const char *key : {"anyOf", "oneOf"}) {
      auto all = [&](const Json &schema, auto isFine) {
        return schema.contains(key) && schema[key].is_array() &&
               std::ranges::all_of(schema[key], isFine);
      };
      if (all(made, [&](const Json &each) { return isApart(each, with, depth + 1); }) ||
          all(with, [&](const Json &each) { return isApart(made, each, depth + 1); }))
        return true;
    }
    auto mine = valuesOf(made), theirs = valuesOf(with);
    std::vector<std::string> types = typesOf(made), others = typesOf(with);
    auto isOf = [&](const Json &value, const std::vector<std::string> &of) {
      return std::ranges::any_of(of, [&](auto &type) { return type == "any" || is(value, type); });
    };
    if (mine)
      return std::ranges::none_of(*mine, [&](const Json &value) {
        return theirs ? std::ranges::find(*theirs, value) != theirs->end() : isOf(value, others);
      });
    if (theirs)
      return std::ranges::none_of(*theirs, [&](const Json &value) { return isOf(value, types); });
    bool isShared = std::ranges::any_of(types, [&](const std::string &type) {
      return std::ranges::any_of(others, [&](const std::string &one) {
        bool areNumbers = type.ends_with("er") && one.ends_with("er"); // integer, number
        return type == one || type == "any" || one == "any" || areNumbers;
      });
    });
    if (!isShared)
      return true;
    return types.size() == 1 && types == others && types[0] == "object" &&
           areObjectsApart(made, with, depth);
  }

  /// By a property that one has and the other can't, or of which they say different things.
  bool areObjectsApart(const Json &made, const Json &with, int depth) const {
    auto properties = [](const Json &of) { return of.value("properties", Json::object()); };
    auto required = [](const Json &of) { return of.value("required", Json::array()); };
    Json mine = properties(made), theirs = properties(with), needed = required(made);
    auto has = [](const Json &list, const Json &name) {
      return std::ranges::find(list, name) != list.end();
    };
    for (const Json &name : required(with)) // none but the properties are written
      if (name.is_string() && !mine.empty() && !mine.contains(name) && !has(needed, name))
        return true;
    for (const Json &name : needed) {
      if (!name.is_string())
        continue;
      if (!theirs.contains(name) && with.value("additionalProperties", Json(true)) == Json(false))
        return true;
      if (mine.contains(name) && theirs.contains(name) &&
          isApart(mine[name.get<std::string>()], theirs[name.get<std::string>()], depth + 1))
        return true;
    }
    return false;
  }

  static std::optional<std::vector<Json>> valuesOf(const Json &schema) {
    if (schema.contains("const"))
      return std::vector<Json>{schema["const"]};
    if (schema.contains("enum") && schema["enum"].is_array())
      return schema["enum"].get<std::vector<Json>>();
    return std::nullopt;
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
      return {schema.contains("minLength") || schema.contains("maxLength") ||
                      schema.contains("pattern")
                  ? "string"
                  : "any"};
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
      return stringOf(schema);
    if (type == "integer" && hasBounds(schema))
      return integerOf(schema);
    if ((type == "number" || type == "any") && hasBounds(schema))
      failUsage(fmt::format("the schema's 'minimum' and 'maximum' are kept to for the type "
                            "'integer', not for '{}'",
                            type));
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

  int stringOf(const Json &schema) {
    auto pattern = schema.find("pattern");
    std::string_view written;
    if (pattern != schema.end()) {
      if (!pattern->is_string())
        failUsage("the schema's 'pattern' is a regular expression");
      written = pattern->get_ref<const std::string &>();
    } else if (auto format = schema.find("format"); format != schema.end() && format->is_string())
      written = patternOfFormat(format->get_ref<const std::string &>());
    bool isCounted = schema.contains("minLength") || schema.contains("maxLength");
    if (written.data() == nullptr || (written.empty() && pattern == schema.end()))
      return stringOf(count(schema, "minLength", 0), count(schema, "maxLength", -1));
    if (isCounted)
      failUsage("the schema's 'minLength' and 'maxLength' can't be kept to beside a 'pattern' or a "
                "'format' that is one; say them by its repetitions");
    return rule({{byteOf('"'), call(patternRule(grammar, written)), byteOf('"')}});
  }

  static constexpr const char *kBounds[] = {"minimum", "maximum", "exclusiveMinimum",
                                            "exclusiveMaximum"};
  static bool hasBounds(const Json &schema) {
    return std::ranges::any_of(kBounds, [&](const char *key) { return schema.contains(key); });
  }
  int integerOf(const Json &schema) {
    int64_t least = -kMostInteger, most = kMostInteger;
    for (const char *key : kBounds) {
      auto bound = schema.find(key);
      if (bound == schema.end())
        continue;
      if (!bound->is_number())
        failUsage(fmt::format("the schema's '{}' is a number", key));
      auto value = bound->get<double>();
      bool isLeast = std::string_view(key).ends_with("inimum"), isOpen = *key == 'e';
      double whole = isLeast ? std::ceil(value) : std::floor(value);
      if (isOpen && whole == value)
        whole += isLeast ? 1 : -1;
      // A bound that no integer that is written keeps to; one that they all keep to says nothing.
      if (isLeast ? whole > double(kMostInteger) : whole < -double(kMostInteger))
        failUsage(
            fmt::format("the schema's '{}' {} can't be kept to here: integers are from {} to {}",
                        key, bound->dump(), -kMostInteger, kMostInteger));
      auto number = int64_t(std::clamp(whole, -double(kMostInteger), double(kMostInteger)));
      if (isLeast)
        least = std::max(least, number);
      else
        most = std::min(most, number);
    }
    if (least > most)
      failUsage("no integer is as large and as small as the schema asks for");
    return integerRule(grammar, least, most);
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

  static constexpr int kMostDepth = 200, kMostApart = 20;
  static constexpr int64_t kMostPairs = 20000;
  const Json &root_;
  int depth_ = 0;
  mutable int64_t pairs_ = 0; // of schemas that were held against one another
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
