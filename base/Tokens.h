// From characters to tokens, for the languages that programs are written in.
//
// They differ in their signs and in what begins a comment (LexicalRules); places, messages and
// comments are the same for all, and so are the tools that show them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensmith {

/// From 1 on; columns count bytes. `file`: of those that a program is made of, 0 its own.
struct Place {
  uint32_t line = 0, column = 0, file = 0;
};

struct Message {
  Place place;
  std::string text;
};

/// Up to the end of the line, with what begins it.
struct Comment {
  Place place;
  std::string text;
  bool trailing = false; // something stands before it on the line
};

struct Token {
  enum class Kind : uint8_t { End, Word, Integer, Real, String, Sign } kind = Kind::End;
  Place place;
  std::string text;
};

struct LexicalRules {
  std::string_view comment;                      // what begins one: "//"
  std::string_view signs;                        // of one character
  std::span<const std::string_view> longSigns;   // of several, a longer one before its beginnings
  std::span<const std::string_view> wordSigns{}; // that begin as words do: "min="
  std::string_view prefix{};                     // a word that ends with it goes on: "graph."
  bool hasStrings = true;                        // in double quotes, of one line
};

/// "1 argument", "2 arguments".
inline std::string counted(size_t count, const std::string &what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

/// The tokens, the last of which is the end. What is no token is told of and left out.
std::vector<Token> tokenize(const std::string &text, const LexicalRules &rules,
                            std::vector<Message> &messages,
                            std::vector<Comment> *comments = nullptr, uint32_t file = 0);

/// What a parser reads tokens by. Each language has its own grammar, and its own words for what was
/// expected.
class TokenReader {
public:
  TokenReader(std::vector<Token> tokens, std::vector<Message> &messages)
      : tokens_(std::move(tokens)), messages_(messages) {}

protected:
  struct Failure {}; // a declaration is given up; its message has been left

  const Token &token(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  /// Of the token that was read last.
  Place last() const { return tokens_[at_ ? at_ - 1 : 0].place; }
  bool is(std::string_view text) const {
    return token().text == text &&
           (token().kind == Token::Kind::Sign || token().kind == Token::Kind::Word);
  }
  bool accept(std::string_view text) {
    bool found = is(text);
    at_ += found;
    return found;
  }
  [[noreturn]] void fail(Place place, std::string text) {
    messages_.push_back({place, std::move(text)});
    throw Failure();
  }

  std::vector<Token> tokens_;
  std::vector<Message> &messages_;
  size_t at_ = 0;
};

} // namespace tensmith
