// The one layout of a program. Printing what was parsed from a print gives the same text.
#include "frontends/text/Ast.h"

#include <map>

namespace tensmith::text {
namespace {

const std::map<std::string, std::pair<const char *, int>> kSigns = {{"or", {"||", 1}},
                                                                    {"and", {"&&", 2}},
                                                                    {"equal", {"==", 3}},
                                                                    {"less", {"<", 3}},
                                                                    {"less_or_equal", {"<=", 3}},
                                                                    {"greater", {">", 3}},
                                                                    {"greater_or_equal", {">=", 3}},
                                                                    {"add", {"+", 4}},
                                                                    {"sub", {"-", 4}},
                                                                    {"mul", {"*", 5}},
                                                                    {"div", {"/", 5}},
                                                                    {"mod", {"%", 5}},
                                                                    {"matmul", {"@", 5}}};
constexpr int kUnary = 6, kAtom = 7;

std::string print(const DimExpr &dim) {
  constexpr const char *signs[] = {"", "", "", " + ", " - ", " * ", " / "};
  switch (dim.kind) {
  case DimExpr::Kind::Size:
    return std::to_string(dim.size);
  case DimExpr::Kind::Name:
    return dim.name;
  case DimExpr::Kind::Unknown:
    return "?";
  default:
    return print(dim.parts[0]) + signs[size_t(dim.kind)] + print(dim.parts[1]);
  }
}

template <typename Elements, typename Print>
std::string joined(const Elements &elements, Print print) {
  std::string text;
  for (const auto &element : elements)
    text += (text.empty() ? "" : ", ") + print(element);
  return text;
}

class Printer {
public:
  std::string text;

  void declaration(const TypeDecl &decl) {
    text += "type " + decl.name;
    if (!decl.params.empty())
      text += '[' + joined(decl.params, [](const std::string &name) { return name; }) + ']';
    text += " = ";
    for (size_t i = 0; i < decl.constructors.size(); ++i) {
      const ConstructorDecl &constructor = decl.constructors[i];
      text += (i ? " | " : "") + constructor.name;
      if (!constructor.fields.empty())
        text += '(' +
                joined(constructor.fields, [](const TypeExpr &type) { return text::print(type); }) +
                ')';
    }
    text += "\n";
  }

  void declaration(const FunctionDecl &decl) {
    text += (decl.constant ? "let " : "fn ") + decl.name;
    if (!decl.constant)
      text += '(' + params(decl.params) + ')';
    if (decl.result)
      text += (decl.constant ? ": " : " -> ") + text::print(*decl.result);
    text += " =\n  ";
    indent_ = 1;
    expression(*decl.body, 0);
    text += "\n";
  }

private:
  static std::string params(const std::vector<Parameter> &params) {
    return joined(params, [](const Parameter &param) {
      return param.name + (param.type ? ": " + text::print(*param.type) : "");
    });
  }

  void newLine() { text += '\n' + std::string(2 * size_t(indent_), ' '); }

  void expressions(const std::vector<ExprPointer> &parts, size_t first = 0) {
    for (size_t i = first; i < parts.size(); ++i) {
      text += i > first ? ", " : "";
      expression(*parts[i], 0);
    }
  }

