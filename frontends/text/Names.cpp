// What names mean at the top, and which functions call one another.
#include "frontends/text/Inference.h"

#include <algorithm>

namespace tensmith::text {
namespace {

/// Tarjan's strongly connected components, which come out callees first.
class Grouping {
public:
  Grouping(const Module &module, const Names &names) : names_(names) {
    for (const FunctionDecl &function : module.functions)
      if (!numbers_.contains(&function))
        visit(&function);
  }
  std::vector<std::vector<const FunctionDecl *>> groups;

private:
  void collect(const Expr &expr, std::vector<const FunctionDecl *> &called) {
    if (expr.kind == Expr::Kind::Name)
      if (auto found = names_.functions.find(expr.text); found != names_.functions.end())
        called.push_back(found->second);
    for (const ExprPointer &part : expr.parts)
      collect(*part, called);
    for (const Argument &argument : expr.arguments)
      collect(*argument.value, called);
    for (const Case &one : expr.cases)
      collect(*one.body, called);
  }

  int visit(const FunctionDecl *function) {
    int own = int(numbers_.size()), low = own;
    numbers_[function] = own;
    stack_.push_back(function);
    std::vector<const FunctionDecl *> called;
    collect(*function->body, called);
    for (const FunctionDecl *callee : called) {
      if (!numbers_.contains(callee))
        low = std::min(low, visit(callee));
      else if (std::find(stack_.begin(), stack_.end(), callee) != stack_.end())
        low = std::min(low, numbers_[callee]);
    }
    if (low != own)
      return low;
    auto begin = std::find(stack_.begin(), stack_.end(), function);
    groups.emplace_back(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return low;
  }

  const Names &names_;
  std::map<const FunctionDecl *, int> numbers_;
  std::vector<const FunctionDecl *> stack_;
};

bool mentions(const Expr &expr, const Names &names, std::set<const FunctionDecl *> &seen) {
  if (expr.kind == Expr::Kind::Ref || expr.kind == Expr::Kind::Read ||
      expr.kind == Expr::Kind::Assign)
    return true;
  auto inside = [&](const ExprPointer &part) { return mentions(*part, names, seen); };
  if (expr.kind == Expr::Kind::Name)
    if (auto found = names.functions.find(expr.text); found != names.functions.end())
      return seen.insert(found->second).second && mentions(*found->second->body, names, seen);
  return std::any_of(expr.parts.begin(), expr.parts.end(), inside) ||
         std::any_of(expr.arguments.begin(), expr.arguments.end(),
                     [&](const Argument &argument) { return inside(argument.value); }) ||
         std::any_of(expr.cases.begin(), expr.cases.end(),
                     [&](const Case &one) { return inside(one.body); });
}

} // namespace

bool usesReferences(const FunctionDecl &function, const Names &names) {
  std::set<const FunctionDecl *> seen = {&function};
  return mentions(*function.body, names, seen);
}

std::vector<std::vector<const FunctionDecl *>> groupsOf(const Module &module, const Names &names) {
  return Grouping(module, names).groups;
}

Names collectNames(const Module &module, std::vector<Message> &messages) {
  Names names;
  auto twice = [&](Place place, const std::string &name) {
    messages.push_back({place, "'" + name + "' is there already; choose another name"});
  };
  for (const TypeDecl &type : module.types) {
    if (!names.types.try_emplace(type.name, &type).second || type.name == "Ref" ||
        type.name == "Size")
      twice(type.place, type.name);
    for (uint32_t i = 0; i < type.constructors.size(); ++i)
      if (!names.constructors.try_emplace(type.constructors[i].name, ConstructorInfo{&type, i})
               .second)
        twice(type.constructors[i].place, type.constructors[i].name);
  }
  for (const FunctionDecl &function : module.functions)
    if (!names.functions.try_emplace(function.name, &function).second)
      twice(function.place, function.name);
  return names;
}

} // namespace tensmith::text
