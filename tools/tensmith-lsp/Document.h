// What an editor asks of a text that is open in it, whatever language it is of.
#pragma once

#include "base/Tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tensmith::lsp {

using Json = nlohmann::json;

/// The protocol counts from 0.
inline Json positionOf(Place place) {
  return {{"line", place.line ? place.line - 1 : 0},
          {"character", place.column ? place.column - 1 : 0}};
}
inline Json rangeOf(Place place, size_t length) {
  Place end = place;
  end.column += uint32_t(length);
  return {{"start", positionOf(place)}, {"end", positionOf(end)}};
}
inline bool isAt(Place a, Place b) {
  return a.line == b.line && a.column == b.column && a.file == b.file;
}

class Document {
public:
  Document(std::string text, std::vector<Token> tokens)
      : text_(std::move(text)), tokens_(std::move(tokens)) {}
  virtual ~Document() = default;

  virtual Json diagnostics() const = 0;
  virtual Json completion(uint32_t line, uint32_t character) = 0;
  /// One edit for all of it; null where it can't be read.
  virtual Json formatting() const = 0;

  Json hover(uint32_t line, uint32_t character) {
    for (const Token &token : tokens_) {
      bool here = token.kind == Token::Kind::Word && token.place.line == line + 1 &&
                  token.place.column <= character + 1 &&
                  character + 1 < token.place.column + token.text.size();
      std::string said = here ? describeWord(token) : "";
      if (!said.empty())
        return {{"contents", {{"kind", "plaintext"}, {"value", said}}},
                {"range", rangeOf(token.place, token.text.size())}};
    }
    return nullptr;
  }

protected:
  /// What is known of a word; empty: nothing.
  virtual std::string describeWord(const Token &token) = 0;

  size_t lengthAt(Place place) const {
    for (const Token &token : tokens_)
      if (isAt(token.place, place))
        return std::max<size_t>(1, token.text.size());
    return 1;
  }
  Json messageAt(Place place, const std::string &text) const {
    return {{"range", rangeOf(place, lengthAt(place))},
            {"severity", 1},
            {"source", "tensmith"},
            {"message", text}};
  }
  Json replacedBy(const std::string &formatted) const {
    Place end{uint32_t(std::count(text_.begin(), text_.end(), '\n')) + 2, 1};
    return Json::array({{{"range", {{"start", positionOf({1, 1})}, {"end", positionOf(end)}}},
                         {"newText", formatted}}});
  }
  static void add(Json &items, std::string_view label, int kind, const std::string &detail) {
    items.push_back({{"label", label}, {"kind", kind}, {"detail", detail}});
  }

  std::string text_;
  std::vector<Token> tokens_;
};

} // namespace tensmith::lsp
