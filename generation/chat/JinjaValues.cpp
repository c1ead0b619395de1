// Values of templates; see JinjaValues.h.
#include "generation/chat/JinjaValues.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::generation::jinja {
namespace {

constexpr int64_t kMostWork = 1 << 22; // steps, and sixteenths of the bytes that they make
constexpr size_t kNode = 64;           // bytes of a value in another one, about

/// Where each character begins, and the text's end. Bytes that are no UTF-8 stand for themselves.
std::vector<size_t> charactersOf(const std::string &text, Work &work) {
  work.charge(8 * text.size());
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i)
    if ((uint8_t(text[i]) & 0xc0) != 0x80)
      begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

Value arithmetic(const std::string &op, const Value &left, const Value &right, Work &work) {
  bool areWhole = left->is_number_integer() && right->is_number_integer();
  bool divides = op == "/" || op == "//" || op == "%";
  if (divides && right->get<double>() == 0)
    work.fail("a division by 0");
  if (areWhole && op != "/") {
    int64_t a = *left, b = *right, result = 0;
    bool overflows = op == "+"   ? __builtin_add_overflow(a, b, &result)
                     : op == "-" ? __builtin_sub_overflow(a, b, &result)
                     : op == "*" ? __builtin_mul_overflow(a, b, &result)
                                 : b == -1 && a == INT64_MIN;
    if (overflows)
      work.fail("a number is too large");
    if (divides) { // rounded down, as the rest is
      int64_t rest = a % b;
      bool isBelow = rest && (rest < 0) != (b < 0);
      result = op == "%" ? rest + (isBelow ? b : 0) : a / b - (isBelow ? 1 : 0);
    }
    return valueOf(result);
  }
  double a = *left, b = *right;
  return valueOf(op == "+"    ? a + b
                 : op == "-"  ? a - b
                 : op == "*"  ? a * b
                 : op == "/"  ? a / b
                 : op == "//" ? std::floor(a / b)
                              : a - std::floor(a / b) * b);
}

Value joined(const std::string &a, const std::string &b, Work &work) {
  work.charge(a.size() + b.size());
  return valueOf(a + b);
}

} // namespace

const Value kUndefined = std::make_shared<const Json>(Json::value_t::discarded);

void Work::fail(const std::string &what) const {
  throw Failure(fmt::format("line {}: {}", line, what));
}

void Work::charge(size_t bytes) {
  done += 1 + int64_t(bytes / 16);
  if (done > kMostWork)
    fail("the template does too much");
}

void Work::chargeCopy(const Json &json) {
  charge(kNode + (json.is_string() ? json.get_ref<const std::string &>().size() : 0));
  if (json.is_structured())
    for (const auto &[key, value] : json.items())
      charge(json.is_object() ? key.size() : 0), chargeCopy(value);
}

Value valueOf(Json json) { return std::make_shared<const Json>(std::move(json)); }

bool isTrue(const Value &v) {
  if (v->is_boolean())
    return v->get<bool>();
  if (v->is_number())
    return v->get<double>() != 0;
  if (v->is_string())
    return !v->get_ref<const std::string &>().empty();
  return v->is_structured() && !v->empty();
}

bool areEqual(const Value &a, const Value &b) {
  return isUndefined(a) || isUndefined(b) ? isUndefined(a) && isUndefined(b) : *a == *b;
}

const char *kindOf(const Value &v) {
  return isUndefined(v) ? "value that is not there" : v->is_array() ? "list" : v->type_name();
}

std::string textOf(const Value &v, Work &work) {
  if (isUndefined(v))
    return "";
  if (v->is_string()) {
    work.charge(v->get_ref<const std::string &>().size());
    return *v;
  }
  if (v->is_null())
    return "None";
  if (v->is_boolean())
    return v->get<bool>() ? "True" : "False";
  if (v->is_structured())
    work.fail(fmt::format("a {} is written as text; use tojson", kindOf(v)));
  return v->dump();
}

Json copied(const Value &value, Work &work) {
  if (isUndefined(value))
    return nullptr;
  work.chargeCopy(*value);
  return *value;
}

int64_t lengthOf(const Value &v, Work &work) {
  if (v->is_string())
    return int64_t(charactersOf(*v, work).size()) - 1;
  if (!v->is_structured())
    work.fail(fmt::format("a {} has no length", kindOf(v)));
  return int64_t(v->size());
}

