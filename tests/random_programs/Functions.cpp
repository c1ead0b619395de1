// Functions at the top: plain, by a counter, over the parts of a value, and for all types.
#include "tests/random_programs/Generator.h"

#include <algorithm>

namespace tensmith::random_programs {

void Generator::addDeclaration(const Function &function, const std::vector<std::string> &names,
                               ExprPointer body) {
  // With its types, with some of them, or with none.
  // One for all types needs them: what is not written there has nothing to do with the rest.
  int annotated = function.variables.empty() ? below(3) : 0;
  // What a body that names sizes gives must be told by something outside of it.
  bool tellsResult = annotated != 2 || function.result.kind == Type::Kind::Tensor;
  text::FunctionDecl decl;
  decl.name = function.name;
  for (size_t i = 0; i < names.size(); ++i) {
    bool written = annotated == 0 || (annotated == 1 && chance(50)) ||
                   function.params[i].hasFunctions() ||
                   (!tellsResult && function.params[i].isOpen());
    decl.params.push_back(parameter(names[i], written ? &function.params[i] : nullptr));
  }
  if (tellsResult)
    decl.result = std::make_unique<text::TypeExpr>(written(function.result));
  decl.body = std::move(body);
  module_.functions.push_back(std::move(decl));
}

/// Null where it can't be had here.
const Generator::Function *Generator::makeFunction(const Type &result) {
  --functionsLeft_;
  auto made = std::make_unique<Function>();
  made->name = fresh((prefix_ + "f").c_str());
  made->result = result;
  std::vector<Variable> around;
  std::swap(around, scope_);
  bool openAround = open_, namedAround = std::exchange(named_, false);
  open_ = result.isOpen() || (open_ && chance(30));
  ExprPointer body;
  switch (below(3)) {
  case 0:
    makeRecursive(*made, body);
    break;
  case 1:
    makeStructural(*made, body);
    break;
  default:
    for (int i = 1 + below(3); i > 0; --i)
      made->params.push_back(chance(20) ? reference(randomType(1, false))
                                        : randomType(2, chance(40)));
    if (open_)
      made->params.insert(made->params.end(), {tensor("f32", {"n"}), tensor("f32", {"n", "5"})});
    for (const Type &param : made->params)
      scope_.push_back({fresh("p"), param});
    std::vector<Variable> params = scope_;
    body = value(result, 3);
    scope_ = params;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < made->params.size(); ++i)
    names.push_back(scope_[i].name);
  addDeclaration(*made, names, std::move(body));
  scope_ = std::move(around);
  open_ = openAround;
  named_ = namedAround;
  functions_.push_back(std::move(made));
  return functions_.back().get();
}

/// fn f(k, ...) = if k <= 0 { ... } else { ... f(k - 1, ...) ... }, as a tail call or not, once or
/// twice.
void Generator::makeRecursive(Function &function, ExprPointer &body) {
  function.params = {tensor("i64"), function.result,
                     chance(40) ? reference(randomType(1, false)) : randomType(1, false)};
  if (open_)
    function.params.insert(function.params.end(),
                           {tensor("f32", {"n"}), tensor("f32", {"n", "5"})});
  for (const Type &param : function.params)
    scope_.push_back({fresh("p"), param});
  std::vector<Variable> params = scope_;
  auto again = [&] {
    std::vector<ExprPointer> arguments = parts(sign("sub", name(params[0].name), integer(1)));
    for (size_t i = 1; i < params.size(); ++i)
      arguments.push_back(value(params[i].type, 2));
    return call(name(function.name), std::move(arguments));
  };
  ExprPointer base = value(function.result, 2), step;
  if (chance(40)) {
    step = again();
  } else {
    std::vector<std::pair<std::string, ExprPointer>> calls;
    for (int i = 1 + chance(30); i > 0; --i)
      calls.push_back({fresh("r"), again()});
    for (auto &[own, ignored] : calls)
      scope_.push_back({own, function.result});
    step = value(function.result, 3);
    for (size_t i = calls.size(); i-- > 0;)
      step = let(bound(calls[i].first), std::move(calls[i].second), std::move(step));
  }
  scope_ = params;
  body = choice(sign("less_or_equal", name(params[0].name), integer(0)), std::move(base),
                std::move(step));
}

/// fn f(value, ...) = match value { C(part, ...) => ... f(part, ...) ..., ... }
void Generator::makeStructural(Function &function, ExprPointer &body) {
  Type whole = randomType(2, false);
  if (whole.kind != Type::Kind::Data)
    whole = data(chance(50) ? "List" : "Tree", {whole});
  function.params = {whole,
                     chance(30) ? reference(randomType(1, false)) : randomType(1, chance(30))};
  if (open_)
    function.params.insert(function.params.end(),
                           {tensor("f32", {"n"}), tensor("f32", {"n", "5"})});
  for (const Type &param : function.params)
    scope_.push_back({fresh("p"), param});
  std::vector<Variable> params = scope_;
  std::vector<text::Case> cases;
  for (size_t i = 0; i < data_[whole.name].constructors.size(); ++i) {
    scope_ = params;
    std::vector<text::Pattern> fields;
    std::vector<std::pair<std::string, ExprPointer>> calls;
    for (const Type &field : fieldsOf(whole, i)) {
      std::string own = fresh("q");
      fields.push_back(bound(own));
      scope_.push_back({own, field});
    }
    for (size_t part = 0; part < fields.size(); ++part)
      if (fieldsOf(whole, i)[part] == whole) {
        std::vector<ExprPointer> arguments = parts(name(fields[part].name));
        for (size_t p = 1; p < params.size(); ++p)
          arguments.push_back(value(params[p].type, 1));
        calls.push_back({fresh("r"), call(name(function.name), std::move(arguments))});
      }
    for (auto &[own, ignored] : calls)
      scope_.push_back({own, function.result});
    ExprPointer result = value(function.result, 3);
    for (size_t at = calls.size(); at-- > 0;)
      result = let(bound(calls[at].first), std::move(calls[at].second), std::move(result));
    cases.push_back(
        when(random_programs::built(data_[whole.name].constructors[i].name, std::move(fields)),
             std::move(result)));
  }
  scope_ = params;
  body = match(name(params[0].name), std::move(cases));
}

/// One that takes any types: what it does with them is only to pass them on.
void Generator::makeGeneric() {
  auto made = std::make_unique<Function>();
  made->name = fresh((prefix_ + "g").c_str());
  Type a{Type::Kind::Variable, "a", {}, {}}, b{Type::Kind::Variable, "b", {}, {}};
  made->variables = {"a", "b"};
  made->params = {a, b, chance(50) ? function({a, b}) : data("List", {a}), tensor("bool")};
  std::vector<Type> results = {
      a, b, tuple({b, a}), data("List", {b}), function({b, a}), data("Option", {tuple({a, b})})};
  made->result = oneOf(results);
  open_ = false;
  left_ = kGenericExpressions;
  std::vector<std::string> names;
  for (const Type &param : made->params) {
    names.push_back(fresh("p"));
    scope_.push_back({names.back(), param});
  }
  int functions = std::exchange(functionsLeft_, 0);
  ExprPointer body = value(made->result, 3);
  functionsLeft_ = functions;
  scope_.clear();
  addDeclaration(*made, names, std::move(body));
  functions_.push_back(std::move(made));
}

} // namespace tensmith::random_programs
