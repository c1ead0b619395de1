// Filters, tests, methods and functions; see JinjaFunctions.h.
#include "generation/chat/JinjaFunctions.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace tensmith::generation::jinja {
namespace {

constexpr const char *kSpaces = " \t\r\n\f\v";

std::string textAt(const Arguments &given, size_t i, const std::string &otherwise, Work &work) {
  return i < given.values.size() ? textOf(given.values[i], work) : otherwise;
}

std::string trimmed(const std::string &text, const std::string &of, bool left, bool right) {
  size_t begin = left ? text.find_first_not_of(of) : 0;
  if (begin == std::string::npos)
    return "";
  size_t end = right ? text.find_last_not_of(of) + 1 : text.size();
  return text.substr(begin, end - begin);
}

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// ASCII's letters; whoever writes templates changes the case of roles and names.
std::string inCase(std::string text, bool isUpper) {
  for (char &c : text)
    if (isLetter(c))
      c = char(isUpper ? c & ~0x20 : c | 0x20);
  return text;
}

std::string capitalised(const std::string &text) {
  return inCase(text.substr(0, 1), true) + (text.empty() ? "" : inCase(text.substr(1), false));
}

std::string titled(std::string text) {
  bool isInside = false;
  for (char &c : text) {
    c = inCase(std::string(1, c), !isInside)[0];
    isInside = isLetter(c);
  }
  return text;
}

std::string replaced(const std::string &text, const Arguments &given, Work &work) {
  std::string from = textAt(given, 0, "", work), to = textAt(given, 1, "", work);
  if (given.values.size() != 2 || from.empty())
    work.fail("replace has what is replaced, which is not empty, and by what");
  work.charge(text.size() / from.size() * to.size());
  std::string result;
  size_t at = 0;
  for (size_t next; (next = text.find(from, at)) != std::string::npos; at = next + from.size())
    result += text.substr(at, next - at) + to;
  return result + text.substr(at);
}

// ---- JSON

struct JsonForm {
  int indent = -1; // -1: in one line
};

std::string scalar(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// As Python writes it, with spaces behind commas and colons.
void writeJson(const Json &json, const JsonForm &form, int depth, std::string &to, Work &work) {
  work.charge(json.is_string() ? json.get_ref<const std::string &>().size() : 0);
  if (!json.is_structured() || json.empty()) {
    to += scalar(json);
    return;
  }
  auto breakLine = [&](int deep) {
    if (form.indent >= 0)
      work.charge(size_t(form.indent * deep)), to += '\n',
          to.append(size_t(form.indent * deep), ' ');
  };
  bool isObject = json.is_object(), isFirst = true;
  to += isObject ? '{' : '[';
  for (const auto &[key, value] : json.items()) {
    to += std::exchange(isFirst, false) ? "" : form.indent < 0 ? ", " : ",";
    breakLine(depth + 1);
    if (isObject)
      to += scalar(Json(key)) + ": ";
    writeJson(value, form, depth + 1, to, work);
  }
  breakLine(depth);
  to += isObject ? '}' : ']';
}

Value toJson(const Value &of, const Arguments &given, Work &work) {
  if (isUndefined(of))
    work.fail("tojson is of what is not there");
  JsonForm form;
  Value indent = given.values.empty() ? kUndefined : given.values[0];
  for (const auto &[name, value] : given.named) {
    if (name != "indent" && !(name == "ensure_ascii" && !isTrue(value)))
      work.fail(fmt::format("tojson({}=...) is not understood here", name));
    indent = name == "indent" ? value : indent;
  }
  if (indent->is_number_integer())
    form.indent = int(std::clamp<int64_t>(*indent, 0, 16));
  std::string json;
  writeJson(*of, form, 0, json, work);
  return valueOf(json);
}

// ---- Filters

Value textFilter(const std::string &name, const std::string &text, const Arguments &given,
                 Work &work) {
  if (name == "trim")
    return valueOf(trimmed(text, textAt(given, 0, kSpaces, work), true, true));
  if (name == "upper" || name == "lower")
    return valueOf(inCase(text, name == "upper"));
  if (name == "capitalize")
    return valueOf(capitalised(text));
  if (name == "title")
    return valueOf(titled(text));
  return valueOf(name == "replace" ? replaced(text, given, work) : text);
}

Value numberFilter(const std::string &name, const Value &of, Work &work) {
  double number =
      of->is_number() ? of->get<double>() : std::strtod(textOf(of, work).c_str(), nullptr);
  if (name == "abs")
    number = std::abs(number);
  if (name == "float" || (name == "abs" && !of->is_number_integer()))
    return valueOf(number);
  if (!(std::abs(number) < 9e15))
    work.fail("a number is too large");
  return valueOf(int64_t(number));
}

/// keys, values or items, in order.
Value entriesOf(const std::string &name, const Value &of, Work &work) {
  work.chargeCopy(*of);
  Json list = Json::array();
  if (of->is_object())
    for (const auto &[key, value] : of->items())
      list.push_back(name == "keys"     ? Json(key)
                     : name == "values" ? value
                                        : Json::array({key, value}));
  return valueOf(std::move(list));
}

Value joinedBy(const Value &of, const std::string &between, Work &work) {
  std::string result;
  for (size_t i = 0; i < of->size(); ++i) {
    result += (i ? between : "") + textOf(Value(of, &(*of)[i]), work);
    work.charge(between.size());
  }
  return valueOf(result);
}

/// Items for which a test holds, of themselves or of an attribute.
Value selected(const std::string &name, const Value &of, const Arguments &given, Work &work) {
  bool keeps = name.starts_with("select"), ofAttribute = name.ends_with("attr");
  if (ofAttribute && given.values.empty())
    work.fail(fmt::format("{} needs an attribute", name));
  size_t at = ofAttribute;
  std::string how = textAt(given, at, "", work);
  Arguments rest;
  for (size_t i = at + 1; i < given.values.size(); ++i)
    rest.values.push_back(given.values[i]);
  Json list = Json::array();
  for (const Json &each : *of) {
    Value value(of, &each);
    if (ofAttribute)
      value = itemOf(value, given.values[0], work);
    if ((how.empty() ? isTrue(value) : test(how, value, rest, work)) == keeps)
      list.push_back(copied(Value(of, &each), work));
  }
  return valueOf(std::move(list));
}

/// An attribute, or a filter, of each item.
Value mapped(const Value &of, const Arguments &given, Work &work) {
  auto attribute = given.named.find("attribute");
  if (attribute == given.named.end() && given.values.empty())
    work.fail("map needs a filter or attribute=...");
  Json list = Json::array();
  for (const Json &each : *of) {
    Value value(of, &each);
    value = attribute != given.named.end() ? itemOf(value, attribute->second, work)
                                           : filter(textOf(given.values[0], work), value, {}, work);
    list.push_back(copied(value, work));
  }
  return valueOf(std::move(list));
}

Value listFilter(const std::string &name, const Value &of, const Arguments &given, Work &work) {
  if (!of->is_array())
    work.fail(fmt::format("the filter '{}' of a {} is not to be had here", name, kindOf(of)));
  if (name == "first" || name == "last")
    return of->empty() ? kUndefined : Value(of, name == "first" ? &of->front() : &of->back());
  if (name == "join")
    return joinedBy(of, textAt(given, 0, "", work), work);
  if (name == "map")
    return mapped(of, given, work);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return selected(name, of, given, work);
  Json list = copied(of, work);
  if (name == "reverse")
    std::reverse(list.begin(), list.end());
  return valueOf(std::move(list));
}

// ---- Methods

Value split(const std::string &s, const Arguments &given, Work &work) {
  Json parts = Json::array();
  std::string by = textAt(given, 0, "", work);
  if (given.values.size() > 1 || !given.named.empty())
    work.fail("split with a number of parts is not to be had here");
  auto add = [&](size_t begin, size_t end) {
    parts.push_back(s.substr(begin, end - begin));
    work.chargeCopy(parts.back());
  };
  size_t at = 0;
  if (given.values.empty()) { // at whitespace
    for (; (at = s.find_first_not_of(kSpaces, at)) != std::string::npos;) {
      size_t end = std::min(s.find_first_of(kSpaces, at), s.size());
      add(at, end), at = end;
    }
    return valueOf(std::move(parts));
  }
  if (by.empty())
    work.fail("a text is not split at nothing");
  for (size_t next; (next = s.find(by, at)) != std::string::npos; at = next + by.size())
    add(at, next);
  add(at, s.size());
  return valueOf(std::move(parts));
}

Value textMethod(const std::string &name, const Value &self, const Arguments &given, Work &work) {
  const std::string &s = self->get_ref<const std::string &>();
  work.charge(s.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return valueOf(trimmed(s, textAt(given, 0, kSpaces, work), name != "rstrip", name != "lstrip"));
  if (name == "startswith" || name == "endswith") {
    std::string part = textAt(given, 0, "", work);
    return valueOf(name == "startswith" ? s.starts_with(part) : s.ends_with(part));
  }
  if (name == "split")
    return split(s, given, work);
  if (name == "replace" || name == "upper" || name == "lower" || name == "title" ||
      name == "capitalize")
    return textFilter(name, s, given, work);
  work.fail(fmt::format("a text has no '{}' here", name));
}

Value range(const Arguments &given, Work &work) {
  std::vector<int64_t> numbers;
  constexpr int64_t kMost = 1 << 20;
  for (const Value &value : given.values) {
    if (!value->is_number_integer() || *value < -kMost || *value > kMost)
      work.fail(fmt::format("range is of whole numbers up to {}", kMost));
    numbers.push_back(*value);
  }
  if (numbers.empty() || numbers.size() > 3 || (numbers.size() == 3 && !numbers[2]))
    work.fail("range is of one to three numbers, and its step is not 0");
  int64_t from = numbers.size() > 1 ? numbers[0] : 0,
          to = numbers.size() > 1 ? numbers[1] : numbers[0];
  int64_t step = numbers.size() > 2 ? numbers[2] : 1;
  Json list = Json::array();
  for (; step > 0 ? from < to : from > to; from += step)
    list.push_back(from), work.chargeCopy(list.back());
  return valueOf(std::move(list));
}

} // namespace

Value filter(const std::string &name, const Value &of, const Arguments &given, Work &work) {
  static const std::set<std::string> kOfTexts = {"trim",  "string", "safe",       "upper",
                                                 "lower", "title",  "capitalize", "replace"};
  static const std::set<std::string> kOfLists = {"first",  "last",      "join",   "map",
                                                 "list",   "reverse",   "select", "selectattr",
                                                 "reject", "rejectattr"};
  work.charge();
  if (name == "default" || name == "d") {
    bool isMissing =
        isUndefined(of) || (given.values.size() > 1 && isTrue(given.values[1]) && !isTrue(of));
    return !isMissing ? of : given.values.empty() ? valueOf("") : given.values[0];
  }
  if (kOfTexts.contains(name))
    return textFilter(name, textOf(of, work), given, work);
  if (name == "tojson")
    return toJson(of, given, work);
  if (name == "int" || name == "float" || name == "abs")
    return numberFilter(name, of, work);
  if (name == "length" || name == "count")
    return valueOf(isUndefined(of) ? 0 : lengthOf(of, work));
  if (name == "items")
    return entriesOf(name, of, work);
  if (kOfLists.contains(name))
    return listFilter(name, of, given, work);
  work.fail(fmt::format("the filter '{}' is not to be had here", name));
}

bool test(const std::string &name, const Value &of, const Arguments &given, Work &work) {
  work.charge();
  if (name == "defined" || name == "undefined")
    return isUndefined(of) == (name == "undefined");
  if (name == "none")
    return of->is_null();
  if (name == "string")
    return of->is_string();
  if (name == "number")
    return of->is_number() || of->is_boolean();
  if (name == "integer")
    return of->is_number_integer();
  if (name == "float")
    return of->is_number_float();
  if (name == "boolean")
    return of->is_boolean();
  if (name == "true" || name == "false")
    return of->is_boolean() && of->get<bool>() == (name == "true");
  if (name == "mapping")
    return of->is_object();
  if (name == "sequence" || name == "iterable")
    return of->is_structured() || of->is_string() || isUndefined(of);
  if ((name == "odd" || name == "even") && of->is_number_integer())
    return (of->get<int64_t>() % 2 != 0) == (name == "odd");
  if ((name == "equalto" || name == "eq" || name == "==") && given.values.size() == 1)
    return areEqual(of, given.values[0]);
  if (name == "in" && given.values.size() == 1)
    return contains(given.values[0], of, work);
  work.fail(fmt::format("the test '{}' is not to be had here", name));
}

Value method(const std::string &name, const Value &self, const Arguments &given, Work &work) {
  if (self->is_string())
    return textMethod(name, self, given, work);
  if (self->is_object() && (name == "items" || name == "keys" || name == "values"))
    return entriesOf(name, self, work);
  if (self->is_object() && name == "get" && !given.values.empty()) {
    Value found = itemOf(self, given.values[0], work);
    return !isUndefined(found)       ? found
           : given.values.size() > 1 ? given.values[1]
                                     : valueOf(nullptr);
  }
  work.fail(fmt::format("a {} has no '{}' here", kindOf(self), name));
}

Value function(const std::string &name, const Arguments &given, Work &work) {
  if (name == "raise_exception")
    throw Failure(textAt(given, 0, "the template refuses these messages", work));
  if (name == "range")
    return range(given, work);
  if (name != "namespace" && name != "dict")
    work.fail(fmt::format("the function '{}' is not to be had here", name));
  Json object = Json::object();
  for (const auto &[key, value] : given.named)
    object[key] = copied(value, work);
  return valueOf(std::move(object));
}

} // namespace tensmith::generation::jinja
