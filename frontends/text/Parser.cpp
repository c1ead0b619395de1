// Recursive descent over the tokens, an expression's operators by precedence.
//
// The first error of a declaration ends it: the parser goes on at the next word that can begin one
// at the start of a line, so that one run reports the errors of every declaration. Nesting is
// bounded, since the host's stack is.
#include "frontends/text/Lexer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace tensmith::text {
namespace {

constexpr int kMostNesting = 400;     // of what the parser recurses into
constexpr uint32_t kMostDepth = 4000; // of a tree, which chains of operators and of lets deepen too
const std::set<std::string_view> kKeywords = {"fn",   "let",  "if",    "else", "match",
                                              "type", "true", "false", "load", "ref"};

struct Infix {
  int level;
  const char *record;
};
const std::map<std::string_view, Infix> kInfix = {
    {"||", {1, "or"}},     {"&&", {2, "and"}},
    {"==", {3, "equal"}},  {"!=", {3, "!equal"}},
    {"<", {3, "less"}},    {"<=", {3, "less_or_equal"}},
    {">", {3, "greater"}}, {">=", {3, "greater_or_equal"}},
    {"+", {4, "add"}},     {"-", {4, "sub"}},
    {"*", {5, "mul"}},     {"/", {5, "div"}},
    {"%", {5, "mod"}},     {"@", {5, "matmul"}}};

class Parser : TokenReader {
public:
  using TokenReader::TokenReader;

