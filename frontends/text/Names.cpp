// What names mean at the top, and which functions call one another.
#include "frontends/text/Inference.h"
#include "frontends/text/Modules.h"

#include <algorithm>

namespace tensmith::text {
namespace {

void addNames(const Pattern &pattern, std::vector<std::string> &names) {
  if (pattern.kind == Pattern::Kind::Name)
    names.push_back(pattern.name);
  for (const Pattern &part : pattern.parts)
    addNames(part, names);
}

std::vector<std::string> namesOf(const std::vector<Parameter> &params) {
  std::vector<std::string> names;
  for (const Parameter &param : params)
    names.push_back(param.name);
  return names;
}

/// Calls `visit(part, bound)` with each part of the expression until one says so, `bound` being
/// what names mean something else in it than at the top.
template <typename Visit>
bool anyPart(const Expr &expr, const std::vector<std::string> &bound, Visit visit) {
  std::vector<std::string> inner = bound;
  for (const std::string &name : namesOf(expr.params))
    inner.push_back(name);
  if (expr.kind == Expr::Kind::Let)
    addNames(expr.cases[0].pattern, inner);
  for (const ExprPointer &part : expr.parts)
    if (visit(*part, inner))
      return true;
  for (const Argument &argument : expr.arguments)
    if (visit(*argument.value, bound))
      return true;
  for (const Case &one : expr.cases) {
    std::vector<std::string> ofCase = bound;
    if (expr.kind == Expr::Kind::Match)
      addNames(one.pattern, ofCase);
    if (visit(*one.body, ofCase))
      return true;
  }
  return false;
}

/// What is called so at the top, where the name isn't bound to something else.
const FunctionDecl *atTop(const Expr &expr, const Names &names,
                          const std::vector<std::string> &bound) {
  if (expr.kind != Expr::Kind::Name ||
      std::find(bound.begin(), bound.end(), expr.text) != bound.end())
    return nullptr;
  auto found = names.functions.find(expr.text);
  return found == names.functions.end() ? nullptr : found->second;
}

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
  bool collect(const Expr &expr, const std::vector<std::string> &bound,
               std::vector<const FunctionDecl *> &called) {
    if (const FunctionDecl *function = atTop(expr, names_, bound))
      called.push_back(function);
    return anyPart(expr, bound, [&](const Expr &part, const std::vector<std::string> &inner) {
      return collect(part, inner, called);
    });
  }

