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

} // namespace

std::vector<std::vector<const FunctionDecl *>> groupsOf(const Module &module, const Names &names) {
  return Grouping(module, names).groups;
}

Names collectNames(const Module &module, std::vector<Message> &messages) {
  Names names;
  auto twice = [&](Place place, const std::string &name) {
    messages.push_back({place, "'" + name + "' is there already; choose another name"});
  };
  for (const TypeDecl &type : module.types) {
    if (!names.types.try_emplace(type.name, &type).second)
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
