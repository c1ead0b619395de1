// A program's text in the language's one layout through the C API; see frontends/text/Printer.cpp.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "frontends/comprehension/Import.h"
#include "frontends/text/Ast.h"

using namespace tensmith;

ts_status *ts_format_program(const char *program, size_t size, const char *name, char **formatted) {
  return guarded([&]() -> Status {
    if ((!program && size) || !name || !formatted)
      return invalidArgument("the program, its name or the result is null");
    *formatted = nullptr;
    if (std::string_view(name).ends_with(".tc")) {
      auto text = comprehension::format(std::string(program ? program : "", size), name);
      return text.ok() ? copyText(*text, formatted) : text.status();
    }
    std::vector<text::Message> messages;
    std::vector<text::Comment> comments;
    text::Module module =
        text::parse(std::string(program ? program : "", size), messages, &comments);
    if (messages.empty())
      return copyText(text::print(module, comments), formatted);
    const text::Message &first = messages[0];
    return {StatusCode::InvalidModel, std::string(name) + ":" + std::to_string(first.place.line) +
                                          ":" + std::to_string(first.place.column) + ": " +
                                          first.text};
  });
}

ts_status *ts_describe_comprehensions(const char *text, size_t size, const char *name,
                                      char **json) {
  return guarded([&]() -> Status {
    if ((!text && size) || !name || !json)
      return invalidArgument("the text, its name or the result is null");
    *json = nullptr;
    auto described = comprehension::describe(std::string(text ? text : "", size), name);
    return described.ok() ? copyText(*described, json) : described.status();
  });
}
