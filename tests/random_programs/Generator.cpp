// Declarations, and the forms that are there for every type; see Generator.h.
#include "tests/random_programs/Generator.h"

#include <algorithm>
#include <functional>

namespace tensmith::random_programs {
namespace {

constexpr int kMostExpressions = 220, kMostFunctions = 5;

/// Whether the pattern, a type with variables, can be the type; which they are then.
bool unify(const Type &pattern, const Type &type, const std::vector<std::string> &names,
           std::vector<std::optional<Type>> &found) {
  if (pattern.kind == Type::Kind::Variable) {
    auto &slot = found[size_t(std::find(names.begin(), names.end(), pattern.name) - names.begin())];
    if (!slot)
      slot = type;
    return *slot == type;
  }
  if (pattern.kind != type.kind || pattern.name != type.name || pattern.dims != type.dims ||
      pattern.parts.size() != type.parts.size())
    return false;
  for (size_t i = 0; i < type.parts.size(); ++i)
    if (!unify(pattern.parts[i], type.parts[i], names, found))
      return false;
  return true;
}

} // namespace

std::vector<Input> inputs() {
  return {{"x", tensor("f32", {"n", "5"})},
          {"v", tensor("f32", {"n"})},
          {"w", tensor("f32", {"5", "3"})},
          {"c", tensor("f32", {"5"})},
          {"k", tensor("i64")},
          {"b", tensor("bool")},
          {"l", data("List", {tensor("i64")})}};
}

Generator::Generator(uint64_t seed, std::string prefix)
    : random_(seed * 0x9e3779b97f4a7c15u + 1), prefix_(std::move(prefix)) {
  Type a{Type::Kind::Variable, "a", {}, {}};
  data_["List"] = {{"a"}, {{"Nil", {}}, {"Cons", {a, data("List", {a})}}}};
  data_["Option"] = {{"a"}, {{"None", {}}, {"Some", {a}}}};
  data_["Tree"] = {{"a"}, {{"Leaf", {a}}, {"Node", {data("Tree", {a}), data("Tree", {a})}}}};
  dataNames_ = {"List", "Option", "Tree"};
}

text::Module Generator::run() {
  for (int i = below(3); i > 0; --i)
    declareData();
  functionsLeft_ = kMostFunctions;
  for (int i = below(3); i > 0; --i)
    makeGeneric();
  Function main{prefix_ + "main", {}, {}, {}};
  std::vector<std::string> names;
  for (const Input &input : inputs()) {
    main.params.push_back(input.type);
    names.push_back(input.name);
    scope_.push_back({input.name, input.type});
  }
  left_ = kMostExpressions;
  open_ = named_ = true;
  main.result = randomType(2, false);
  ExprPointer body = value(main.result, 5);
  text::FunctionDecl decl;
  decl.name = main.name;
  for (size_t i = 0; i < names.size(); ++i)
    decl.params.push_back(parameter(names[i], &main.params[i]));
  decl.body = std::move(body);
  module_.functions.push_back(std::move(decl));
  return std::move(module_);
}

// ---- data types ----

void Generator::declareData() {
  std::string upper = prefix_;
  upper[0] = char(std::toupper(upper[0]));
  std::string own = fresh((upper + "D").c_str());
  Data result;
  if (chance(60))
    result.params.push_back("a");
  std::vector<Type> params;
  for (const std::string &param : result.params)
    params.push_back({Type::Kind::Variable, param, {}, {}});
  text::TypeDecl decl;
  decl.name = own;
  decl.params = result.params;
  open_ = false;
  for (int i = 0, count = 1 + below(3); i < count; ++i) {
    Constructor one{fresh((upper + "C").c_str()), {}};
    for (int field = below(4); field > 0; --field)
      one.fields.push_back(i > 0 && chance(40)             ? data(own, params)
                           : !params.empty() && chance(50) ? params[0]
                                                           : randomType(1, chance(15)));
    text::ConstructorDecl written;
    written.name = one.name;
    for (const Type &field : one.fields)
      written.fields.push_back(random_programs::written(field));
    decl.constructors.push_back(std::move(written));
    result.constructors.push_back(std::move(one));
  }
  module_.types.push_back(std::move(decl));
  data_[own] = std::move(result);
  dataNames_.push_back(own);
}

std::vector<Type> Generator::fieldsOf(const Type &type, size_t constructor) const {
  const Data &data = data_.at(type.name);
  std::vector<Type> fields;
  for (const Type &field : data.constructors[constructor].fields)
    fields.push_back(substitute(field, data.params, type.parts));
  return fields;
}

// ---- types ----

Type Generator::randomTensor() {
  static const std::vector<Type> closed = {tensor("i64"),
                                           tensor("i64"),
                                           tensor("bool"),
                                           tensor("f32"),
                                           tensor("f32"),
                                           tensor("f32", {"5"}),
                                           tensor("f32", {"3"}),
                                           tensor("f32", {"3", "5"}),
                                           tensor("f32", {"5", "3"}),
                                           tensor("i64", {"5"}),
                                           tensor("f32", {"1", "5"})};
  static const std::vector<Type> opened = {tensor("f32", {"n"}), tensor("f32", {"n", "5"})};
  return open_ && chance(30) ? oneOf(opened) : oneOf(closed);
}

Type Generator::randomType(int depth, bool functions) {
  if (depth <= 0 || chance(45))
    return randomTensor();
  std::vector<Type> parts;
  if (functions && chance(30)) {
    for (int i = 1 + below(2); i >= 0; --i)
      parts.push_back(randomType(depth - 1, false));
    return function(std::move(parts));
  }
  if (chance(40)) {
    for (int i = 2 + below(2); i > 0; --i)
      parts.push_back(randomType(depth - 1, functions));
    return tuple(std::move(parts));
  }
  const std::string &name = oneOf(dataNames_);
  for (size_t i = 0; i < data_[name].params.size(); ++i)
    parts.push_back(randomType(depth - 1, functions));
  return data(name, std::move(parts));
}

// ---- values ----

ExprPointer Generator::variable(const Type &type) {
  std::vector<std::pair<const Variable *, bool>> found; // whether it is read
  for (const Variable &one : scope_)
    if (one.type == type || one.type == reference(type))
      found.push_back({&one, one.type != type});
  if (found.empty())
    return nullptr;
  // What was bound last is meant to be used.
  size_t at = chance(50) ? found.size() - 1 : size_t(below(int(found.size())));
  ExprPointer used = name(found[at].first->name);
  return found[at].second ? make(Expr::Kind::Read, "", parts(std::move(used))) : std::move(used);
}

ExprPointer Generator::leaf(const Type &type) {
  if (type.kind == Type::Kind::Variable || type.isOpen() || chance(70))
    if (ExprPointer found = variable(type))
      return found;
  static const std::vector<std::string> reals = {"0.5", "1.25", "-0.75", "2.0", "0.125", "1e-2"};
  std::vector<ExprPointer> fields;
  switch (type.kind) {
  case Type::Kind::Variable:
    break; // a parameter has it
  case Type::Kind::Tensor:
    if (type.name == "bool")
      return make(Expr::Kind::Boolean, chance(50) ? "true" : "false");
    if (type.isScalar())
      return type.isInteger() ? integer(below(20) - 6) : real(oneOf(reals));
    if (type.isInteger())
      return ascribe(with(call("iota"), "axis", integer(0)), type);
    if (type.dims == std::vector<std::string>{"n", "5"})
      return name("x");
    return type.isOpen() ? name("v") : ascribe(call("broadcast", real(oneOf(reals))), type);
  case Type::Kind::Tuple:
    for (const Type &part : type.parts)
      fields.push_back(leaf(part));
    return make(Expr::Kind::Tuple, "", std::move(fields));
  case Type::Kind::Data:
    if (type.name == "Ref")
      return make(Expr::Kind::Ref, "", parts(leaf(type.parts[0])));
    for (const Type &field : fieldsOf(type, 0))
      fields.push_back(leaf(field));
    return constructed(type, 0, std::move(fields));
  case Type::Kind::Function:
    return lambdaValue(type, 0);
  }
  return name(type.name);
}

ExprPointer Generator::value(const Type &type, int depth) {
  if (depth <= 0 || --left_ <= 0)
    return leaf(type);
  switch (below(14)) {
  case 0:
    return leaf(type);
  case 12:
  case 13:
    if (ExprPointer found = assigning(type, depth))
      return found;
    return built(type, depth);
  case 1:
  case 2:
    return binding(type, depth);
  case 3:
    return choice(booleanValue(depth - 1), value(type, depth - 1), value(type, depth - 1));
  case 4:
    return matching(type, depth);
  case 5:
    return folding(type, depth);
  case 6:
    return applying(type, depth);
  case 7:
  case 8:
    return calling(type, depth);
  default:
    return built(type, depth);
  }
}

/// By what makes values of this type alone.
ExprPointer Generator::built(const Type &type, int depth) {
  std::vector<ExprPointer> fields;
  switch (type.kind) {
  case Type::Kind::Variable:
    return leaf(type);
  case Type::Kind::Tensor:
    if (type.name == "bool")
      return booleanValue(depth);
    if (type.isReal())
      return realValue(type, depth);
    return type.isScalar() ? integerValue(depth) : integersValue(type, depth);
  case Type::Kind::Tuple:
    for (const Type &part : type.parts)
      fields.push_back(value(part, depth - 1));
    return make(Expr::Kind::Tuple, "", std::move(fields));
  case Type::Kind::Function:
    return lambdaValue(type, depth);
  case Type::Kind::Data:
    break;
  }
  if (type.name == "Ref")
    return make(Expr::Kind::Ref, "", parts(value(type.parts[0], depth - 1)));
  if (type.name == "List" && chance(60))
    return listValue(type, depth);
  const Data &data = data_[type.name];
  size_t chosen = size_t(below(int(data.constructors.size())));
  for (const Type &field : fieldsOf(type, chosen))
    fields.push_back(value(field, depth - 1));
  return constructed(type, chosen, std::move(fields));
}

/// With its type, where the fields may not tell it: operators would not know what they are given.
ExprPointer Generator::constructed(const Type &type, size_t constructor,
                                   std::vector<ExprPointer> fields) {
  ExprPointer result = name(data_[type.name].constructors[constructor].name);
  if (!fields.empty())
    result = call(std::move(result), std::move(fields));
  return type.parts.empty() || type.name == "Tree" ? std::move(result)
                                                   : ascribe(std::move(result), type);
}

template <typename Draw>
ExprPointer Generator::scoped(const std::vector<Variable> &bound, Draw draw) {
  size_t before = scope_.size();
  scope_.insert(scope_.end(), bound.begin(), bound.end());
  ExprPointer result = draw();
  scope_.resize(before);
  return result;
}

ExprPointer Generator::lambdaValue(const Type &type, int depth) {
  std::vector<text::Parameter> params;
  std::vector<Variable> bound;
  for (size_t i = 0; i + 1 < type.parts.size(); ++i) {
    bound.push_back({fresh("a"), type.parts[i]});
    params.push_back(parameter(bound.back().name, chance(30) ? &type.parts[i] : nullptr));
  }
  ExprPointer body = scoped(bound, [&] {
    return depth > 0 ? value(type.parts.back(), depth - 1) : leaf(type.parts.back());
  });
  return lambda(std::move(params), std::move(body));
}

ExprPointer Generator::listValue(const Type &type, int depth) {
  const Type &element = type.parts[0];
  switch (below(5)) {
  case 0:
    return call("reversed", value(type, depth - 1));
  case 1:
    return call("append", value(type, depth - 1), value(type, depth - 1));
  case 2: {
    Type from = randomType(1, false);
    return call("map", value(function({from, element}), depth - 1),
                value(data("List", {from}), depth - 1));
  }
  case 3:
    if (element.kind == Type::Kind::Tuple && element.parts.size() == 2)
      return call("zip", value(data("List", {element.parts[0]}), depth - 1),
                  value(data("List", {element.parts[1]}), depth - 1));
    [[fallthrough]];
  default: {
    ExprPointer list = make(Expr::Kind::List, "");
    for (int i = below(4); i > 0; --i)
      list->parts.push_back(value(element, depth - 1));
    return list->parts.empty() ? ascribe(std::move(list), type) : std::move(list);
  }
  }
}

// ---- forms ----

/// A pattern that matches every value of the type, and what it binds.
text::Pattern Generator::bindAll(const Type &type, std::vector<Variable> &bound) {
  if (type.kind == Type::Kind::Tuple && chance(60)) {
    std::vector<text::Pattern> inner;
    for (const Type &part : type.parts)
      inner.push_back(bindAll(part, bound));
    return pair(std::move(inner));
  }
  if (chance(15))
    return random_programs::bound("_");
  bound.push_back({fresh("v"), type});
  return random_programs::bound(bound.back().name);
}

/// { r := ...; ... }, of a reference in scope.
ExprPointer Generator::assigning(const Type &type, int depth) {
  std::vector<Variable> found;
  for (const Variable &one : scope_)
    if (one.type.name == "Ref")
      found.push_back(one);
  if (found.empty())
    return nullptr;
  const Variable &chosen = oneOf(found);
  ExprPointer assigned = make(Expr::Kind::Assign, "",
                              parts(name(chosen.name), value(chosen.type.parts[0], depth - 1)));
  return let(bound("_"), std::move(assigned), value(type, depth - 1));
}

ExprPointer Generator::binding(const Type &type, int depth) {
  Type inner = chance(25) ? reference(randomType(1, chance(20))) : randomType(2, true);
  std::vector<Variable> bound;
  ExprPointer given = value(inner, depth - 1);
  if (inner.hasFunctions())
    given = ascribe(std::move(given), inner);
  text::Pattern pattern = bindAll(inner, bound);
  ExprPointer body = scoped(bound, [&] { return value(type, depth - 1); });
  return let(std::move(pattern), std::move(given), std::move(body));
}

ExprPointer Generator::matching(const Type &type, int depth) {
  Type inner = randomType(2, false);
  if (inner.kind != Type::Kind::Data)
    inner = data("Option", {inner});
  ExprPointer given = ascribe(value(inner, depth - 1), inner);
  const Data &decl = data_[inner.name];
  std::vector<text::Case> cases;
  auto add =
      [&](size_t constructor,
          std::function<text::Pattern(const Type &, size_t, std::vector<Variable> &)> field) {
        std::vector<Variable> bound;
        std::vector<text::Pattern> inside;
        for (const Type &part : fieldsOf(inner, constructor))
          inside.push_back(field(part, inside.size(), bound));
        ExprPointer body = scoped(bound, [&] { return value(type, depth - 1); });
        cases.push_back(
            when(random_programs::built(decl.constructors[constructor].name, std::move(inside)),
                 std::move(body)));
      };
  auto general = [&](const Type &part, size_t, std::vector<Variable> &bound) {
    return bindAll(part, bound);
  };
  size_t order = decl.constructors.size();
  for (size_t i = 0; i < order; ++i) {
    size_t constructor = order - 1 - i;
    std::vector<Type> fields = fieldsOf(inner, constructor);
    // A case for one constructor of a field, before the one for all.
    for (size_t at = 0; at < fields.size(); ++at)
      if (fields[at].kind == Type::Kind::Data && data_[fields[at].name].constructors.size() > 1 &&
          chance(35)) {
        size_t chosen = size_t(below(int(data_[fields[at].name].constructors.size())));
        add(constructor, [&](const Type &part, size_t index, std::vector<Variable> &bound) {
          if (index != at)
            return bindAll(part, bound);
          std::vector<text::Pattern> deeper;
          for (const Type &one : fieldsOf(part, chosen))
            deeper.push_back(bindAll(one, bound));
          return random_programs::built(data_[part.name].constructors[chosen].name,
                                        std::move(deeper));
        });
        break;
      }
    if (i > 0 && i + 1 < order && chance(20)) {
      cases.push_back(when(bound("_"), value(type, depth - 1)));
      break;
    }
    add(constructor, general);
  }
  return match(std::move(given), std::move(cases));
}

ExprPointer Generator::folding(const Type &type, int depth) {
  Type element = randomType(1, false);
  if (chance(30)) {
    Type tree = data("Tree", {element});
    return call("fold_tree", value(function({element, type}), depth - 1),
                value(function({type, type, type}), depth - 1), value(tree, depth - 1));
  }
  ExprPointer list = value(data("List", {element}), depth - 1);
  if (chance(30))
    return call("fold_right", value(function({element, type, type}), depth - 1), std::move(list),
                value(type, depth - 1));
  return call("fold", value(function({type, element, type}), depth - 1), value(type, depth - 1),
              std::move(list));
}

ExprPointer Generator::applying(const Type &type, int depth) {
  std::vector<const Variable *> found;
  for (const Variable &one : scope_)
    if (one.type.kind == Type::Kind::Function && one.type.parts.back() == type)
      found.push_back(&one);
  std::vector<Type> parts;
  if (!found.empty() && chance(70)) {
    const Variable chosen = *oneOf(found);
    std::vector<ExprPointer> arguments;
    for (size_t i = 0; i + 1 < chosen.type.parts.size(); ++i)
      arguments.push_back(value(chosen.type.parts[i], depth - 1));
    return call(name(chosen.name), std::move(arguments));
  }
  for (int i = 1 + below(2); i > 0; --i)
    parts.push_back(randomType(1, chance(30)));
  parts.push_back(type);
  Type callee = function(parts);
  std::string own = fresh("f");
  ExprPointer closure = ascribe(value(callee, depth - 1), callee);
  ExprPointer body = scoped({{own, callee}}, [&] {
    std::vector<ExprPointer> arguments;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      arguments.push_back(value(parts[i], depth - 1));
    return call(name(own), std::move(arguments));
  });
  return let(bound(own), std::move(closure), std::move(body));
}

ExprPointer Generator::calling(const Type &type, int depth) {
  std::vector<Type> types;
  if (const Function *function = callable(type, types))
    return callOf(*function, types, depth);
  if (type.kind != Type::Kind::Variable && functionsLeft_ > 0)
    if (const Function *function = makeFunction(type))
      return callOf(*function, {}, depth);
  return built(type, depth);
}

ExprPointer Generator::callOf(const Function &function, const std::vector<Type> &types, int depth) {
  std::vector<ExprPointer> arguments;
  for (const Type &param : function.params) {
    Type given = substitute(param, function.variables, types);
    // Counters stay small: they say how long a function runs.
    arguments.push_back(given.name == "i64" && given.isScalar()
                            ? sign("mod", value(given, depth - 1), integer(5))
                            : value(given, depth - 1));
  }
  return call(name(function.name), std::move(arguments));
}

/// One that gives the type, and what its variables stand for then.
const Generator::Function *Generator::callable(const Type &result, std::vector<Type> &types) {
  std::vector<std::pair<const Function *, std::vector<Type>>> found;
  for (const auto &function : functions_) {
    std::vector<std::optional<Type>> bound(function->variables.size());
    bool closed = std::all_of(function->params.begin(), function->params.end(),
                              [](const Type &param) { return !param.isOpen(); });
    if ((!open_ && !closed) || !unify(function->result, result, function->variables, bound))
      continue;
    std::vector<Type> chosen;
    for (auto &type : bound)
      chosen.push_back(type ? *type : randomType(1, false));
    found.push_back({function.get(), std::move(chosen)});
  }
  if (found.empty() || (functionsLeft_ > 0 && chance(40)))
    return nullptr;
  auto &[function, chosen] = found[size_t(below(int(found.size())))];
  types = chosen;
  return function;
}

} // namespace tensmith::random_programs
