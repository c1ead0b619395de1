// Recursive descent over the tokens, an expression's operators by precedence.
//
// The first error of a definition ends it: the parser goes on at the next `def`. Nesting is
// bounded, since the host's stack is.
#include "reference/comprehension/Schedules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace tensmith::comprehension {
namespace {

constexpr uint32_t kMostNesting = 200; // of what the parser recurses into

const std::map<std::string_view, int> kLevels = {
    {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 3}, {"<=", 3}, {">", 3},
    {">=", 3}, {"+", 4},  {"-", 4},  {"*", 5},  {"/", 5}, {"%", 5}};

struct TypeWord {
  std::string_view word;
  DataType type;
};
/// The published words first: a type is printed by the first that is its.
constexpr TypeWord kTypeWords[] = {
    {"float", DataType::F32},     {"double", DataType::F64},  {"half", DataType::F16},
    {"bfloat16", DataType::BF16}, {"int32", DataType::I32},   {"int64", DataType::I64},
    {"int16", DataType::I16},     {"int8", DataType::I8},     {"uint8", DataType::U8},
    {"uint16", DataType::U16},    {"uint32", DataType::U32},  {"uint64", DataType::U64},
    {"bool", DataType::Bool},     {"byte", DataType::U8},     {"int", DataType::I32},
    {"int4", DataType::I4},       {"uint4", DataType::U4},    {"int2", DataType::I2},
    {"uint2", DataType::U2},      {"float16", DataType::F16}, {"float32", DataType::F32},
    {"float64", DataType::F64}};

std::optional<DataType> typeOf(std::string_view word) {
  for (const TypeWord &one : kTypeWords)
    if (one.word == word)
      return one.type;
  if (word.substr(0, 1) == "i" || word.substr(0, 1) == "u") // i2 is an index
    return std::nullopt;
  auto type = parseDataType(word);
  bool isNumber = type && (isFloat(*type) || isInteger(*type));
  return isNumber ? type : std::nullopt;
}

struct AssignmentSign {
  std::string_view sign;
  Assignment assignment;
  bool initialises;
};
constexpr AssignmentSign kAssignments[] = {
    {"=", Assignment::Set, false},        {"+=", Assignment::Add, false},
    {"+=!", Assignment::Add, true},       {"*=", Assignment::Multiply, false},
    {"*=!", Assignment::Multiply, true},  {"min=", Assignment::Minimum, false},
    {"min=!", Assignment::Minimum, true}, {"max=", Assignment::Maximum, false},
    {"max=!", Assignment::Maximum, true}};

class Parser : TokenReader {
public:
  using TokenReader::TokenReader;

  Module run() {
    Module module;
    while (token().kind != Token::Kind::End) {
      size_t begin = at_;
      try {
        module.definitions.push_back(definition());
      } catch (Failure) {
        at_ = std::max(at_, begin + 1);
        while (token().kind != Token::Kind::End && !is("def"))
          ++at_;
      }
      nesting_ = 0;
    }
    return module;
  }

private:
  Place expect(std::string_view text) {
    Place place = token().place;
    if (!accept(text))
      expected("'" + std::string(text) + "'");
    return place;
  }
  [[noreturn]] void expected(const std::string &what) {
    const Token &found = token();
    bool isEnd = found.kind == Token::Kind::End;
    std::string shown = found.text.size() > 40 ? found.text.substr(0, 40) + "..." : found.text;
    fail(found.place, what + " is expected here, not " + (isEnd ? shown : "'" + shown + "'"));
  }

  ExprRef make(Expr expr) {
    Place place = expr.place;
    ExprRef made = makeExpr(std::move(expr));
    if (made->depth > kMostDepth)
      fail(place, "this is nested too deep; give parts of it tensors of their own");
    return made;
  }

  Named name(const char *what) {
    const Token &word = token();
    bool isKeyword = word.text == "def" || word.text == "where" || word.text == "in" ||
                     word.text == "exists" || word.text == "min" || word.text == "max";
    if (word.kind != Token::Kind::Word || isKeyword || typeOf(word.text))
      expected(what);
    ++at_;
    return {word.place, word.text};
  }

  template <typename Parse> void list(Parse parse) {
    expect("(");
    if (accept(")"))
      return;
    do
      parse();
    while (accept(","));
    if (!is(")"))
      expected("',' or ')'");
    ++at_;
  }

