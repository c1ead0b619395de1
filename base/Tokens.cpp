// Words, numbers, strings and signs; what is a sign and what begins a comment is a language's own.
#include "base/Tokens.h"

#include <cctype>

namespace tensmith {
namespace {

class Lexer {
public:
  Lexer(const std::string &text, const LexicalRules &rules, std::vector<Message> &messages,
        std::vector<Comment> *comments, uint32_t file)
      : text_(text), rules_(rules), messages_(messages), comments_(comments), file_(file) {}

  std::vector<Token> run() {
    for (skipBlank(); at_ < text_.size(); skipBlank())
      next();
    tokens_.push_back({Token::Kind::End, place(at_), "the end of the file"});
    return std::move(tokens_);
  }

private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool startsWith(std::string_view sign) const {
    return std::string_view(text_).substr(at_, sign.size()) == sign;
  }
  static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  Place place(size_t at) const { return {line_, uint32_t(at - lineBegin_) + 1, file_}; }

  void skipBlank() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') {
        ++line_;
        lineBegin_ = ++at_;
      } else if (startsWith(rules_.comment)) {
        comment();
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  void comment() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '\n')
      ++at_;
    if (!comments_)
      return;
    std::string text = text_.substr(begin, at_ - begin);
    text.erase(text.find_last_not_of(" \t\r\v\f") + 1);
    bool trailing = !tokens_.empty() && tokens_.back().place.line == line_;
    comments_->push_back({place(begin), std::move(text), trailing});
  }

  void add(Token::Kind kind, size_t begin) {
    tokens_.push_back({kind, place(begin), text_.substr(begin, at_ - begin)});
  }

  void next() {
    size_t begin = at_;
    if (isDigit(peek()))
      return number();
    for (std::string_view sign : rules_.wordSigns)
      if (startsWith(sign)) {
        at_ += sign.size();
        return add(Token::Kind::Sign, begin);
      }
    if (isWord(peek())) {
      while (isWord(peek()))
        ++at_;
      if (!rules_.prefix.empty() && isWord(peek(1)) &&
          std::string_view(text_).substr(begin, at_ - begin + 1) == rules_.prefix)
        for (++at_; isWord(peek());)
          ++at_;
      return add(Token::Kind::Word, begin);
    }
    if (rules_.hasStrings && peek() == '"')
      return string();
    for (std::string_view sign : rules_.longSigns)
      if (startsWith(sign)) {
        at_ += sign.size();
        return add(Token::Kind::Sign, begin);
      }
    ++at_;
    if (rules_.signs.find(text_[begin]) != std::string_view::npos)
      return add(Token::Kind::Sign, begin);
    messages_.push_back({place(begin), "this character begins nothing in the language"});
  }

  void number() {
    size_t begin = at_;
    bool real = false;
    while (isDigit(peek()))
      ++at_;
    if (peek() == '.' && isDigit(peek(1))) {
      real = true;
      for (++at_; isDigit(peek());)
        ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
      size_t digits = peek(1) == '-' || peek(1) == '+' ? 2 : 1;
      if (isDigit(peek(digits))) {
        real = true;
        for (at_ += digits; isDigit(peek());)
          ++at_;
      }
    }
    add(real ? Token::Kind::Real : Token::Kind::Integer, begin);
  }

  void string() {
    size_t begin = at_++;
    while (at_ < text_.size() && peek() != '"' && peek() != '\n')
      ++at_;
    tokens_.push_back(
        {Token::Kind::String, place(begin), text_.substr(begin + 1, at_ - begin - 1)});
    if (peek() == '"')
      ++at_;
    else
      messages_.push_back({place(begin), "this string has no end; close it with '\"'"});
  }

  const std::string &text_;
  const LexicalRules &rules_;
  std::vector<Message> &messages_;
  std::vector<Comment> *comments_;
  std::vector<Token> tokens_;
  size_t at_ = 0, lineBegin_ = 0;
  uint32_t line_ = 1, file_;
};

} // namespace

std::vector<Token> tokenize(const std::string &text, const LexicalRules &rules,
                            std::vector<Message> &messages, std::vector<Comment> *comments,
                            uint32_t file) {
  return Lexer(text, rules, messages, comments, file).run();
}

} // namespace tensmith
