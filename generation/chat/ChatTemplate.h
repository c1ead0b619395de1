// A chat's messages as the text that a model was trained on: the template of its file, which is a
// program in the language of Jinja2.
//
// Of that language there is what templates of chats are written in: texts and expressions, if, for,
// set, macros, namespaces; tests, filters and methods of texts, lists and objects. Anything else is
// refused by its name and its line when the template is read, or when it is met. A template reaches
// the variables that it is given and nothing else: no file, no clock, no code. It takes bounded
// time, memory and stack. Source: the template designer's documentation of Jinja 3; templates are
// read with trim_blocks and lstrip_blocks, as by those who train models.
#pragma once

#include "generation/chat/JinjaSyntax.h"

#include <nlohmann/json_fwd.hpp>

namespace tensmith::generation {

class ChatTemplate {
public:
  /// Throws Failure, with the line.
  static ChatTemplate parse(const std::string &source);
  /// `variables` is an object, whose nesting the caller has bounded. Throws Failure, with the line;
  /// so does what the template refuses by raise_exception.
  std::string render(const nlohmann::ordered_json &variables) const;

private:
  std::shared_ptr<const jinja::Statements> statements_;
};

} // namespace tensmith::generation