  Definition definition() {
    Definition made;
    made.place = expect("def");
    made.name = name("the name of the comprehension").name;
    list([&] { made.parameters.push_back(parameter(/*typed=*/true)); });
    expect("->");
    list([&] { made.results.push_back(parameter(/*typed=*/false)); });
    expect("{");
    while (!is("}"))
      made.statements.push_back(statement());
    made.end = expect("}");
    return made;
  }

  ParameterSyntax parameter(bool typed) {
    ParameterSyntax made;
    auto type = token().kind == Token::Kind::Word ? typeOf(token().text) : std::nullopt;
    if (typed && !type)
      expected("an element type, as float,");
    if (type) {
      made.type = *type;
      ++at_;
      if (is("("))
        list([&] { made.dims.push_back(dimension()); });
    }
    Named named = name(typed ? "the name of an input" : "the name of a result");
    made.place = named.place;
    made.name = named.name;
    return made;
  }

  ExprRef dimension() {
    if (token().kind == Token::Kind::Integer)
      return number();
    Named named = name("the name of a size, or a number,");
    return make({.kind = Expr::Kind::Name, .place = named.place, .text = named.name});
  }

  StatementSyntax statement() {
    StatementSyntax made;
    made.targets.push_back(name("a statement, as C(m, n) +=! ..., or '}'"));
    made.place = made.targets[0].place;
    if (is("(")) {
      made.hasIndices = true;
      list([&] { made.indices.push_back(name("the name of an index")); });
    }
    while (!made.hasIndices && accept(","))
      made.targets.push_back(name("the name of a result"));
    assign(made);
    made.value = expression();
    if (accept("where")) {
      do
        made.where.push_back(clause());
      while (accept(","));
    }
    made.end = last();
    return made;
  }

  void assign(StatementSyntax &statement) {
    for (const AssignmentSign &one : kAssignments)
      if (is(one.sign)) {
        ++at_;
        statement.assignment = one.assignment;
        statement.initialises = one.initialises;
        return;
      }
    expected("an assignment, '=', '+=!', '+=', 'max=!' or the like,");
  }

  Clause clause() {
    Clause made;
    made.place = token().place;
    if (accept("exists")) {
      made.kind = Clause::Kind::Exists;
      made.low = expression();
      return made;
    }
    made.name = name("an index's range, as i in 0:N,").name;
    if (accept("=")) {
      made.kind = Clause::Kind::Let;
      made.low = expression();
      return made;
    }
    if (!accept("in"))
      expected("'in' or '='");
    made.low = expression(/*level=*/1);
    expect(":");
    made.high = expression();
    return made;
  }

  /// The longest one whose operators bind as strongly as `level` or more; 0: all.
  ExprRef expression(int level = 0) {
    if (++nesting_ > kMostNesting)
      fail(token().place, "this is nested too deep; give parts of it tensors of their own");
    ExprRef left = prefix();
    for (;;) {
      auto infix = token().kind == Token::Kind::Sign ? kLevels.find(token().text) : kLevels.end();
      if (infix == kLevels.end() || infix->second < std::max(level, 1))
        break;
      const Token &sign = token();
      ++at_;
      ExprRef right = expression(infix->second + 1);
      left = make({.kind = Expr::Kind::Binary,
                   .place = sign.place,
                   .text = std::string(infix->first),
                   .parts = {left, right}});
    }
    if (level == 0 && is("?"))
      left = select(left);
    --nesting_;
    return left;
  }

  ExprRef select(ExprRef condition) {
    Place place = expect("?");
    ExprRef yes = expression();
    expect(":");
    ExprRef no = expression();
    return make({.kind = Expr::Kind::Select, .place = place, .parts = {condition, yes, no}});
  }

  ExprRef prefix() {
    const Token &sign = token();
    if (!is("-") && !is("!"))
      return primary();
    ++at_;
    if (++nesting_ > kMostNesting)
      fail(sign.place, "this is nested too deep; give parts of it tensors of their own");
    ExprRef inner = prefix();
    --nesting_;
    return make(
        {.kind = Expr::Kind::Unary, .place = sign.place, .text = sign.text, .parts = {inner}});
  }

  ExprRef number() {
    const Token &word = token();
    ++at_;
    Expr made{.kind = Expr::Kind::Integer, .place = word.place};
    const char *begin = word.text.data(), *end = begin + word.text.size();
    if (word.kind == Token::Kind::Integer) {
      if (std::from_chars(begin, end, made.integer).ec != std::errc())
        fail(word.place, "this number is beyond those of 64 bits");
      return make(std::move(made));
    }
    made.kind = Expr::Kind::Real;
    if (std::from_chars(begin, end, made.number).ec != std::errc())
      fail(word.place, "this number is beyond those of double precision");
    return make(std::move(made));
  }

