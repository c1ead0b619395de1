// Reading templates; see JinjaSyntax.h. First the source is cut into texts and tags, then tags are
// read by recursive descent, whose depth is bounded.
#include "generation/chat/JinjaSyntax.h"

#include "files/Failure.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace tensmith::generation::jinja {
namespace {

constexpr size_t kMostSource = 1 << 20;
constexpr int kMostDepth = 100;
constexpr int kMostOperands = 500; // within one another

[[noreturn]] void failAt(int line, const std::string &what) {
  throw Failure(fmt::format("line {}: {}", line, what));
}

struct Word {
  enum Kind { Name, Number, Text, Sign, End } kind = End;
  std::string text;
  int line = 0;
};

struct Piece {
  enum Kind { Text, Output, Tag } kind;
  std::string text;
  int line;
};

/// Texts, and what is within {{ }} and {% %}, with what signs of whitespace take away.
std::vector<Piece> cut(const std::string &source) {
  std::vector<Piece> pieces;
  int line = 1;
  // What the end of the last tag takes away: whitespace; one newline.
  bool trimsNext = false, trimsLine = false;
  auto addText = [&](std::string text, bool isFirst, bool trimsEnd, bool isTag) {
    int at = line;
    line += int(std::ranges::count(text, '\n'));
    size_t taken = trimsNext ? std::min(text.find_first_not_of(" \t\r\n"), text.size())
                             : size_t(trimsLine && text.starts_with("\n"));
    bool beginsLine = isFirst || (taken && text[taken - 1] == '\n');
    text.erase(0, taken);
    size_t lastLine = text.find_last_of('\n') + 1; // 0 where there is none
    if (trimsEnd)
      text.erase(text.find_last_not_of(" \t\r\n") + 1);
    else if (isTag && (lastLine || beginsLine) &&
             text.find_first_not_of(" \t", lastLine) == std::string::npos)
      text.resize(lastLine);
    if (!text.empty())
      pieces.push_back({Piece::Text, text, at});
  };
  for (size_t at = 0;;) {
    size_t open = at;
    do
      open = source.find('{', open);
    while (open != std::string::npos &&
           (open + 1 >= source.size() ||
            std::string_view("{%#").find(source[open + 1]) == std::string_view::npos) &&
           ++open);
    if (open == std::string::npos) {
      addText(source.substr(at), at == 0, false, false);
      return pieces;
    }
    char kind = source[open + 1];
    std::string close = kind == '{' ? "}}" : std::string(1, kind) + "}";
    size_t from = open + 2;
    bool trims = from < source.size() && source[from] == '-';
    bool keeps = from < source.size() && source[from] == '+';
    addText(source.substr(at, open - at), at == 0, trims, kind != '{' && !keeps);
    from += trims || keeps;
    // A text within a tag may hold its end.
    size_t end = from;
    for (char quote = 0; end < source.size(); ++end) {
      char c = source[end];
      if (quote)
        c == '\\' ? void(++end) : c == quote ? void(quote = 0) : void();
      else if (kind != '#' && (c == '\'' || c == '"'))
        quote = c;
      else if (source.compare(end, 2, close) == 0)
        break;
    }
    if (end >= source.size())
      failAt(line, fmt::format("'{{{}' has no end", kind));
    std::string inside = source.substr(from, end - from);
    trimsNext = inside.ends_with("-");
    trimsLine = kind != '{' && !inside.ends_with("+");
    if (trimsNext || inside.ends_with("+"))
      inside.pop_back();
    if (kind != '#')
      pieces.push_back({kind == '{' ? Piece::Output : Piece::Tag, inside, line});
    line += int(std::ranges::count(inside, '\n'));
    at = end + 2;
  }
}

std::vector<Word> wordsOf(const Piece &piece) {
  std::vector<Word> words;
  const std::string &s = piece.text;
  int line = piece.line;
  auto isName = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < s.size();) {
    char c = s[i];
    size_t begin = i;
    if (c == '\n' || std::isspace(static_cast<unsigned char>(c))) {
      line += c == '\n', ++i;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      while (i < s.size() && (std::isdigit(static_cast<unsigned char>(s[i])) ||
                              (s[i] == '.' && i + 1 < s.size() &&
                               std::isdigit(static_cast<unsigned char>(s[i + 1])))))
        ++i;
      words.push_back({Word::Number, s.substr(begin, i - begin), line});
    } else if (isName(c)) {
      while (i < s.size() && isName(s[i]))
        ++i;
      words.push_back({Word::Name, s.substr(begin, i - begin), line});
    } else if (c == '\'' || c == '"') {
      std::string text;
      for (++i; i < s.size() && s[i] != c; ++i) {
        if (s[i] != '\\' || i + 1 >= s.size()) {
          text += s[i];
          continue;
        }
        char escaped = s[++i];
        text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
      }
      ++i;
      words.push_back({Word::Text, text, line});
    } else {
      size_t size = 1;
      while (uint8_t(c) >= 0x80 && i + size < s.size() && (uint8_t(s[i + size]) & 0xc0) == 0x80)
        ++size;
      for (const char *two : {"==", "!=", "<=", ">=", "//", "**"})
        if (s.compare(i, 2, two) == 0)
          size = 2;
      words.push_back({Word::Sign, s.substr(i, size), line});
      i += size;
    }
  }
  words.push_back({Word::End, "", line});
  return words;
}