  int visit(const FunctionDecl *function) {
    int own = int(numbers_.size()), low = own;
    numbers_[function] = own;
    stack_.push_back(function);
    std::vector<const FunctionDecl *> called;
    collect(*function->body, namesOf(function->params), called);
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

bool mentions(const Expr &expr, const Names &names, const std::vector<std::string> &bound,
              std::set<const FunctionDecl *> &seen) {
  if (expr.kind == Expr::Kind::Ref || expr.kind == Expr::Kind::Read ||
      expr.kind == Expr::Kind::Assign)
    return true;
  if (const FunctionDecl *function = atTop(expr, names, bound))
    return seen.insert(function).second &&
           mentions(*function->body, names, namesOf(function->params), seen);
  return anyPart(expr, bound, [&](const Expr &part, const std::vector<std::string> &inner) {
    return mentions(part, names, inner, seen);
  });
}

void addSizes(const DimExpr &dim, std::vector<std::string> &sizes) {
  if (dim.kind == DimExpr::Kind::Name)
    sizes.push_back(dim.name);
  for (const DimExpr &part : dim.parts)
    addSizes(part, sizes);
}

/// The sizes that a type names; none where it isn't written.
void addSizes(const TypeExpr *type, std::vector<std::string> &sizes) {
  if (!type)
    return;
  for (const DimExpr &dim : type->dims)
    addSizes(dim, sizes);
  for (const TypeExpr &part : type->parts)
    addSizes(&part, sizes);
}

/// Names of imported files that the program would give another meaning.
class Hiding {
public:
  Hiding(const std::set<std::string> &declared, std::vector<Message> &messages)
      : declared_(declared), messages_(messages) {}

  void run(FunctionDecl &function, const std::set<std::string> &visible) {
    visible_ = &visible;
    std::vector<std::string> bound = namesOf(function.params);
    for (const Parameter &param : function.params)
      addSizes(param.type.get(), bound);
    addSizes(function.result.get(), bound);
    visit(*function.body, bound, false);
  }

private:
  bool isHidden(const Expr &expr, const std::vector<std::string> &bound) const {
    return expr.kind == Expr::Kind::Name && declared_.contains(expr.text) &&
           !visible_->contains(expr.text) &&
           std::find(bound.begin(), bound.end(), expr.text) == bound.end();
  }

  /// `named`: within an argument that has a name, where names may be those of sizes and types.
  void visit(Expr &expr, const std::vector<std::string> &bound, bool named) {
    if (isHidden(expr, bound) && findOperator(expr.text))
      expr.text = kOperatorPrefix + expr.text;
    if (!named && isHidden(expr, bound))
      messages_.push_back({expr.place, "'" + expr.text +
                                           "' is neither in this file nor in one that it imports; "
                                           "import the one that has it"});
    anyPart(expr, bound, [&](Expr &part, const std::vector<std::string> &inner) {
      std::vector<std::string> own = inner;
      for (const Parameter &param : expr.params)
        addSizes(param.type.get(), own);
      visit(part, own,
            named || std::any_of(expr.arguments.begin(), expr.arguments.end(),
                                 [&](const Argument &one) { return one.value.get() == &part; }));
      return false;
    });
  }

  const std::set<std::string> &declared_;
  std::vector<Message> &messages_;
  const std::set<std::string> *visible_ = nullptr;
};

} // namespace

void hideNames(Module &module, const std::vector<std::set<std::string>> &visible,
               std::vector<Message> &messages) {
  std::set<std::string> declared;
  for (const FunctionDecl &function : module.functions)
    declared.insert(function.name);
  Hiding hiding(declared, messages);
  for (FunctionDecl &function : module.functions)
    if (function.place.file != 0 && function.body)
      hiding.run(function, visible[function.place.file]);
}

bool usesReferences(const FunctionDecl &function, const Names &names) {
  std::set<const FunctionDecl *> seen = {&function};
  return mentions(*function.body, names, namesOf(function.params), seen);
}

std::vector<std::vector<const FunctionDecl *>> groupsOf(const Module &module, const Names &names) {
  return Grouping(module, names).groups;
}

/// What a field's type leaves open must be one of the declaration's: a name that is not would be
/// another type wherever the constructor stands.
static void checkField(const TypeDecl &decl, const TypeExpr &type, std::vector<Message> &messages) {
  auto isParam = [&](const std::string &name) {
    return std::find(decl.params.begin(), decl.params.end(), name) != decl.params.end();
  };
  bool open = type.kind == TypeExpr::Kind::Name && !type.name.empty() && type.name[0] >= 'a' &&
              type.name[0] <= 'z';
  if (open && !isParam(type.name))
    messages.push_back({type.place, "'" + type.name + "' is no parameter of " + decl.name +
                                        "; write type " + decl.name + "[" +
                                        (decl.params.empty() ? "" : "..., ") + type.name + "]"});
  if (type.kind == TypeExpr::Kind::Tensor && type.name.size() == 1)
    messages.push_back({type.place, "the element type of a data type's field is written, as f32, "
                                    "or the whole type is a parameter"});
  for (const TypeExpr &part : type.parts)
    checkField(decl, part, messages);
}

static void checkFields(const TypeDecl &decl, std::vector<Message> &messages) {
  std::set<std::string> params;
  for (const std::string &param : decl.params)
    if (!params.insert(param).second)
      messages.push_back({decl.place, "'" + param + "' is a parameter of " + decl.name + " twice"});
  for (const ConstructorDecl &constructor : decl.constructors)
    for (const TypeExpr &field : constructor.fields)
      checkField(decl, field, messages);
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
    checkFields(type, messages);
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