  ExprRef primary() {
    const Token &word = token();
    if (word.kind == Token::Kind::Integer || word.kind == Token::Kind::Real)
      return number();
    if (accept("(")) {
      ExprRef inner = expression();
      expect(")");
      return inner;
    }
    if (is("true") || is("false")) {
      ++at_;
      return make(
          {.kind = Expr::Kind::Boolean, .place = word.place, .integer = word.text == "true"});
    }
    auto type = word.kind == Token::Kind::Word ? typeOf(word.text) : std::nullopt;
    if (type) {
      ++at_;
      expect("(");
      ExprRef inner = expression();
      expect(")");
      return make({.kind = Expr::Kind::Cast, .place = word.place, .type = *type, .parts = {inner}});
    }
    if (is("min") || is("max"))
      return extreme();
    return reference();
  }

  ExprRef extreme() {
    Expr made{.kind = Expr::Kind::Binary, .place = token().place, .text = token().text};
    ++at_;
    list([&] { made.parts.push_back(expression()); });
    if (made.parts.size() != 2)
      fail(made.place,
           made.text + " is of two numbers, not of " + std::to_string(made.parts.size()));
    return make(std::move(made));
  }

  ExprRef reference() {
    Named named = name("an expression");
    Expr made{.kind = Expr::Kind::Name, .place = named.place, .text = named.name};
    if (is("(")) {
      made.kind = Expr::Kind::Call;
      list([&] { made.parts.push_back(expression()); });
    } else if (accept(".")) {
      made.kind = Expr::Kind::Extent;
      if (token().kind != Token::Kind::Integer || token().text.size() > 3)
        expected("the number of a dimension");
      made.integer = std::stoll(token().text);
      ++at_;
    }
    return make(std::move(made));
  }

  uint32_t nesting_ = 0;
};

} // namespace

std::string typeName(DataType type) {
  for (const TypeWord &one : kTypeWords)
    if (one.type == type)
      return std::string(one.word);
  return std::string(name(type));
}

ExprRef makeExpr(Expr expr) {
  for (const ExprRef &part : expr.parts) {
    expr.depth = std::max(expr.depth, part->depth + 1);
    expr.nodes = std::min(expr.nodes + part->nodes, kMostNodes + 1);
  }
  return std::make_shared<const Expr>(std::move(expr));
}

ExprRef integerExpr(int64_t value) {
  return makeExpr({.kind = Expr::Kind::Integer, .type = DataType::I64, .integer = value});
}

ExprRef binaryExpr(std::string sign, ExprRef a, ExprRef b) {
  return makeExpr({.kind = Expr::Kind::Binary,
                   .type = DataType::I64,
                   .text = std::move(sign),
                   .parts = {std::move(a), std::move(b)}});
}

const Definition *Module::find(const std::string &name) const {
  for (const Definition &definition : definitions)
    if (definition.name == name)
      return &definition;
  return nullptr;
}

static std::vector<Token> tokensOf(const std::string &text, std::vector<Message> &messages,
                                   std::vector<Comment> *comments) {
  constexpr std::string_view kLong[] = {
      "+=!", "*=!", "+=", "*=", "->", "==", "!=", "<=", ">=", "&&", "||"};
  constexpr std::string_view kWords[] = {"min=!", "max=!", "min=", "max="};
  LexicalRules rules{"#", "()[]{},:=+-*/%<>!?.", kLong, kWords};
  rules.hasStrings = false;
  return tokenize(text, rules, messages, comments);
}

std::vector<Token> tokens(const std::string &text) {
  std::vector<Message> ignored;
  return tokensOf(text.size() > kMostText ? "" : text, ignored, nullptr);
}

Module parse(const std::string &text, std::vector<Message> &messages,
             std::vector<Comment> *comments) {
  if (text.size() > kMostText) {
    messages.push_back({{1, 1},
                        "the text has " + std::to_string(text.size()) +
                            " bytes; a text of comprehensions has at most " +
                            std::to_string(kMostText)});
    return {};
  }
  std::vector<Comment> all;
  auto tokens = tokensOf(text, messages, &all);
  Module module = messages.empty() ? Parser(std::move(tokens), messages).run() : Module();
  if (messages.empty())
    schedulesOf(module, all, messages);
  if (comments)
    *comments = std::move(all);
  return module;
}

} // namespace tensmith::comprehension
