// From characters to tokens, for the languages that programs are written in.
//
// They differ in their signs and in what begins a comment (LexicalRules); places, messages and
// comments are the same for all, and so are the tools that show them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

} // namespace tensmith
