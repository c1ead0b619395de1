// The one layout of a program. Printing what was parsed from a print gives the same text.
//
// Comments stand before what they stood before in the text, each on a line of its own, or at the
// end of the line that it was at the end of. An empty line between statements stays one.
#include "frontends/text/Ast.h"
#include "frontends/text/Layout.h"

#include <algorithm>
#include <map>

namespace tensmith::text {
namespace {

constexpr int kWidth = 100;

const std::map<std::string, std::pair<const char *, int>> kSigns = {
    {"or", {"||", 1}},     {"and", {"&&", 2}},
    {"equal", {"==", 3}},  {"!equal", {"!=", 3}},
    {"less", {"<", 3}},    {"less_or_equal", {"<=", 3}},
    {"greater", {">", 3}}, {"greater_or_equal", {">=", 3}},
    {"add", {"+", 4}},     {"sub", {"-", 4}},
    {"mul", {"*", 5}},     {"div", {"/", 5}},
    {"mod", {"%", 5}},     {"matmul", {"@", 5}}};
constexpr int kUnary = 6, kAtom = 7;

std::string print(const DimExpr &dim, int level = 0) {
  constexpr const char *signs[] = {"", "", "", " + ", " - ", " * ", " / "};
  switch (dim.kind) {
  case DimExpr::Kind::Size:
    return std::to_string(dim.size);
  case DimExpr::Kind::Name:
    return dim.name;
  case DimExpr::Kind::Unknown:
    return "?";
  default:
    break;
  }
  bool product = dim.kind == DimExpr::Kind::Mul || dim.kind == DimExpr::Kind::Div;
  std::string text =
      print(dim.parts[0], product) + signs[size_t(dim.kind)] + print(dim.parts[1], product ? 2 : 1);
  return level > product ? '(' + text + ')' : text;
}

template <typename Elements, typename Print>
std::string joined(const Elements &elements, Print print) {
  std::string text;
  for (const auto &element : elements)
    text += (text.empty() ? "" : ", ") + print(element);
  return text;
}

bool isBefore(Place a, Place b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

/// Where the expression begins; the place of an infix operator is its sign.
Place beginOf(const Expr &expr) {
  const Expr *first = &expr;
  while ((first->kind == Expr::Kind::Operator && first->parts.size() == 2) ||
         first->kind == Expr::Kind::Call || first->kind == Expr::Kind::Assign)
    first = first->parts[0].get();
  bool inverted = first->kind == Expr::Kind::Operator && first->text == "not" &&
                  first->parts[0]->kind == Expr::Kind::Operator &&
                  first->parts[0]->text == "equal" &&
                  !isBefore(first->place, first->parts[0]->place) &&
                  !isBefore(first->parts[0]->place, first->place); // a != b
  return inverted                                               ? beginOf(*first->parts[0])
         : first->kind == Expr::Kind::Let && first->middle.line ? first->middle
                                                                : first->place;
}

class Printer {
public:
  explicit Printer(const std::vector<Comment> &comments) : comments_(comments) {}

  std::string run(const Module &module) {
    struct Declaration {
      Place place;
      const TypeDecl *type;
      const FunctionDecl *function;
      const ImportDecl *import = nullptr;
    };
    std::vector<Declaration> declarations;
    for (const ImportDecl &import : module.imports)
      declarations.push_back({import.place, nullptr, nullptr, &import});
    for (const TypeDecl &type : module.types)
      declarations.push_back({type.place, &type, nullptr});
    for (const FunctionDecl &function : module.functions)
      declarations.push_back({function.place, nullptr, &function});
    std::stable_sort(
        declarations.begin(), declarations.end(),
        [](const Declaration &a, const Declaration &b) { return isBefore(a.place, b.place); });
    Doc text;
    bool first = true, wasFunction = false;
    for (const Declaration &one : declarations) {
      bool isFunction = one.function && !one.function->constant;
      bool apart = !first && (isFunction || wasFunction);
      text += separate(one.place, first, apart);
      text += one.import ? Doc("import \"" + one.import->path + "\"")
              : one.type ? declaration(*one.type)
                         : declaration(*one.function);
      line_ = one.import ? one.import->place.line : line_;
      first = false;
      wasFunction = isFunction;
    }
    text += separate({UINT32_MAX, 0}, first, false, /*last=*/true);
    std::string result = text.layout(kWidth);
    return result.empty() ? result : result + '\n';
  }

private:
  // ---- comments ----

  bool pending(Place place) const {
    return next_ < comments_.size() && isBefore(comments_[next_].place, place);
  }

  /// A comment that stands at the end of a line that was begun before the place.
  Doc trailing(Place place) {
    if (!pending(place) || !comments_[next_].trailing)
      return {};
    line_ = comments_[next_].place.line;
    return Doc("  " + comments_[next_++].text);
  }

  /// From one statement or declaration to the next: the end of the line, what comments stand
  /// between them, and an empty line where there was one or, `apart`, where there has to be.
  Doc separate(Place place, bool first, bool apart, bool last = false) {
    Doc text = first ? Doc() : trailing(place);
    auto next = [&](uint32_t line) {
      bool blank = !first && (apart || (line && line_ && line > line_ + 1));
      if (!first)
        text += blank ? Doc::blankLine() : Doc::hardLine();
      first = apart = false;
    };
    while (pending(place)) {
      next(comments_[next_].place.line);
      line_ = comments_[next_].place.line;
      text += Doc(comments_[next_++].text);
    }
    if (!last) {
      next(place.line);
      line_ = place.line;
    }
    return text;
  }

  /// Comments before an element, each on a line; what they are in is broken.
  Doc leading(Place place) {
    Doc text;
    while (pending(place)) {
      line_ = comments_[next_].place.line;
      text += Doc(comments_[next_++].text) + Doc::hardLine();
    }
    return text;
  }

  /// Comments before what closes, after the last element.
  Doc closing(Place end) {
    Doc text = trailing(end);
    while (pending(end)) {
      line_ = comments_[next_].place.line;
      text += Doc::hardLine() + Doc(comments_[next_++].text);
    }
    return text;
  }

  /// open a, b, c close; each on a line of its own where they don't fit on one.
  template <typename Elements, typename Begin, typename Print>
  Doc list(const char *open, const Elements &elements, Place end, const char *close, Begin begin,
           Print print) {
    Doc inside;
    bool first = true;
    for (const auto &element : elements) {
      Place place = begin(element);
      if (!first) {
        inside += ",";
        Doc behind = trailing(place);
        inside += behind.isEmpty() ? Doc::line() : behind + Doc::hardLine();
      }
      inside += leading(place);
      inside += print(element);
      first = false;
    }
    Doc behind = closing(end);
    if (behind.isEmpty())
      return Doc::group(open + Doc::nested(Doc::softLine() + inside) + Doc::softLine() + close);
    return open + Doc::nested((first ? Doc() : Doc::hardLine()) + inside + behind) +
           Doc::hardLine() + close;
  }

  // ---- declarations ----

  Doc declaration(const TypeDecl &decl) {
    Doc text("type " + decl.name);
    if (!decl.params.empty())
      text += Doc('[' + joined(decl.params, [](const std::string &name) { return name; }) + ']');
    text += " =";
    Doc inside;
    for (size_t i = 0; i < decl.constructors.size(); ++i) {
      const ConstructorDecl &constructor = decl.constructors[i];
      Doc behind = trailing(constructor.place);
      inside += behind.isEmpty() ? Doc::line() : behind + Doc::hardLine();
      inside += leading(constructor.place);
      std::string fields =
          joined(constructor.fields, [](const TypeExpr &type) { return text::print(type); });
      line_ = constructor.place.line;
      inside +=
          Doc((i ? "| " : "") + constructor.name + (fields.empty() ? "" : '(' + fields + ')'));
    }
    return Doc::group(text + Doc::nested(inside));
  }

  Doc declaration(const FunctionDecl &decl) {
    Doc text((decl.constant ? "let " : "fn ") + decl.name);
    if (!decl.constant)
      text += params(decl.params, decl.middle);
    if (decl.result)
      text += Doc((decl.constant ? ": " : " -> ") + text::print(*decl.result));
    text += " =";
    const Expr &body = *decl.body;
    if (body.kind == Expr::Kind::Let)
      return text + " " + block(body);
    Place begin = beginOf(body);
    Doc inside = leading(begin);
    bool own = !inside.isEmpty() || body.kind == Expr::Kind::Match;
    inside += expression(body, 0);
    line_ = std::max(line_, body.end.line);
    return own ? text + Doc::nested(Doc::hardLine() + inside)
               : Doc::group(text + Doc::nested(Doc::line() + inside));
  }

  Doc params(const std::vector<Parameter> &params, Place end) {
    return list(
        "(", params, end, ")", [](const Parameter &param) { return param.place; },
        [](const Parameter &param) {
          return Doc(param.name + (param.type ? ": " + text::print(*param.type) : ""));
        });
  }

  // ---- expressions ----

  /// `level`: the least precedence that needs no parentheses here.
  Doc expression(const Expr &expr, int level) {
    switch (expr.kind) {
    case Expr::Kind::Integer:
    case Expr::Kind::Real:
      return Doc(expr.text[0] == '-' && level >= kUnary ? '(' + expr.text + ')' : expr.text);
    case Expr::Kind::Boolean:
    case Expr::Kind::Name:
      return Doc(expr.text);
    case Expr::Kind::String:
      return Doc('"' + expr.text + '"');
    case Expr::Kind::Load:
      return Doc("load(\"" + expr.text + "\")");
    case Expr::Kind::Call:
      return call(expr);
    case Expr::Kind::Operator:
      return operation(expr, level);
    case Expr::Kind::Function: {
      Doc text = Doc("fn") + params(expr.params, expr.middle) + " =>";
      text += hanging(*expr.parts[0]);
      return level > 0 ? Doc("(") + text + ")" : text;
    }
    case Expr::Kind::Let:
      return block(expr);
    case Expr::Kind::If:
      return conditional(expr);
    case Expr::Kind::Match:
      return match(expr);
    case Expr::Kind::Tuple:
      if (expr.parts.size() == 1)
        return elements("(", expr, 0, ",)");
      return elements("(", expr, 0, ")");
    case Expr::Kind::List:
      return elements("[", expr, 0, "]");
    case Expr::Kind::Ref:
      return "ref" + elements("(", expr, 0, ")");
    case Expr::Kind::Read: {
      Doc text = "*" + leading(beginOf(*expr.parts[0])) + expression(*expr.parts[0], kUnary);
      return level > kUnary ? Doc("(") + text + ")" : text;
    }
    case Expr::Kind::Assign: {
      Doc text = expression(*expr.parts[0], 1) + " :=" + hanging(*expr.parts[1]);
      return level > 0 ? Doc("(") + text + ")" : text;
    }
    case Expr::Kind::Ascribe:
      return Doc("(") + expression(*expr.parts[0], 0) + Doc(" : " + text::print(*expr.type) + ")");
    }
    return {};
  }

  Doc elements(const char *open, const Expr &expr, size_t first, const char *close) {
    std::vector<const Expr *> parts;
    for (size_t i = first; i < expr.parts.size(); ++i)
      parts.push_back(expr.parts[i].get());
    return list(
        open, parts, expr.end, close, [](const Expr *part) { return beginOf(*part); },
        [&](const Expr *part) { return expression(*part, 0); });
  }

  Doc call(const Expr &expr) {
    struct Given {
      const Expr *value;
      const Argument *named;
    };
    std::vector<Given> given;
    for (size_t i = 1; i < expr.parts.size(); ++i)
      given.push_back({expr.parts[i].get(), nullptr});
    for (const Argument &argument : expr.arguments)
      given.push_back({argument.value.get(), &argument});
    Doc callee = expression(*expr.parts[0], kAtom);
    return callee +
           list(
               "(", given, expr.end, ")",
               [](const Given &one) { return one.named ? one.named->place : beginOf(*one.value); },
               [&](const Given &one) {
                 Doc value = expression(*one.value, 0);
                 return one.named ? Doc(one.named->name + " = ") + value : value;
               });
  }

  /// What follows `=>` or `=`: on the same line where it opens a bracket of its own.
  Doc hanging(const Expr &body) {
    Place begin = beginOf(body);
    Doc before = leading(begin);
    Doc inside = expression(body, 0);
    bool opens = body.kind == Expr::Kind::Let || body.kind == Expr::Kind::Match ||
                 body.kind == Expr::Kind::If || body.kind == Expr::Kind::Tuple ||
                 body.kind == Expr::Kind::List || body.kind == Expr::Kind::Ascribe ||
                 body.kind == Expr::Kind::Call || body.kind == Expr::Kind::Function;
    if (!before.isEmpty())
      return Doc::nested(Doc::hardLine() + before + inside);
    return opens ? " " + inside : Doc::group(Doc::nested(Doc::line() + inside));
  }

  static bool isUnequal(const Expr &expr) {
    return expr.text == "not" && expr.parts[0]->kind == Expr::Kind::Operator &&
           expr.parts[0]->text == "equal";
  }

  Doc operation(const Expr &expr, int level) {
    const Expr *pair = isUnequal(expr) ? expr.parts[0].get() : &expr;
    auto sign = kSigns.find(pair == &expr ? expr.text : "!equal");
    if (sign == kSigns.end()) {
      Doc text(expr.text == "neg" ? "-" : "!");
      text += leading(beginOf(*expr.parts[0])) + expression(*expr.parts[0], kUnary);
      return level > kUnary ? Doc("(") + text + ")" : text;
    }
    // A chain on one level is broken as a whole.
    int own = sign->second.second;
    std::vector<std::pair<const char *, const Expr *>> chain;
    const Expr *left = pair;
    const char *text = sign->second.first;
    while (true) {
      chain.push_back({text, left->parts[1].get()});
      left = left->parts[0].get();
      if (left->kind != Expr::Kind::Operator || isUnequal(*left))
        break;
      auto next = kSigns.find(left->text);
      if (next == kSigns.end() || next->second.second != own)
        break;
      text = next->second.first;
    }
    Doc whole = expression(*left, own);
    for (size_t i = chain.size(); i-- > 0;) {
      Place begin = beginOf(*chain[i].second);
      Doc behind = trailing(begin);
      whole += behind.isEmpty() ? Doc::line() : behind + Doc::hardLine();
      whole += leading(begin);
      whole += Doc(std::string(chain[i].first) + ' ') + expression(*chain[i].second, own + 1);
    }
    return Doc::group(own < level ? Doc("(") + whole + ")" : whole);
  }

  Doc conditional(const Expr &expr) {
    Doc text;
    const Expr *one = &expr;
    for (bool first = true;; first = false) {
      text += Doc(first ? "if " : " else if ");
      text += leading(beginOf(*one->parts[0])) + expression(*one->parts[0], 0) + " ";
      text += branch(*one->parts[1], one->middle);
      if (one->parts[2]->kind != Expr::Kind::If)
        break;
      one = one->parts[2].get();
    }
    return Doc::group(text + " else " + branch(*one->parts[2], one->end));
  }

  Doc branch(const Expr &expr, Place end) {
    if (expr.kind == Expr::Kind::Let)
      return block(expr);
    Doc before = leading(beginOf(expr));
    Doc inside = expression(expr, 0), behind = closing(end);
    Doc close = behind.isEmpty() ? Doc::line() : Doc::hardLine();
    return Doc("{") + Doc::nested(Doc::line() + before + inside + behind) + close + "}";
  }

  Doc block(const Expr &expr) {
    Doc inside;
    const Expr *inner = &expr;
    line_ = 0;
    bool nothing = false; // is what the block gives, as after a last statement
    for (; inner->kind == Expr::Kind::Let; inner = inner->parts[0].get()) {
      nothing = inner->cases[0].pattern.kind == Pattern::Kind::Wildcard;
      inside += separate(inner->place, inner == &expr, false);
      if (inner->cases[0].pattern.kind == Pattern::Kind::Wildcard)
        inside += expression(*inner->cases[0].body, 0) + ";";
      else
        inside += Doc("let " + text::print(inner->cases[0].pattern) + " =") +
                  hanging(*inner->cases[0].body) + ";";
      line_ = std::max(line_, inner->cases[0].body->end.line);
    }
    if (!nothing || inner->kind != Expr::Kind::Tuple || !inner->parts.empty()) {
      inside += separate(beginOf(*inner), false, false);
      inside += expression(*inner, 0);
    }
    inside += closing(expr.end);
    line_ = expr.end.line;
    return Doc("{") + Doc::nested(Doc::hardLine() + inside) + Doc::hardLine() + "}";
  }

  Doc match(const Expr &expr) {
    Doc text = Doc("match ") + leading(beginOf(*expr.parts[0])) + expression(*expr.parts[0], 0);
    Doc inside;
    line_ = 0;
    for (const Case &one : expr.cases) {
      inside += separate(one.pattern.place, &one == &expr.cases[0], false);
      inside += Doc(text::print(one.pattern) + " =>");
      inside += hanging(*one.body) + ",";
      line_ = std::max(line_, one.body->end.line);
    }
    inside += closing(expr.end);
    line_ = expr.end.line;
    return text + " {" + Doc::nested(Doc::hardLine() + inside) + Doc::hardLine() + "}";
  }

  const std::vector<Comment> &comments_;
  size_t next_ = 0;   // comment that is not written yet
  uint32_t line_ = 0; // of the source, that was written last
};

} // namespace

std::string print(const TypeExpr &type) {
  auto part = [](const TypeExpr &inner) { return print(inner); };
  switch (type.kind) {
  case TypeExpr::Kind::Tensor:
    return type.name + '[' + joined(type.dims, [](const DimExpr &dim) { return print(dim); }) + ']';
  case TypeExpr::Kind::Name:
    if (!type.dims.empty()) // Size[n]
      return type.name + '[' + print(type.dims[0]) + ']';
    return type.name + (type.parts.empty() ? "" : '[' + joined(type.parts, part) + ']');
  case TypeExpr::Kind::Tuple:
    return '(' + joined(type.parts, part) + (type.parts.size() == 1 ? ",)" : ")");
  case TypeExpr::Kind::Function:
    break;
  }
  std::vector<const TypeExpr *> params;
  for (size_t i = 0; i + 1 < type.parts.size(); ++i)
    params.push_back(&type.parts[i]);
  return '(' + joined(params, [](const TypeExpr *param) { return print(*param); }) + ") -> " +
         print(type.parts.back());
}

std::string print(const Pattern &pattern) {
  auto part = [](const Pattern &inner) { return print(inner); };
  switch (pattern.kind) {
  case Pattern::Kind::Wildcard:
    return "_";
  case Pattern::Kind::Tuple:
    return '(' + joined(pattern.parts, part) + (pattern.parts.size() == 1 ? ",)" : ")");
  default:
    return pattern.name + (pattern.parts.empty() ? "" : '(' + joined(pattern.parts, part) + ')');
  }
}

std::string print(const Module &module, const std::vector<Comment> &comments) {
  return Printer(comments).run(module);
}

} // namespace tensmith::text
