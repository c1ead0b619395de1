// Refuses forward references and bottomless nesting in the graph's text before MLIR parses it.
//
// MLIR lets a value be used before it is defined, by a placeholder that the definition replaces.
// Where the text then turns out to be wrong, version 19 frees the region that holds the definition
// while operations outside still use it (the cases of llvm-project's issues 58869 and 107121 and of
// pull request 127778), and writes to freed memory. The graph's text has no need of such
// references: its operations stand in order. So this follows the text by its tokens, with a set of
// names for each brace, and a parser that is given what passes never makes a placeholder.
//
// The results of an operation are defined once the next one begins, and not in its own regions; the
// arguments of a function in the region after them.
//
// The parser descends into brackets of each kind by recursion, so their depth is limited too.
#include "compiler/api/TextScopes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

using llvm::StringRef;

namespace tensmith {
namespace {

constexpr int kDeepest = 400; // brackets in one another

bool isLetter(char c) { return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.' || c == '-'; }

/// Words with the sign before them ("%arg0", "!graph.string", "graph.add"), strings, and each other
/// character by itself.
class Lexer {
public:
  explicit Lexer(StringRef text) : rest_(text) {}

  /// Empty at the end.
  StringRef next() {
    skipSpace();
    if (rest_.empty())
      return {};
    char first = rest_[0];
    size_t size = 1;
    if (first == '"')
      size = stringSize();
    else if (isLetter(first) || StringRef("%^@!#").contains(first))
      size += rest_.drop_front().take_while(isLetter).size();
    StringRef token = rest_.take_front(size);
    rest_ = rest_.drop_front(size);
    return token;
  }
  StringRef peek() const { return Lexer(rest_).next(); }
  const char *position() const { return rest_.data(); }

private:
  void skipSpace() {
    while (true) {
      rest_ = rest_.ltrim();
      if (!rest_.starts_with("//"))
        return;
      rest_ = rest_.drop_until([](char c) { return c == '\n'; });
    }
  }
  size_t stringSize() const {
    size_t at = 1;
    while (at < rest_.size() && rest_[at] != '"' && rest_[at] != '\n')
      at += rest_[at] == '\\' ? 2 : 1;
    return std::min(at + 1, rest_.size());
  }

  StringRef rest_;
};

class Scopes {
public:
  Scopes(StringRef text, const std::string &name) : text_(text), name_(name), lexer_(text) {}

  Status check() {
    for (StringRef token; !(token = lexer_.next()).empty(); before_ = token)
      if (Status status = take(token); !status.ok())
        return status;
    return {};
  }

private:
  struct Scope {
    llvm::StringSet<> names;
    std::vector<StringRef> results; // of the operation that is being read
    int parentheses = 0;            // open ones
  };

  Status take(StringRef token) {
    if (Status status = follow(token[0]); !status.ok())
      return status;
    switch (token[0]) {
    case '{':
      open();
      return {};
    case '}':
      if (scopes_.size() > 1)
        scopes_.pop_back();
      return {};
    case '(':
      ++scopes_.back().parentheses;
      return {};
    case ')':
      --scopes_.back().parentheses;
      return {};
    case '%':
      return takeValue(token);
    case '^':
      return takeBlock();
    case '@':
      if (operation_ == "func.func")
        defineList(arguments_);
      return {};
    case '"':
      // A location's name may be followed by another in parentheses.
      if (lexer_.peek() == "(" && !llvm::is_contained({"(", "[", ",", "at"}, before_))
        return begin(token.trim('"'));
      return {};
    default:
      return isOperation(token) ? begin(token) : Status();
    }
  }

  Status follow(char bracket) {
    if (StringRef("([{<").contains(bracket) && ++depth_ > kDeepest)
      return invalid("brackets are nested more than " + std::to_string(kDeepest) + " deep");
    if (StringRef(")]}>").contains(bracket) && depth_ > 0 && !(bracket == '>' && before_ == "-"))
      --depth_;
    return {};
  }

  /// A region, or a dictionary, which defines nothing; those of a function's results stand in
  /// parentheses, those in attributes behind what no region follows.
  void open() {
    bool afterArguments = scopes_.back().parentheses == 0 &&
                          !llvm::is_contained({"attributes", "=", "[", ","}, before_);
    scopes_.emplace_back();
    if (afterArguments)
      for (StringRef name : std::exchange(arguments_, {}))
        scopes_.back().names.insert(name);
  }

  bool isOperation(StringRef word) const {
    return llvm::isAlpha(word[0]) && lexer_.peek() != "=" &&
           (word.contains('.') || word == "return" || word == "module");
  }

  Status begin(StringRef operation) {
    if (!operation.starts_with("graph.") &&
        !llvm::is_contained({"func.func", "func.return", "return", "module", "builtin.module"},
                            operation))
      return invalid("'" + operation.take_front(100).str() +
                     "' is no operator of the graph dialect");
    operation_ = operation;
    Scope &scope = scopes_.back();
    for (StringRef name : std::exchange(scope.results, std::move(results_)))
      scope.names.insert(name);
    results_.clear();
    return {};
  }

  /// "%0 =", "%0:2 =", "%0, %1 =" begin an operation, which `begin` takes them to; anything else is
  /// a use.
  Status takeValue(StringRef name) {
    Lexer ahead = lexer_;
    StringRef token = ahead.next();
    while (!token.empty() &&
           (token == ":" || token == "," || token[0] == '%' || llvm::isDigit(token[0])))
      token = ahead.next();
    if (token == "=") {
      results_.push_back(name);
      return {};
    }
    for (const Scope &scope : scopes_)
      if (scope.names.contains(name))
        return {};
    return invalid("'" + name.take_front(100).str() + "' is used before it is defined");
  }

  Status takeBlock() {
    if (llvm::is_contained({"[", ","}, before_))
      return invalid("a branch to a block, of which the graph dialect has none");
    std::vector<StringRef> names;
    defineList(names);
    for (StringRef name : names)
      scopes_.back().names.insert(name);
    return {};
  }

  /// The names in the parentheses that follow, which are passed over.
  void defineList(std::vector<StringRef> &names) {
    if (lexer_.peek() != "(")
      return;
    int depth = 0;
    do {
      StringRef token = lexer_.next();
      if (token.empty())
        return;
      depth += (token == "(") - (token == ")");
      if (token[0] == '%')
        names.push_back(token);
    } while (depth);
  }

  Status invalid(const std::string &why) const {
    size_t line = 1 + StringRef(text_.data(), size_t(lexer_.position() - text_.data())).count('\n');
    return {StatusCode::InvalidModel, name_ + ":" + std::to_string(line) + ": " + why};
  }

  StringRef text_;
  const std::string &name_;
  Lexer lexer_;
  StringRef before_, operation_;
  std::vector<Scope> scopes_{1};
  std::vector<StringRef> results_, arguments_;
  int depth_ = 0;
};

} // namespace

Status checkScopes(std::string_view text, const std::string &name) {
  return Scopes(StringRef(text.data(), text.size()), name).check();
}

} // namespace tensmith