  Module run() {
    Module module;
    while (token().kind != Token::Kind::End) {
      size_t begin = at_;
      try {
        declaration(module);
      } catch (Failure) {
        at_ = std::max(at_, begin + 1);
        recover();
      }
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
    bool end = token().kind == Token::Kind::End;
    fail(token().place,
         "expected " + what + ", found " + (end ? token().text : "'" + token().text + "'"));
  }
  std::string word(const char *what) {
    if (token().kind != Token::Kind::Word || kKeywords.contains(token().text) ||
        token().text.starts_with(kOperatorPrefix))
      expected(what);
    return tokens_[at_++].text;
  }
  /// Of a list that has just been closed.
  bool endsInComma() const { return tokens_[at_ - 2].text == ","; }
  static bool isUpper(const std::string &name) { return name[0] >= 'A' && name[0] <= 'Z'; }

  void recover() {
    nesting_ = 0;
    for (; token().kind != Token::Kind::End; ++at_)
      if (token().place.column == 1 && (is("fn") || is("type") || is("let") || is("import")))
        return;
  }

  /// a, b, c and the closing sign; a comma may follow the last.
  template <typename Element> void list(std::string_view close, Element element) {
    while (!accept(close)) {
      element();
      if (!is(close) && !accept(","))
        expected("',' or '" + std::string(close) + "'");
    }
  }

  void declaration(Module &module) {
    if (is("type"))
      return module.types.push_back(typeDeclaration());
    if (is("fn"))
      return module.functions.push_back(functionDeclaration());
    if (is("let"))
      return module.functions.push_back(constantDeclaration());
    if (is("import"))
      return module.imports.push_back(importDeclaration());
    expected("a declaration, which begins with 'fn', 'type', 'let' or 'import'");
  }

  ImportDecl importDeclaration() {
    expect("import");
    ImportDecl decl{token().place, token().text};
    if (token().kind != Token::Kind::String)
      expected("the file's path in quotes");
    ++at_;
    accept(";");
    return decl;
  }

  TypeDecl typeDeclaration() {
    TypeDecl decl;
    decl.place = expect("type");
    decl.name = word("the type's name");
    if (!isUpper(decl.name))
      fail(decl.place, "the name of a data type begins with a capital letter, as in 'List'");
    if (accept("["))
      list("]", [&] { decl.params.push_back(word("a type parameter")); });
    expect("=");
    accept("|");
    do {
      ConstructorDecl constructor;
      constructor.place = token().place;
      constructor.name = word("a constructor's name");
      if (!isUpper(constructor.name))
        fail(constructor.place, "a constructor's name begins with a capital letter, as in 'Cons'");
      if (accept("("))
        list(")", [&] { constructor.fields.push_back(type()); });
      decl.constructors.push_back(std::move(constructor));
    } while (accept("|"));
    return decl;
  }

  Parameter parameter() {
    Parameter result;
    result.place = token().place;
    result.name = word("a parameter's name");
    if (accept(":"))
      result.type = std::make_unique<TypeExpr>(type());
    return result;
  }

  void parameters(std::vector<Parameter> &params) {
    std::set<std::string> names;
    list(")", [&] {
      params.push_back(parameter());
      bindOnce(names, params.back().name, params.back().place);
    });
  }

  /// A name is bound once among those that are bound together: which of two it meant, nobody sees.
  void bindOnce(std::set<std::string> &names, const std::string &name, Place place) {
    if (name != "_" && !names.insert(name).second)
      fail(place, "'" + name + "' is there already; choose another name");
  }

  FunctionDecl functionDeclaration() {
    FunctionDecl decl;
    expect("fn");
    decl.place = token().place;
    decl.name = word("the function's name");
    expect("(");
    parameters(decl.params);
    decl.middle = last();
    if (accept("->"))
      decl.result = std::make_unique<TypeExpr>(type());
    if (!is("{"))
      expect("=");
    decl.body = expression();
    return decl;
  }

  FunctionDecl constantDeclaration() {
    FunctionDecl decl;
    expect("let");
    decl.place = token().place;
    decl.constant = true;
    decl.name = word("the constant's name");
    if (accept(":"))
      decl.result = std::make_unique<TypeExpr>(type());
    expect("=");
    decl.body = expression();
    accept(";");
    return decl;
  }

  // ---- types ----

  struct Deeper {
    Parser &parser;
    explicit Deeper(Parser &parser) : parser(parser) {
      if (++parser.nesting_ > kMostNesting)
        parser.fail(parser.token().place, "this is nested too deep; give parts of it names");
    }
    ~Deeper() { --parser.nesting_; }
  };

  static bool isElementType(const std::string &name) {
    static const std::set<std::string_view> names = {
        "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"};
    return names.contains(name);
  }

  TypeExpr type() {
    Deeper deeper(*this);
    TypeExpr result;
    result.place = token().place;
    if (accept("(")) {
      result.kind = TypeExpr::Kind::Tuple;
      list(")", [&] { result.parts.push_back(type()); });
      if (accept("->")) {
        result.kind = TypeExpr::Kind::Function;
        result.parts.push_back(type());
      } else if (result.parts.size() == 1 && !endsInComma()) {
        return std::move(result.parts[0]);
      }
      return result;
    }
    result.name = word("a type");
    bool isSize = result.name == "Size", isSmall = std::islower(uint8_t(result.name[0])) && is("[");
    if (isElementType(result.name) || isSize || isSmall) {
      result.kind = isSize ? TypeExpr::Kind::Name : TypeExpr::Kind::Tensor;
      if (accept("["))
        list("]", [&] { result.dims.push_back(dimension()); });
      return result;
    }
    if (is("[") && token(1).kind == Token::Kind::Integer)
      fail(result.place, "there is no element type '" + result.name + "'");
    if (accept("["))
      list("]", [&] { result.parts.push_back(type()); });
    return result;
  }

  DimExpr dimension() {
    DimExpr left = dimensionProduct();
    while (is("+") || is("-"))
      left = dimensionPair(std::move(left), &Parser::dimensionProduct);
    return left;
  }
  DimExpr dimensionProduct() {
    DimExpr left = dimensionAtom();
    while (is("*") || is("/"))
      left = dimensionPair(std::move(left), &Parser::dimensionAtom);
    return left;
  }
  DimExpr dimensionPair(DimExpr left, DimExpr (Parser::*next)()) {
    if (++dimensions_ > kMostNesting * 10)
      fail(token().place, "there are too many sizes that are computed in types here");
    DimExpr pair;
    pair.place = token().place;
    pair.kind = is("+")   ? DimExpr::Kind::Add
                : is("-") ? DimExpr::Kind::Sub
                : is("*") ? DimExpr::Kind::Mul
                          : DimExpr::Kind::Div;
    ++at_;
    pair.parts.push_back(std::move(left));
    pair.parts.push_back((this->*next)());
    return pair;
  }
  DimExpr dimensionAtom() {
    DimExpr result;
    result.place = token().place;
    if (accept("(")) {
      Deeper deeper(*this);
      result = dimension();
      expect(")");
    } else if (accept("?")) {
      result.kind = DimExpr::Kind::Unknown;
    } else if (token().kind == Token::Kind::Integer) {
      result.size = integer();
    } else {
      result.kind = DimExpr::Kind::Name;
      result.name = word("a dimension: a number, a name or '?'");
    }
    return result;
  }
  int64_t integer() {
    if (token().text.size() > 15)
      fail(token().place, "this number is too large for a size");
    return std::stoll(tokens_[at_++].text);
  }

  // ---- patterns ----

  Pattern pattern() {
    Pattern result = patternPart();
    std::set<std::string> names;
    bindOnce(names, result);
    return result;
  }

  void bindOnce(std::set<std::string> &names, const Pattern &pattern) {
    if (pattern.kind == Pattern::Kind::Name)
      bindOnce(names, pattern.name, pattern.place);
    for (const Pattern &part : pattern.parts)
      bindOnce(names, part);
  }

  Pattern patternPart() {
    Deeper deeper(*this);
    Pattern result;
    result.place = token().place;
    if (accept("(")) {
      result.kind = Pattern::Kind::Tuple;
      list(")", [&] { result.parts.push_back(patternPart()); });
      return result.parts.size() == 1 && !endsInComma() ? std::move(result.parts[0])
                                                        : std::move(result);
    }
    result.name = word("a pattern: a name, '_', a constructor or a tuple");
    if (result.name == "_") {
      result.kind = Pattern::Kind::Wildcard;
    } else if (isUpper(result.name)) {
      result.kind = Pattern::Kind::Constructor;
      if (accept("("))
        list(")", [&] { result.parts.push_back(patternPart()); });
    } else {
      result.kind = Pattern::Kind::Name;
    }
    return result;
  }

  // ---- expressions ----

  static ExprPointer make(Expr::Kind kind, Place place, std::string text = {}) {
    auto result = std::make_unique<Expr>();
    result->kind = kind;
    result->place = result->end = place;
    result->text = std::move(text);
    return result;
  }

  /// What is walked and freed by recursion must not be deep.
  ExprPointer sealed(ExprPointer expr) {
    auto include = [&](const ExprPointer &part) {
      expr->depth = std::max(expr->depth, part->depth + 1);
    };
    std::for_each(expr->parts.begin(), expr->parts.end(), include);
    for (const Argument &named : expr->arguments)
      include(named.value);
    for (const Case &one : expr->cases)
      include(one.body);
    expr->end = last();
    if (expr->depth > kMostDepth)
      fail(expr->place, "this is nested too deep; give parts of it functions of their own");
    return expr;
  }

  ExprPointer expression() {
    Deeper deeper(*this);
    ExprPointer target = binary(1);
    Place place = token().place;
    if (!accept(":="))
      return target;
    ExprPointer result = make(Expr::Kind::Assign, place);
    result->parts.push_back(std::move(target));
    result->parts.push_back(expression());
    return sealed(std::move(result));
  }

  ExprPointer binary(int level) {
    ExprPointer left = unary();
    while (token().kind == Token::Kind::Sign) {
      auto infix = kInfix.find(token().text);
      if (infix == kInfix.end() || infix->second.level < level)
        break;
      Place place = tokens_[at_++].place;
      ExprPointer right = binary(infix->second.level + 1);
      std::string record = infix->second.record;
      bool inverted = record[0] == '!';
      ExprPointer pair = make(Expr::Kind::Operator, place, record.substr(inverted));
      pair->parts.push_back(std::move(left));
      pair->parts.push_back(std::move(right));
      left = sealed(std::move(pair));
      if (inverted) {
        pair = make(Expr::Kind::Operator, place, "not");
        pair->parts.push_back(std::move(left));
        left = sealed(std::move(pair));
      }
    }
    return left;
  }

  ExprPointer unary() {
    Deeper deeper(*this);
    Place place = token().place;
    if (accept("*")) {
      ExprPointer read = make(Expr::Kind::Read, place);
      read->parts.push_back(unary());
      return sealed(std::move(read));
    }
    bool minus = accept("-");
    if (!minus && !accept("!"))
      return postfix();
    ExprPointer operand = unary();
    bool number = (operand->kind == Expr::Kind::Integer || operand->kind == Expr::Kind::Real) &&
                  operand->text[0] != '-';
    if (minus && number) {
      operand->text.insert(0, "-");
      operand->place = place;
      return operand;
    }
    ExprPointer result = make(Expr::Kind::Operator, place, minus ? "neg" : "not");
    result->parts.push_back(std::move(operand));
    return sealed(std::move(result));
  }

  ExprPointer postfix() {
    ExprPointer result = primary();
    while (is("(")) {
      ExprPointer call = make(Expr::Kind::Call, result->place);
      ++at_;
      call->parts.push_back(std::move(result));
      list(")", [&] { argument(*call); });
      result = sealed(std::move(call));
    }
    return result;
  }

  void argument(Expr &call) {
    if (token().kind == Token::Kind::Word && token(1).text == "=") {
      Argument named;
      named.place = token().place;
      named.name = tokens_[at_].text;
      at_ += 2;
      named.value = expression();
      call.arguments.push_back(std::move(named));
      return;
    }
    if (!call.arguments.empty())
      fail(token().place, "arguments without a name come before those with one");
    call.parts.push_back(expression());
  }

  ExprPointer primary() {
    Token first = token();
    switch (first.kind) {
    case Token::Kind::Integer:
    case Token::Kind::Real:
    case Token::Kind::String:
      ++at_;
      return make(first.kind == Token::Kind::Integer ? Expr::Kind::Integer
                  : first.kind == Token::Kind::Real  ? Expr::Kind::Real
                                                     : Expr::Kind::String,
                  first.place, first.text);
    case Token::Kind::Word:
      return wordExpression();
    default:
      break;
    }
    if (is("("))
      return parenthesis();
    if (is("["))
      return bracket();
    if (is("{"))
      return block();
    expected("an expression");
  }

  ExprPointer wordExpression() {
    Place place = token().place;
    if (accept("fn"))
      return function(place);
    if (accept("if"))
      return conditional(place);
    if (accept("match"))
      return match(place);
    if (is("true") || is("false"))
      return make(Expr::Kind::Boolean, place, tokens_[at_++].text);
    if (accept("ref")) {
      ExprPointer result = make(Expr::Kind::Ref, place);
      expect("(");
      result->parts.push_back(expression());
      expect(")");
      return sealed(std::move(result));
    }
    if (accept("load")) {
      expect("(");
      if (token().kind != Token::Kind::String)
        expected("the file's name in quotes");
      ExprPointer result = make(Expr::Kind::Load, place, tokens_[at_++].text);
      expect(")");
      return result;
    }
    if (token().text.starts_with(kOperatorPrefix))
      return make(Expr::Kind::Name, place, tokens_[at_++].text);
    return make(Expr::Kind::Name, place, word("an expression"));
  }

  ExprPointer function(Place place) {
    ExprPointer result = make(Expr::Kind::Function, place);
    expect("(");
    parameters(result->params);
    result->middle = last();
    expect("=>");
    result->parts.push_back(expression());
    return sealed(std::move(result));
  }

  ExprPointer conditional(Place place) {
    Deeper deeper(*this);
    ExprPointer result = make(Expr::Kind::If, place);
    result->parts.push_back(expression());
    result->parts.push_back(block());
    result->middle = last();
    expect("else");
    result->parts.push_back(is("if") ? primary() : block());
    return sealed(std::move(result));
  }

  ExprPointer match(Place place) {
    ExprPointer result = make(Expr::Kind::Match, place);
    result->parts.push_back(expression());
    expect("{");
    list("}", [&] {
      Case one;
      one.pattern = pattern();
      expect("=>");
      one.body = expression();
      result->cases.push_back(std::move(one));
    });
    if (result->cases.empty())
      fail(place, "a match needs at least one case");
    return sealed(std::move(result));
  }

  ExprPointer parenthesis() {
    Place place = expect("(");
    ExprPointer tuple = make(Expr::Kind::Tuple, place);
    bool comma = false;
    while (!accept(")")) {
      tuple->parts.push_back(expression());
      if (tuple->parts.size() == 1 && accept(":")) {
        ExprPointer ascribed = make(Expr::Kind::Ascribe, place);
        ascribed->parts.push_back(std::move(tuple->parts[0]));
        ascribed->type = std::make_unique<TypeExpr>(type());
        expect(")");
        return sealed(std::move(ascribed));
      }
      comma |= is(",");
      if (!is(")") && !accept(","))
        expected("',' or ')'");
    }
    return tuple->parts.size() == 1 && !comma ? std::move(tuple->parts[0])
                                              : sealed(std::move(tuple));
  }

  ExprPointer bracket() {
    ExprPointer result = make(Expr::Kind::List, expect("["));
    list("]", [&] { result->parts.push_back(expression()); });
    return sealed(std::move(result));
  }

  /// { let p = e; e; ... e }: not recursive in the number of lets, of which there may be thousands.
  /// A statement without a name is a let that matches anything.
  ExprPointer block() {
    Place open = expect("{");
    std::vector<ExprPointer> lets;
    ExprPointer result;
    while (!result) {
      Place place = token().place;
      if (is("let")) {
        lets.push_back(let());
        continue;
      }
      bool nothing =
          is("}") && !lets.empty() && lets.back()->cases[0].pattern.kind == Pattern::Kind::Wildcard;
      result = nothing ? make(Expr::Kind::Tuple, place) : expression();
      if (accept(";"))
        lets.push_back(statement(place, std::move(result)));
    }
    expect("}");
    for (; !lets.empty(); lets.pop_back()) {
      lets.back()->parts.push_back(std::move(result));
      result = sealed(std::move(lets.back()));
      if (lets.size() == 1)
        result->middle = open;
    }
    return result;
  }

  ExprPointer statement(Place place, ExprPointer value) {
    ExprPointer result = make(Expr::Kind::Let, place);
    Case binding;
    binding.pattern.place = place;
    binding.pattern.name = "_";
    binding.body = std::move(value);
    result->cases.push_back(std::move(binding));
    return result;
  }

  ExprPointer let() {
    ExprPointer result = make(Expr::Kind::Let, expect("let"));
    Case binding;
    binding.pattern = pattern();
    if (accept(":")) {
      auto wanted = std::make_unique<TypeExpr>(type());
      expect("=");
      binding.body = make(Expr::Kind::Ascribe, wanted->place);
      binding.body->parts.push_back(expression());
      binding.body->type = std::move(wanted);
    } else {
      expect("=");
      binding.body = expression();
    }
    expect(";");
    result->cases.push_back(std::move(binding));
    return result;
  }

  int nesting_ = 0, dimensions_ = 0;
};

} // namespace

Module parse(const std::string &text, std::vector<Message> &messages,
             std::vector<Comment> *comments, uint32_t file) {
  return Parser(tokenize(text, messages, comments, file), messages).run();
}

} // namespace tensmith::text
