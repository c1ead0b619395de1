// Values of templates of chats, and what operators make of them.
//
// Values are JSON, shared and never changed: a part of a value is a pointer into it. What is not
// there is a value, too (`kUndefined`), as in Jinja: it is false, empty text, and has no parts.
// Texts are counted, indexed and sliced by characters. Work is counted as it is done, so that time
// and memory are bounded: whatever copies a value pays for all that is in it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::generation::jinja {

using Json = nlohmann::ordered_json;
using Value = std::shared_ptr<const Json>;

extern const Value kUndefined;

/// What a template has done, and where it is.
struct Work {
  int64_t done = 0;
  int line = 1;

  /// Throws Failure, with the line.
  [[noreturn]] void fail(const std::string &what) const;
  /// A step, and so many bytes that it makes. Throws Failure where that is too much.
  void charge(size_t bytes = 0);
  /// A copy of all that is in a value.
  void chargeCopy(const Json &json);
};

Value valueOf(Json json);
inline bool isUndefined(const Value &value) { return value->is_discarded(); }
bool isTrue(const Value &value);
bool areEqual(const Value &a, const Value &b);
const char *kindOf(const Value &value);

/// As it is written. Lists and objects are not: Python's form of them is nobody's wish.
std::string textOf(const Value &value, Work &work);
/// A value to be put into another one; null for what is not there.
Json copied(const Value &value, Work &work);
/// Characters of a text, entries of others.
int64_t lengthOf(const Value &value, Work &work);
/// What a loop goes over.
std::vector<Value> itemsOf(const Value &of, Work &work);
/// of[which], or of.which; kUndefined where there is none.
Value itemOf(const Value &of, const Value &which, Work &work);
/// of[first:end:step].
Value sliceOf(const Value &of, std::optional<int64_t> first, std::optional<int64_t> end,
              int64_t step, Work &work);
bool contains(const Value &in, const Value &what, Work &work);
/// Any operator but `and` and `or`.
Value binary(const std::string &op, const Value &left, const Value &right, Work &work);

} // namespace tensmith::generation::jinja