class Parser {
public:
  explicit Parser(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  Statements all() { return block({}); }

private:
  struct Depth {
    explicit Depth(Parser &parser) : parser(parser) {
      if (++parser.depth_ > kMostDepth)
        parser.fail("is nested too deep");
    }
    ~Depth() { --parser.depth_; }
    Parser &parser;
  };

  [[noreturn]] void fail(const std::string &what) { failAt(word().line, what); }

  // Statements.

  /// Up to a tag of one of those names, which is the next word; at the end of all where there are
  /// none.
  Statements block(const std::vector<std::string> &ends) {
    Depth depth(*this);
    Statements statements;
    while (next_ < pieces_.size()) {
      const Piece &piece = pieces_[next_++];
      if (piece.kind == Piece::Text) {
        statements.push_back({Statement::Text, piece.line, piece.text, {}, {}, {}, {}, {}, {}});
        continue;
      }
      words_ = wordsOf(piece), at_ = 0;
      if (piece.kind == Piece::Output) {
        statements.push_back({Statement::Output, piece.line, {}, {}, expression(), {}, {}, {}, {}});
        finish();
      } else if (std::ranges::find(ends, word().text) != ends.end()) {
        return statements;
      } else {
        tag(statements);
      }
    }
    if (!ends.empty())
      failAt(pieces_.empty() ? 1 : pieces_.back().line,
             fmt::format("'{}' is missing", ends.back()));
    return statements;
  }

  void tag(Statements &to) {
    int line = word().line;
    std::string name = take();
    if (name == "if") {
      to.push_back(condition(line));
    } else if (name == "for") {
      to.push_back(loop(line));
    } else if (name == "set") {
      to.push_back(assignment(line));
    } else if (name == "macro") {
      to.push_back(macro(line));
    } else if (name == "break" || name == "continue") {
      finish();
      to.push_back({name == "break" ? Statement::Break : Statement::Continue,
                    line,
                    {},
                    {},
                    {},
                    {},
                    {},
                    {},
                    {}});
    } else if (name == "generation" || name == "endgeneration") {
      finish(); // marks of what is learned
    } else {
      failAt(line, fmt::format("'{}' is no statement that is understood here", name));
    }
  }

  Statement condition(int line) {
    Depth depth(*this);
    Statement result{Statement::If, line, {}, {}, expression(), {}, {}, {}, {}};
    finish();
    result.body = block({"elif", "else", "endif"});
    std::string end = take();
    if (end == "elif") {
      result.otherwise.push_back(condition(line));
      return result;
    }
    finish();
    if (end == "else") {
      result.otherwise = block({"endif"});
      take(), finish();
    }
    return result;
  }

  Statement loop(int line) {
    Statement result{Statement::For, line, {}, {takeName()}, {}, {}, {}, {}, {}};
    while (accept(","))
      result.names.push_back(takeName());
    expect("in");
    result.value = orExpression();
    if (accept("if"))
      result.filter = expression();
    accept("recursive") ? fail("'recursive' is not understood here") : finish();
    result.body = block({"else", "endfor"});
    if (take() == "else") {
      finish();
      result.otherwise = block({"endfor"});
      take();
    }
    finish();
    return result;
  }

  Statement macro(int line) {
    Statement result{Statement::Macro, line, takeName(), {}, {}, {}, {}, {}, {}};
    expect("(");
    while (!accept(")")) {
      result.names.push_back(takeName());
      if (accept("="))
        result.defaults.push_back(expression());
      else if (!result.defaults.empty())
        fail("a parameter without a value follows one with");
      if (!isNext(")"))
        expect(",");
    }
    finish();
    result.body = block({"endmacro"});
    take();
    if (word().kind == Word::Name)
      take(); // its name again
    finish();
    return result;
  }

  Statement assignment(int line) {
    Statement result{Statement::Set, line, takeName(), {}, {}, {}, {}, {}, {}};
    if (accept(".")) {
      result.kind = Statement::SetAttribute;
      result.names.push_back(takeName());
    }
    if (word().kind == Word::End) {
      result.body = block({"endset"});
      take(), finish();
      return result;
    }
    expect("=");
    result.value = expression();
    finish();
    return result;
  }

  // Words.

  const Word &word() const { return words_[at_]; }
  std::string take() { return word().kind == Word::End ? "" : words_[at_++].text; }
  std::string takeName() {
    if (word().kind != Word::Name)
      fail(fmt::format("a name is missing before '{}'", word().text));
    return take();
  }
  bool isNext(std::string_view text) const {
    return word().kind != Word::Text && word().kind != Word::End && word().text == text;
  }
  bool accept(std::string_view text) {
    bool is = isNext(text);
    at_ += is;
    return is;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      fail(fmt::format("'{}' is missing before '{}'", text, word().text));
  }
  void finish() {
    if (word().kind != Word::End)
      fail(fmt::format("'{}' is not understood here", word().text));
  }

  // Expressions, the loosest operators first.

  ExpressionPtr make(Expression::Kind kind, std::string text, std::vector<ExpressionPtr> operands) {
    auto result = std::make_shared<Expression>();
    result->kind = kind, result->line = word().line, result->text = std::move(text);
    result->operands = std::move(operands);
    for (const ExpressionPtr &operand : result->operands)
      result->depth = std::max(result->depth, operand ? operand->depth + 1 : 1);
    if (result->depth > kMostOperands)
      fail("an expression is too long");
    return result;
  }

  ExpressionPtr expression() {
    Depth depth(*this);
    ExpressionPtr value = orExpression();
    if (!accept("if"))
      return value;
    ExpressionPtr condition = orExpression(), otherwise;
    if (accept("else"))
      otherwise = expression();
    return make(Expression::Choice, "", {condition, value, otherwise});
  }

  ExpressionPtr orExpression() { return chain(0); }

  /// Left to right, operators of equal strength.
  ExpressionPtr chain(size_t level) {
    static const std::vector<std::vector<std::string>> kLevels = {
        {"or"},
        {"and"},
        {},
        {"==", "!=", "<", ">", "<=", ">=", "in", "not"},
        {"+", "-"},
        {"~"},
        {"*", "/", "//", "%"}};
    if (level == kLevels.size())
      return unary();
    if (level == 2) { // not
      if (!accept("not"))
        return chain(3);
      Depth depth(*this);
      return make(Expression::Unary, "not", {chain(2)});
    }
    ExpressionPtr left = chain(level + 1);
    for (;;) {
      auto found =
          std::ranges::find_if(kLevels[level], [&](const std::string &op) { return isNext(op); });
      if (found == kLevels[level].end())
        return left;
      std::string op = take();
      if (op == "not") {
        expect("in");
        left = make(Expression::Unary, "not",
                    {make(Expression::Binary, "in", {left, chain(level + 1)})});
      } else {
        left = make(Expression::Binary, op, {left, chain(level + 1)});
      }
    }
  }

  /// A sign is within a filter: -2 | abs is 2.
  ExpressionPtr unary(bool isFiltered = true) {
    Depth depth(*this);
    ExpressionPtr value;
    if (accept("-"))
      value = make(Expression::Unary, "-", {unary(false)});
    else if (accept("+"))
      value = unary(false);
    else
      value = postfix(primary());
    return isFiltered ? filtered(value) : value;
  }

  ExpressionPtr filtered(ExpressionPtr value) {
    for (;;) {
      if (accept("|")) {
        value = named(Expression::Filter, takeName(), value);
      } else if (accept("is")) {
        bool negated = accept("not");
        value = named(Expression::Test, takeName(), value);
        if (negated)
          value = make(Expression::Unary, "not", {value});
      } else {
        return value;
      }
    }
  }

  /// A filter or test, with arguments in parentheses; a test's may stand without.
  ExpressionPtr named(Expression::Kind kind, const std::string &name, ExpressionPtr of) {
    auto result = std::make_shared<Expression>(*make(kind, name, {of}));
    if (accept("("))
      arguments(*result);
    else if (kind == Expression::Test && (word().kind == Word::Text || word().kind == Word::Number))
      result->operands.push_back(primary());
    return result;
  }

  void arguments(Expression &to) {
    while (!accept(")")) {
      bool isKeyword = word().kind == Word::Name && words_[at_ + 1].kind == Word::Sign &&
                       words_[at_ + 1].text == "=";
      if (isKeyword)
        to.names.push_back(take()), take();
      else if (!to.names.empty())
        fail("an argument without a name follows one with");
      to.operands.push_back(expression());
      if (!isNext(")"))
        expect(",");
    }
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    for (;;) {
      if (accept(".")) {
        value =
            make(Expression::Attribute, word().kind == Word::Number ? take() : takeName(), {value});
      } else if (accept("(")) {
        auto call = std::make_shared<Expression>(*make(Expression::Call, "", {value}));
        arguments(*call);
        value = call;
      } else if (accept("[")) {
        value = item(value);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr item(ExpressionPtr of) {
    std::vector<ExpressionPtr> parts{of, nullptr, nullptr, nullptr};
    size_t part = 1;
    bool isSlice = false;
    while (!accept("]")) {
      if (accept(":")) {
        isSlice = true;
        if (++part > 3)
          fail("a slice has at most three parts");
      } else if (parts[part]) {
        fail("']' is missing");
      } else {
        parts[part] = expression();
      }
    }
    if (!isSlice && !parts[1])
      fail("an index is missing");
    if (!isSlice)
      parts.resize(2);
    return make(isSlice ? Expression::Slice : Expression::Item, "", parts);
  }

  ExpressionPtr primary() {
    Word taken = word();
    if (taken.kind == Word::End)
      fail("an expression is missing");
    ++at_;
    if (taken.kind == Word::Text) {
      while (word().kind == Word::Text) // neighbours are one
        taken.text += take();
      return make(Expression::Text, taken.text, {});
    }
    if (taken.kind == Word::Number)
      return numberOf(taken);
    if (taken.kind == Word::Name)
      return make(Expression::Name, taken.text, {});
    if (taken.text == "(")
      return parenthesised();
    if (taken.text == "[")
      return make(Expression::List, "", listed("]"));
    if (taken.text == "{") {
      std::vector<ExpressionPtr> entries;
      while (!accept("}")) {
        entries.push_back(expression());
        expect(":");
        entries.push_back(expression());
        if (!isNext("}"))
          expect(",");
      }
      return make(Expression::Object, "", entries);
    }
    failAt(taken.line, fmt::format("'{}' is not understood here", taken.text));
  }

  ExpressionPtr numberOf(const Word &taken) {
    bool isReal = taken.text.find('.') != std::string::npos;
    if (taken.text.size() > 18)
      failAt(taken.line, "a number is too long");
    auto result = std::make_shared<Expression>(
        *make(isReal ? Expression::Real : Expression::Number, taken.text, {}));
    isReal ? void(result->real = std::stod(taken.text))
           : void(result->number = std::stoll(taken.text));
    return result;
  }

  ExpressionPtr parenthesised() {
    if (accept(")"))
      return make(Expression::List, "", {});
    ExpressionPtr first = expression();
    if (accept(")"))
      return first;
    expect(",");
    std::vector<ExpressionPtr> rest = listed(")");
    rest.insert(rest.begin(), first);
    return make(Expression::List, "", rest);
  }

  std::vector<ExpressionPtr> listed(std::string_view end) {
    std::vector<ExpressionPtr> list;
    while (!accept(end)) {
      list.push_back(expression());
      if (!isNext(end))
        expect(",");
    }
    return list;
  }

  std::vector<Piece> pieces_;
  size_t next_ = 0;
  std::vector<Word> words_ = {Word()};
  size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

Statements parse(const std::string &source) {
  if (source.size() > kMostSource)
    throw Failure(fmt::format("it has more than {} bytes", kMostSource));
  std::string text;
  for (size_t i = 0; i < source.size(); ++i)
    if (source[i] != '\r' || source.substr(i, 2) != "\r\n")
      text += source[i];
  if (text.ends_with("\n")) // as Jinja takes it away
    text.pop_back();
  return Parser(cut(text)).all();
}

} // namespace tensmith::generation::jinja
