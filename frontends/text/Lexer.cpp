// The signs of the language; `//` begins a comment.
#include "frontends/text/Lexer.h"

namespace tensmith::text {

std::vector<Token> tokenize(const std::string &text, std::vector<Message> &messages,
                            std::vector<Comment> *comments, uint32_t file) {
  constexpr std::string_view kPairs[] = {"->", "=>", "==", "!=", "<=", ">=", "&&", "||", ":="};
  LexicalRules rules{"//", "()[]{},;:=+-*/@%<>!|?", kPairs};
  rules.prefix = kOperatorPrefix;
  return tensmith::tokenize(text, rules, messages, comments, file);
}

} // namespace tensmith::text
