// A program's text in the language's one layout through the C API; see frontends/text/Printer.cpp.
#include <tensmith/compiler.h>

#include "frontends/text/Ast.h"

#include <cstdlib>
#include <cstring>
#include <exception>

using namespace tensmith;

namespace {

ts_status *format(const std::string &program, const std::string &name, char **formatted) {
  std::vector<text::Message> messages;
  std::vector<text::Comment> comments;
  text::Module module = text::parse(program, messages, &comments);
  if (!messages.empty()) {
    const text::Message &first = messages[0];
    std::string said = name + ":" + std::to_string(first.place.line) + ":" +
                       std::to_string(first.place.column) + ": " + first.text;
    return ts_status_create(TS_INVALID_MODEL, said.c_str());
  }
  std::string result = text::print(module, comments);
  *formatted = static_cast<char *>(std::malloc(result.size() + 1));
  if (!*formatted)
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  std::memcpy(*formatted, result.c_str(), result.size() + 1);
  return nullptr;
}

} // namespace

ts_status *ts_format_program(const char *program, size_t size, const char *name, char **formatted) {
  if ((!program && size) || !name || !formatted)
    return ts_status_create(TS_INVALID_ARGUMENT, "the program, its name or the result is null");
  *formatted = nullptr;
  try {
    return format(std::string(program ? program : "", size), name, formatted);
  } catch (const std::exception &error) {
    return ts_status_create(TS_INTERNAL, error.what());
  }
}
