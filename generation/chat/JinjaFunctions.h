// Filters, tests, methods and functions of templates: those of Jinja and Python that templates of
// chats use. Others are refused by their names.
#pragma once

#include "generation/chat/JinjaValues.h"

#include <map>

namespace tensmith::generation::jinja {

struct Arguments {
  std::vector<Value> values;
  std::map<std::string, Value> named;
};

Value filter(const std::string &name, const Value &of, const Arguments &given, Work &work);
bool test(const std::string &name, const Value &of, const Arguments &given, Work &work);
/// self.name(...).
Value method(const std::string &name, const Value &self, const Arguments &given, Work &work);
/// name(...).
Value function(const std::string &name, const Arguments &given, Work &work);

} // namespace tensmith::generation::jinja
