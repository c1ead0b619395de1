// From the innermost let outwards, since a copy uses again what is bound around it; see
// LocalPolymorphism.h.
#include "frontends/text/LocalPolymorphism.h"

#include <algorithm>
#include <utility>

namespace tensmith::text {
namespace {

constexpr size_t kMostUses = 64, kMostCopied = 20'000; // of one name; expressions of a program

std::unique_ptr<TypeExpr> copy(const std::unique_ptr<TypeExpr> &type) {
  return type ? std::make_unique<TypeExpr>(*type) : nullptr;
}

ExprPointer copy(const Expr &expr, size_t &copied) {
  ++copied;
  auto result = std::make_unique<Expr>();
  result->kind = expr.kind;
  result->depth = expr.depth;
  result->place = expr.place;
  result->end = expr.end;
  result->middle = expr.middle;
  result->text = expr.text;
  for (const ExprPointer &part : expr.parts)
    result->parts.push_back(copy(*part, copied));
  for (const Argument &argument : expr.arguments)
    result->arguments.push_back({argument.place, argument.name, copy(*argument.value, copied)});
  for (const Parameter &param : expr.params)
    result->params.push_back({param.place, param.name, copy(param.type)});
  for (const Case &one : expr.cases)
    result->cases.push_back({one.pattern, copy(*one.body, copied)});
  result->type = copy(expr.type);
  return result;
}

/// Whether it is a value as it is written.
bool isValue(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Kind::Function:
  case Expr::Kind::Integer:
  case Expr::Kind::Real:
  case Expr::Kind::Boolean:
  case Expr::Kind::Name:
    return true;
  case Expr::Kind::Call: { // of a constructor
    const Expr &callee = *expr.parts[0];
    if (callee.kind != Expr::Kind::Name || callee.text[0] < 'A' || callee.text[0] > 'Z')
      return false;
    break;
  }
  case Expr::Kind::Operator: // of numbers
    for (const ExprPointer &part : expr.parts)
      if (part->kind == Expr::Kind::Name || part->kind == Expr::Kind::Function)
        return false;
    break;
  case Expr::Kind::Tuple:
  case Expr::Kind::List:
  case Expr::Kind::Ascribe:
    break;
  default:
    return false;
  }
  return std::all_of(expr.parts.begin(), expr.parts.end(),
                     [](const ExprPointer &part) { return isValue(*part); });
}

bool binds(const Pattern &pattern, const std::string &name) {
  if (pattern.kind == Pattern::Kind::Name)
    return pattern.name == name;
  return std::any_of(pattern.parts.begin(), pattern.parts.end(),
                     [&](const Pattern &part) { return binds(part, name); });
}

/// Where the name, which is bound around the expression, stands in it.
void usesOf(const std::string &name, Expr &expr, std::vector<Expr *> &uses) {
  if (expr.kind == Expr::Kind::Name && expr.text == name)
    uses.push_back(&expr);
  for (const Argument &argument : expr.arguments)
    usesOf(name, *argument.value, uses);
  bool isLet = expr.kind == Expr::Kind::Let;
  for (const Case &one : expr.cases)
    if (isLet || !binds(one.pattern, name))
      usesOf(name, *one.body, uses);
  bool hidden = (isLet && binds(expr.cases[0].pattern, name)) ||
                std::any_of(expr.params.begin(), expr.params.end(),
                            [&](const Parameter &param) { return param.name == name; });
  for (const ExprPointer &part : expr.parts)
    if (!hidden)
      usesOf(name, *part, uses);
}

class Copying {
public:
  void visit(ExprPointer &expr) {
    for (Case &one : expr->cases)
      visit(one.body);
    for (Argument &argument : expr->arguments)
      visit(argument.value);
    for (ExprPointer &part : expr->parts)
      visit(part);
    if (expr->kind == Expr::Kind::Let && expr->cases[0].pattern.kind == Pattern::Kind::Name &&
        isValue(*expr->cases[0].body))
      split(expr);
  }
  bool changed() const { return copied_ > 0; }

private:
  /// The copies are bound before the name is, which hides what the value may mean by it.
  void split(ExprPointer &let) {
    const Expr &own = *let;
    const Pattern &pattern = own.cases[0].pattern;
    std::vector<Expr *> uses;
    usesOf(pattern.name, *let->parts[0], uses);
    if (uses.size() < 2 || uses.size() > kMostUses)
      return;
    for (size_t i = 1; i < uses.size() && copied_ < kMostCopied; ++i) {
      auto outer = std::make_unique<Expr>();
      outer->kind = Expr::Kind::Let;
      outer->depth = let->depth + 1;
      outer->place = let->place;
      outer->end = let->end;
      outer->middle = let->middle;
      Pattern named = pattern;
      named.name = uses[i]->text = pattern.name + "'" + std::to_string(number_++);
      outer->cases.push_back({std::move(named), copy(*own.cases[0].body, copied_)});
      outer->parts.push_back(std::move(let));
      let = std::move(outer);
    }
  }

  size_t copied_ = 0;
  int number_ = 0;
};

} // namespace

bool copyLocalValues(Module &module) {
  Copying copying;
  for (FunctionDecl &function : module.functions)
    if (!function.prelude && function.body)
      copying.visit(function.body);
  return copying.changed();
}

} // namespace tensmith::text
