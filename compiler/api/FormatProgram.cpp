// A program's text in the language's one layout through the C API; see frontends/text/Printer.cpp.
#include <tensmith/compiler.h>

#include "compiler/api/Boundary.h"
#include "frontends/text/Ast.h"

using namespace tensmith;

ts_status *ts_format_program(const char *program, size_t size, const char *name, char **formatted) {
  return guarded([&]() -> Status {
    if ((!program && size) || !name || !formatted)
      return invalidArgument("the program, its name or the result is null");
    *formatted = nullptr;
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