std::vector<Value> itemsOf(const Value &of, Work &work) {
  std::vector<Value> items;
  if (of->is_array()) {
    work.charge(kNode * of->size());
    for (const Json &item : *of)
      items.push_back(Value(of, &item));
  } else if (of->is_object()) {
    work.chargeCopy(*of);
    for (const auto &[key, value] : of->items())
      items.push_back(valueOf(key));
  } else if (!isUndefined(of)) {
    work.fail(fmt::format("a loop goes over a list or an object, not over a {}", kindOf(of)));
  }
  return items;
}

Value itemOf(const Value &of, const Value &which, Work &work) {
  if (of->is_object() && which->is_string()) {
    work.charge(of->size());
    auto found = of->find(which->get_ref<const std::string &>());
    return found == of->end() ? kUndefined : Value(of, &*found);
  }
  if ((of->is_array() || of->is_string()) && which->is_number_integer()) {
    int64_t index = *which, size = lengthOf(of, work);
    index += index < 0 ? size : 0;
    if (index < 0 || index >= size)
      return kUndefined;
    return of->is_array() ? Value(of, &(*of)[size_t(index)])
                          : sliceOf(of, index, index + 1, 1, work);
  }
  if (isUndefined(of))
    work.fail(fmt::format("'{}' is asked of what is not there", textOf(which, work)));
  return kUndefined;
}

/// By Python's rule: ends that lie outside are moved to the nearest place there is.
Value sliceOf(const Value &of, std::optional<int64_t> first, std::optional<int64_t> end,
              int64_t step, Work &work) {
  if (!of->is_array() && !of->is_string())
    work.fail(fmt::format("a slice is of a list or a text, not of a {}", kindOf(of)));
  if (step == 0)
    work.fail("the step of a slice is not 0");
  std::vector<size_t> begins;
  if (of->is_string())
    begins = charactersOf(*of, work);
  int64_t size = of->is_string() ? int64_t(begins.size()) - 1 : int64_t(of->size());
  auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at)
      return otherwise;
    int64_t from = *at < 0 ? std::max<int64_t>(*at, -size - 1) + size : std::min(*at, size);
    return std::clamp<int64_t>(from, step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
  };
  int64_t from = place(first, step < 0 ? size - 1 : 0), to = place(end, step < 0 ? -1 : size);
  step = std::clamp<int64_t>(step, -size - 1, size + 1);
  Json items = Json::array();
  std::string text;
  for (int64_t i = from; step < 0 ? i > to : i < to; i += step)
    if (of->is_array()) {
      work.chargeCopy((*of)[size_t(i)]);
      items.push_back((*of)[size_t(i)]);
    } else {
      const auto &whole = of->get_ref<const std::string &>();
      text.append(whole, begins[size_t(i)], begins[size_t(i) + 1] - begins[size_t(i)]);
    }
  return of->is_array() ? valueOf(std::move(items)) : valueOf(text);
}

bool contains(const Value &in, const Value &what, Work &work) {
  work.chargeCopy(*in);
  if (in->is_string() && what->is_string())
    return in->get_ref<const std::string &>().find(what->get_ref<const std::string &>()) !=
           std::string::npos;
  if (in->is_object())
    return what->is_string() && in->contains(what->get_ref<const std::string &>());
  if (in->is_array())
    return std::ranges::find(*in, *what) != in->end();
  if (isUndefined(in))
    return false;
  work.fail("'in' is of a text, a list or an object");
}

Value binary(const std::string &op, const Value &left, const Value &right, Work &work) {
  if (op == "==" || op == "!=") {
    work.chargeCopy(*left);
    return valueOf(areEqual(left, right) == (op == "=="));
  }
  if (op == "in")
    return valueOf(contains(right, left, work));
  if (op == "~")
    return joined(textOf(left, work), textOf(right, work), work);
  if (op == "+" && left->is_string() && right->is_string())
    return joined(*left, *right, work);
  if (op == "+" && left->is_array() && right->is_array()) {
    Json both = copied(left, work), more = copied(right, work);
    for (Json &item : more)
      both.push_back(std::move(item));
    return valueOf(std::move(both));
  }
  bool areNumbers = left->is_number() && right->is_number();
  bool compares = op[0] == '<' || op[0] == '>';
  if (!areNumbers && !(compares && left->is_string() && right->is_string()))
    work.fail(fmt::format("'{}' is not of a {} and a {}", op, kindOf(left), kindOf(right)));
  if (op == "<" || op == ">=")
    return valueOf((*left < *right) == (op == "<"));
  if (op == ">" || op == "<=")
    return valueOf((*left > *right) == (op == ">"));
  return arithmetic(op, left, right, work);
}

} // namespace tensmith::generation::jinja