  /// `level`: the least precedence that needs no parentheses here.
  void expression(const Expr &expr, int level) {
    switch (expr.kind) {
    case Expr::Kind::Integer:
    case Expr::Kind::Real:
      return negative(expr, level);
    case Expr::Kind::Boolean:
    case Expr::Kind::Name:
      text += expr.text;
      return;
    case Expr::Kind::String:
      text += '"' + expr.text + '"';
      return;
    case Expr::Kind::Load:
      text += "load(\"" + expr.text + "\")";
      return;
    case Expr::Kind::Call:
      return call(expr);
    case Expr::Kind::Operator:
      return operation(expr, level);
    case Expr::Kind::Function:
      text += level > 0 ? "(" : "";
      text += "fn(" + params(expr.params) + ") => ";
      expression(*expr.parts[0], 0);
      text += level > 0 ? ")" : "";
      return;
    case Expr::Kind::Let:
      return block(expr);
    case Expr::Kind::If:
      text += "if ";
      expression(*expr.parts[0], 0);
      text += ' ';
      block(*expr.parts[1]);
      text += " else ";
      block(*expr.parts[2]);
      return;
    case Expr::Kind::Match:
      return match(expr);
    case Expr::Kind::Tuple:
      text += '(';
      expressions(expr.parts);
      text += expr.parts.size() == 1 ? ",)" : ")";
      return;
    case Expr::Kind::List:
      text += '[';
      expressions(expr.parts);
      text += ']';
      return;
    case Expr::Kind::Ascribe:
      text += '(';
      expression(*expr.parts[0], 0);
      text += " : " + text::print(*expr.type) + ')';
      return;
    }
  }

  void negative(const Expr &expr, int level) {
    bool closed = expr.text[0] == '-' && level >= kUnary;
    text += closed ? '(' + expr.text + ')' : expr.text;
  }

  void call(const Expr &expr) {
    expression(*expr.parts[0], kAtom);
    text += '(';
    expressions(expr.parts, 1);
    for (size_t i = 0; i < expr.arguments.size(); ++i) {
      text += (i || expr.parts.size() > 1 ? ", " : "") + expr.arguments[i].name + " = ";
      expression(*expr.arguments[i].value, 0);
    }
    text += ')';
  }

  void operation(const Expr &expr, int level) {
    auto sign = kSigns.find(expr.text);
    int own = sign == kSigns.end() ? kUnary : sign->second.second;
    text += own < level ? "(" : "";
    if (sign == kSigns.end()) {
      text += expr.text == "neg" ? "-" : "!";
      expression(*expr.parts[0], kUnary);
    } else {
      expression(*expr.parts[0], own);
      text += std::string(" ") + sign->second.first + ' ';
      expression(*expr.parts[1], own + 1);
    }
    text += own < level ? ")" : "";
  }

  void block(const Expr &expr) {
    text += '{';
    ++indent_;
    const Expr *inner = &expr;
    for (; inner->kind == Expr::Kind::Let; inner = inner->parts[0].get()) {
      newLine();
      text += "let " + text::print(inner->cases[0].pattern) + " = ";
      expression(*inner->cases[0].body, 0);
      text += ';';
    }
    newLine();
    expression(*inner, 0);
    --indent_;
    newLine();
    text += '}';
  }

  void match(const Expr &expr) {
    text += "match ";
    expression(*expr.parts[0], 0);
    text += " {";
    ++indent_;
    for (const Case &one : expr.cases) {
      newLine();
      text += text::print(one.pattern) + " => ";
      expression(*one.body, 0);
      text += ',';
    }
    --indent_;
    newLine();
    text += '}';
  }

  int indent_ = 0;
};

} // namespace

std::string print(const TypeExpr &type) {
  auto part = [](const TypeExpr &inner) { return print(inner); };
  switch (type.kind) {
  case TypeExpr::Kind::Tensor:
    return type.name + '[' + joined(type.dims, [](const DimExpr &dim) { return print(dim); }) + ']';
  case TypeExpr::Kind::Name:
    return type.name + (type.parts.empty() ? "" : '[' + joined(type.parts, part) + ']');
  case TypeExpr::Kind::Tuple:
    return '(' + joined(type.parts, part) + ')';
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
    return '(' + joined(pattern.parts, part) + ')';
  default:
    return pattern.name + (pattern.parts.empty() ? "" : '(' + joined(pattern.parts, part) + ')');
  }
}

std::string print(const Module &module) {
  Printer printer;
  bool first = true;
  for (const TypeDecl &type : module.types)
    printer.declaration(type), first = false;
  for (const FunctionDecl &function : module.functions) {
    printer.text += first ? "" : "\n";
    printer.declaration(function);
    first = false;
  }
  return printer.text;
}

} // namespace tensmith::text
