// Inference of groups of functions, and of the expressions that are not operators; see Inference.h.
#include "frontends/text/Inference.h"

#include <algorithm>

using namespace mlir;

namespace tensmith::text {

constexpr size_t kMostPending = 50'000;

size_t sizeOf(Term *type, size_t most) {
  size_t size = 1;
  for (Term *part : Types::find(type)->parts)
    if (size < most)
      size += sizeOf(part, most - size);
  return size;
}

Inference::Inference(const Module &module, const Names &names, Types &types, Relations &relations,
                     Loader loader, std::vector<Message> &messages)
    : module_(module), names_(names), types_(types), relations_(relations),
      loader_(std::move(loader)), messages_(messages) {
  for (auto &group : groupsOf(module, names))
    for (const FunctionDecl *function : group)
      groups_[function] = group;
}

void Inference::error(Place place, const std::string &text) {
  std::string key = std::to_string(place.file) + ':' + std::to_string(place.line) + ':' +
                    std::to_string(place.column);
  if (told_.insert(key).second) // the first one explains those that follow from it
    messages_.push_back({place, text});
}

bool Inference::equate(Place place, Term *expected, Term *found) {
  std::string before = types_.print(expected), given = types_.print(found);
  types_.cyclic = false;
  if (types_.unify(expected, found))
    return true;
  error(place, types_.cyclic ? "this type would contain itself: " + before + " and " + given
                             : "expected " + before + ", found " + given);
  return false;
}

// ---- types as they are written ----

static bool isSize(Term *term) {
  term = Types::find(term);
  return term->kind == Term::Kind::Size || term->kind == Term::Kind::Unknown ||
         (term->kind == Term::Kind::Variable && term->sort == Term::Sort::Size);
}

Term *Inference::annotateSize(const DimExpr &size, Scope &scope) {
  switch (size.kind) {
  case DimExpr::Kind::Size:
    return types_.size(types_.shapes.constant(size.size));
  case DimExpr::Kind::Unknown:
    return types_.unknown();
  case DimExpr::Kind::Name: {
    Term *&term = scope.names[size.name];
    if (term)
      return term;
    if (auto given = fixed.find(size.name); scope.symbols && given != fixed.end()) {
      met.insert(size.name);
      return term = types_.size(types_.shapes.constant(given->second));
    }
    if (scope.symbols) {
      types_.symbols.insert(size.name);
      auto name = StringAttr::get(types_.shapes.mlirContext(), size.name);
      return term = types_.size(types_.shapes.symbol(name));
    }
    term = types_.variable(Term::Sort::Size);
    term->name = size.name;
    return term;
  }
  default:
    break;
  }
  Term *a = annotateSize(size.parts[0], scope);
  return computedSize(size.place, size.kind, a, annotateSize(size.parts[1], scope));
}

/// Where callers decide the sizes, it waits for them as operators do.
Term *Inference::computedSize(Place place, DimExpr::Kind kind, Term *a, Term *b) {
  if (Types::isKnown(a) && Types::isKnown(b))
    return types_.computed(kind, a, b);
  Relation relation;
  relation.arithmetic = kind;
  relation.place = place;
  relation.operands = {a, b};
  relation.numbers.resize(2);
  relation.result = types_.variable(Term::Sort::Size);
  pending_.push_back(relation);
  return relation.result;
}

/// A number that the compiler knows: written, a size of the function's types, a parameter of type
/// Size, or arithmetic on those. Null: none of them.
Term *Inference::sizeValue(const Expr &expr) {
  if (expr.kind == Expr::Kind::Integer && expr.text.size() <= 18)
    return types_.size(types_.shapes.constant(std::stoll(expr.text)));
  if (expr.kind == Expr::Kind::Name) {
    auto local = visible_.find(expr.text);
    if (local != visible_.end() && !local->second.empty())
      return Types::isStaticSize(local->second.back()) ? Types::find(local->second.back())->parts[0]
                                                       : nullptr;
    auto named = scope_.names.find(expr.text);
    return named != scope_.names.end() && isSize(named->second) ? named->second : nullptr;
  }
  static const std::map<std::string, DimExpr::Kind> kinds = {{"add", DimExpr::Kind::Add},
                                                             {"sub", DimExpr::Kind::Sub},
                                                             {"mul", DimExpr::Kind::Mul},
                                                             {"div", DimExpr::Kind::Div}};
  auto kind = kinds.find(expr.text);
  if (expr.kind != Expr::Kind::Operator || kind == kinds.end())
    return nullptr;
  Term *a = sizeValue(*expr.parts[0]), *b = sizeValue(*expr.parts[1]);
  return a && b ? computedSize(expr.place, kind->second, a, b) : nullptr;
}

/// One small letter is any element type, the same wherever it stands.
Term *Inference::annotateElement(const TypeExpr &type, Scope &scope) {
  if (type.name.size() > 1)
    error(type.place, "there is no element type '" + type.name + "'");
  Term *&term = scope.names["element " + type.name];
  if (!term) {
    term = types_.variable(Term::Sort::Element);
    term->name = type.name;
  }
  return term;
}

Term *Inference::annotate(const TypeExpr &type, Scope &scope) {
  std::vector<Term *> parts;
  for (const TypeExpr &part : type.parts)
    parts.push_back(annotate(part, scope));
  switch (type.kind) {
  case TypeExpr::Kind::Tensor: {
    for (const DimExpr &dim : type.dims)
      parts.push_back(annotateSize(dim, scope));
    DataType element = DataType::Undefined;
    for (int i = 1; i < kDataTypeCount; ++i)
      if (name(DataType(i)) == type.name)
        element = DataType(i);
    Term *known =
        element == DataType::Undefined ? annotateElement(type, scope) : types_.element(element);
    return types_.tensor(known, types_.shape(std::move(parts)));
  }
  case TypeExpr::Kind::Tuple:
    return types_.tuple(std::move(parts));
  case TypeExpr::Kind::Function:
    return types_.function(std::move(parts));
  case TypeExpr::Kind::Name:
    break;
  }
  if (auto found = names_.types.find(type.name); found != names_.types.end()) {
    size_t count = found->second->params.size();
    if (parts.size() != count)
      error(type.place, type.name + " takes " + counted(count, "type") + ", not " +
                            std::to_string(parts.size()));
    while (parts.size() < count)
      parts.push_back(types_.variable());
    parts.resize(count);
    return types_.data(type.name, std::move(parts));
  }
  if (type.name == "Ref") {
    if (parts.size() != 1)
      error(type.place, "Ref takes 1 type, not " + std::to_string(parts.size()));
    parts.resize(1, types_.variable());
    return types_.data("Ref", std::move(parts));
  }
  if (type.name == "Size")
    return types_.staticSize(type.dims.empty() ? types_.variable(Term::Sort::Size)
                                               : annotateSize(type.dims[0], scope));
  if (type.name[0] >= 'A' && type.name[0] <= 'Z')
    error(type.place, "there is no data type '" + type.name + "'");
  else if (!parts.empty())
    error(type.place, "there is no element type '" + type.name + "'");
  Term *&term = scope.names[type.name];
  if (!term) {
    term = types_.variable();
    term->name = type.name;
  }
  return term;
}

// ---- functions ----

Term *Inference::begin(const FunctionDecl &function) {
  std::vector<Term *> parts;
  for (const Parameter &param : function.params)
    parts.push_back(param.type ? annotate(*param.type, scope_) : types_.variable());
  parts.push_back(function.result ? annotate(*function.result, scope_) : types_.variable());
  return types_.function(std::move(parts));
}

Term *Inference::declared(const FunctionDecl &function) {
  scope_ = {{}, true};
  Term *type = begin(function);
  scope_ = {};
  return type;
}

void Inference::inferBody(const FunctionDecl &function, Term *type) {
  for (size_t i = 0; i < function.params.size(); ++i)
    bind(function.params[i].name, type->parts[i]);
  Term *body = infer(*function.body);
  equate(function.body->place, type->parts.back(), body);
  unbind(function.params.size());
}

/// Whether something of it is left to whoever uses it; a number is not, which has a type of its
/// own.
static bool isOpen(Term *type) {
  type = Types::find(type);
  return (type->kind == Term::Kind::Variable && type->literal == Term::Literal::None) ||
         std::any_of(type->parts.begin(), type->parts.end(), isOpen);
}

void Inference::inferGroup(const std::vector<const FunctionDecl *> &group,
                           const FunctionDecl *wanted, Term *wantedType) {
  current_.clear();
  pending_.clear();
  literals_.clear();
  ++types_.level;
  std::vector<Scope> scopes;
  for (const FunctionDecl *function : group) {
    scope_ = {};
    current_[function] = begin(*function);
    scopes.push_back(std::move(scope_));
    if (function == wanted)
      equate(function->place, current_[function], wantedType);
  }
  for (size_t i = 0; i < group.size(); ++i) {
    scope_ = std::move(scopes[i]);
    inferBody(*group[i], current_[group[i]]);
  }
  solvePending(false);
  if (wanted && !(partly_ && isOpen(current_[wanted]->parts.back()))) {
    defaultNumbers();
    solvePending(true);
  }
  --types_.level;
}

void Inference::solvePending(bool all) {
  for (bool progress = true; progress;) {
    progress = false;
    std::vector<Relation> waiting;
    for (Relation &relation : pending_) {
      std::string text;
      switch (relations_.solve(relation, text)) {
      case Relations::Outcome::Waiting:
        waiting.push_back(std::move(relation));
        break;
      case Relations::Outcome::Wrong:
        error(relation.place, text);
        [[fallthrough]];
      case Relations::Outcome::Solved:
        progress = true;
      }
    }
    pending_ = std::move(waiting);
  }
  shareRelations();
  if (all)
    for (const Relation &relation : pending_)
      if (relation.info)
        error(relation.place,
              "the types that " + std::string(relation.info->name) +
                  " is used with are not known here; write the types of parameters");
}

/// What an operator gives follows from its operands, so two uses with the same ones are one.
/// Without this, functions that each call the one before twice wait for exponentially many
/// relations.
void Inference::shareRelations() {
  std::map<std::pair<const OperatorInfo *, std::vector<const void *>>, const Relation *> seen;
  std::vector<Relation> waiting;
  waiting.reserve(pending_.size());
  for (Relation &relation : pending_) {
    std::vector<const void *> key;
    for (size_t i = 0; i < relation.operands.size(); ++i)
      key.push_back(relation.numbers[i]    ? static_cast<const void *>(relation.numbers[i])
                    : relation.operands[i] ? Types::find(relation.operands[i])
                                           : nullptr);
    key.push_back(mlir::DictionaryAttr::get(types_.shapes.mlirContext(), relation.attributes)
                      .getAsOpaquePointer());
    for (const ComputedAttribute &attribute : relation.computed) {
      key.push_back(mlir::StringAttr::get(types_.shapes.mlirContext(),
                                          attribute.name + (attribute.wide ? " wide" : ""))
                        .getAsOpaquePointer());
      for (Term *value : attribute.values)
        key.push_back(Types::find(value));
    }
    if (!relation.info) {
      waiting.push_back(std::move(relation));
      continue;
    }
    auto [found, isNew] = seen.try_emplace({relation.info, std::move(key)}, nullptr);
    if (!isTyped(*relation.info) && !isNew) {
      const Relation &first = *found->second;
      bool same = types_.unify(relation.result, first.result); // keys keep the first one's
      for (size_t i = 0; i < relation.operands.size(); ++i)
        if (relation.numbers[i])
          same &= types_.unify(relation.operands[i], first.operands[i]);
      if (same)
        continue;
    }
    waiting.push_back(std::move(relation));
    found->second = &waiting.back();
  }
  pending_ = std::move(waiting);
}

void Inference::defaultNumbers() {
  for (Term *literal : literals_)
    types_.settle(literal);
}

bool Inference::check() {
  for (const auto &group : groupsOf(module_, names_)) {
    inferGroup(group, nullptr, nullptr);
    if (pending_.size() > kMostPending) {
      error(group[0]->place, "too much of this function waits for its callers' types; write the "
                             "types of its parameters");
      pending_.clear();
    }
    for (const Relation &relation : pending_) {
      for (Term *operand : relation.operands)
        if (operand)
          types_.generalize(operand);
      for (const ComputedAttribute &attribute : relation.computed)
        for (Term *value : attribute.values)
          types_.generalize(value);
      types_.generalize(relation.result);
    }
    for (const FunctionDecl *function : group) {
      types_.generalize(current_[function]);
      schemes_[function] = {current_[function], pending_};
    }
  }
  current_.clear();
  // It would be made again by each use; and its type could be told from each use anew.
  for (const FunctionDecl &function : module_.functions)
    if (function.constant && usesReferences(function, names_))
      error(function.place, "a constant has no references; make them in a function");
  if (!messages_.empty())
    return false;
  // What is written with its types is checked for every size, whether it is called or not.
  for (const FunctionDecl &function : module_.functions) {
    if (function.prelude)
      continue;
    Term *type = declared(function);
    bool known = true;
    for (size_t i = 0; i < function.params.size(); ++i)
      known &= Types::isKnown(type->parts[i]);
    partly_ = function.name != "main";
    if (known)
      instance(function, type);
    partly_ = false;
    if (known && function.name == "main")
      checkReferences(function, type);
    else if (function.name == "main")
      error(function.place, "the types of main's parameters must be written");
  }
  return messages_.empty();
}

/// A declaration is looked into once, whatever it is given: types may go on for ever, as of
/// `More(a, Nest[List[a]])`, and what they are given is looked at wherever it stands.
bool Inference::holdsReferences(Term *term, std::set<std::string> &seen) {
  Term *type = Types::find(term);
  if (type->kind != Term::Kind::Tuple && type->kind != Term::Kind::Data)
    return false;
  for (Term *part : type->parts)
    if (holdsReferences(part, seen))
      return true;
  if (type->kind == Term::Kind::Tuple || !seen.insert(type->name).second)
    return false;
  auto decl = names_.types.find(type->name);
  if (decl == names_.types.end())
    return true;
  for (uint32_t tag = 0; tag < decl->second->constructors.size(); ++tag)
    for (Term *field : fields({decl->second, tag}, type))
      if (holdsReferences(field, seen))
        return true;
  return false;
}

void Inference::checkReferences(const FunctionDecl &function, Term *type) {
  for (Term *part : type->parts)
    if (std::set<std::string> seen; holdsReferences(part, seen)) {
      error(function.place, "main takes or gives a reference, as part of " + types_.print(part) +
                                "; references end with the run");
      return;
    }
}

Typing Inference::instance(const FunctionDecl &function, Term *type) {
  typing_ = {};
  inferGroup(groups_[&function], &function, type);
  for (auto &[expr, term] : typing_.exprs)
    types_.settle(term);
  for (auto &[pattern, term] : typing_.patterns)
    types_.settle(term);
  current_.clear();
  return std::move(typing_);
}

std::string Inference::signature(const FunctionDecl &function) {
  return function.name + ": " +
         types_.print(function.constant ? schemes_[&function].type->parts.back()
                                        : schemes_[&function].type);
}

Term *Inference::useScheme(const Scheme &scheme, Place place) {
  Types::Copies copies;
  Term *type = types_.instantiate(scheme.type, copies);
  for (const Relation &relation : scheme.relations) {
    Relation copy = relation;
    for (Term *&operand : copy.operands)
      operand = operand ? types_.instantiate(operand, copies) : nullptr;
    for (ComputedAttribute &attribute : copy.computed)
      for (Term *&value : attribute.values)
        value = types_.instantiate(value, copies);
    copy.result = types_.instantiate(relation.result, copies);
    copy.place = place;
    pending_.push_back(std::move(copy));
  }
  for (auto &[generic, copy] : copies)
    if (copy->literal != Term::Literal::None)
      literals_.push_back(copy);
  return type;
}

// ---- names ----

void Inference::bind(const std::string &name, Term *type) {
  locals_.push_back({name, type});
  visible_[name].push_back(type);
}

void Inference::unbind(size_t count) {
  for (; count > 0; --count) {
    visible_[locals_.back().first].pop_back();
    locals_.pop_back();
  }
}

/// `matched`: of a value that is there already, of which a size that a field's type names, and that
/// is no parameter's, is not known: it was forgotten when the value was made.
Term *Inference::constructorType(const ConstructorInfo &constructor, std::vector<Term *> &fields,
                                 bool matched) {
  Scope scope;
  std::vector<Term *> params;
  for (const std::string &param : constructor.type->params)
    params.push_back(scope.names[param] = types_.variable());
  for (const TypeExpr &field : constructor.type->constructors[constructor.tag].fields)
    fields.push_back(annotate(field, scope));
  for (auto &[name, term] : scope.names)
    if (Term *size = Types::find(term);
        matched && size->kind == Term::Kind::Variable && size->sort == Term::Sort::Size)
      types_.unify(size, types_.unknown());
  return types_.data(constructor.type->name, std::move(params));
}

std::vector<Term *> Inference::fields(const ConstructorInfo &constructor, Term *value) {
  std::vector<Term *> fields;
  types_.unify(constructorType(constructor, fields), value);
  for (Term *field : fields)
    types_.settle(field);
  return fields;
}

void Inference::bindPattern(const Pattern &pattern, Term *type) {
  typing_.patterns[&pattern] = type;
  switch (pattern.kind) {
  case Pattern::Kind::Wildcard:
    return;
  case Pattern::Kind::Name:
    return bind(pattern.name, type);
  case Pattern::Kind::Tuple: {
    std::vector<Term *> parts;
    for (size_t i = 0; i < pattern.parts.size(); ++i)
      parts.push_back(types_.variable());
    equate(pattern.place, type, types_.tuple(parts));
    for (size_t i = 0; i < parts.size(); ++i)
      bindPattern(pattern.parts[i], parts[i]);
    return;
  }
  case Pattern::Kind::Constructor:
    break;
  }
  auto found = names_.constructors.find(pattern.name);
  std::vector<Term *> fields;
  if (found == names_.constructors.end()) {
    error(pattern.place, "there is no constructor '" + pattern.name + "'");
  } else {
    equate(pattern.place, type, constructorType(found->second, fields, /*matched=*/true));
    if (fields.size() != pattern.parts.size())
      error(pattern.place, pattern.name + " has " + counted(fields.size(), "field") + ", not " +
                               std::to_string(pattern.parts.size()));
  }
  for (size_t i = 0; i < pattern.parts.size(); ++i)
    bindPattern(pattern.parts[i], i < fields.size() ? fields[i] : types_.variable());
}

// ---- expressions ----

Term *Inference::infer(const Expr &expr) {
  Term *type = inferKind(expr);
  // `let b = (a, a); let c = (b, b); ...` has a type that doubles with each.
  if (sizeOf(type) >= kLargestType) {
    error(expr.place, "the type of this is too large; put parts of it into a data type");
    type = types_.variable();
  }
  typing_.exprs[&expr] = type;
  return type;
}

Term *Inference::inferKind(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Kind::Integer:
  case Expr::Kind::Real: {
    Term *element = types_.variable(Term::Sort::Element);
    element->literal =
        expr.kind == Expr::Kind::Integer ? Term::Literal::Integer : Term::Literal::Real;
    literals_.push_back(element);
    return types_.tensor(element, types_.shape({}));
  }
  case Expr::Kind::Boolean:
    return types_.scalar(DataType::Bool);
  case Expr::Kind::String:
    error(expr.place, "a text stands only for an operator's attribute");
    return types_.variable();
  case Expr::Kind::Name:
    return inferName(expr);
  case Expr::Kind::Call:
    return inferCall(expr);
  case Expr::Kind::Operator: {
    std::vector<const Expr *> operands;
    for (const ExprPointer &part : expr.parts)
      operands.push_back(part.get());
    return inferOperator(expr, *findOperator(expr.text), operands);
  }
  case Expr::Kind::Function:
    return inferFunction(expr);
  case Expr::Kind::Let:
    return inferLet(expr);
  case Expr::Kind::If: {
    equate(expr.parts[0]->place, types_.scalar(DataType::Bool), infer(*expr.parts[0]));
    Term *type = infer(*expr.parts[1]);
    equate(expr.parts[2]->place, type, infer(*expr.parts[2]));
    return type;
  }
  case Expr::Kind::Match:
    return inferMatch(expr);
  case Expr::Kind::Tuple: {
    std::vector<Term *> parts;
    for (const ExprPointer &part : expr.parts)
      parts.push_back(infer(*part));
    return types_.tuple(std::move(parts));
  }
  case Expr::Kind::List: {
    Term *element = types_.variable();
    for (const ExprPointer &part : expr.parts)
      equate(part->place, element, infer(*part));
    return types_.data("List", {element});
  }
  case Expr::Kind::Ascribe: {
    Term *type = annotate(*expr.type, scope_);
    // Known first, since it may be what an operator's result is told by.
    Term *inner = infer(*expr.parts[0]);
    equate(expr.parts[0]->place, type, inner);
    return type;
  }
  case Expr::Kind::Load:
    return inferLoad(expr);
  case Expr::Kind::Ref:
    return types_.data("Ref", {infer(*expr.parts[0])});
  case Expr::Kind::Read:
  case Expr::Kind::Assign: {
    Term *value = types_.variable();
    equate(expr.parts[0]->place, types_.data("Ref", {value}), infer(*expr.parts[0]));
    if (expr.kind == Expr::Kind::Read)
      return value;
    equate(expr.parts[1]->place, value, infer(*expr.parts[1]));
    return types_.tuple({});
  }
  }
  return types_.variable();
}

Term *Inference::inferLoad(const Expr &expr) {
  std::string text;
  const HostTensor *tensor = loader_(expr.text, text);
  if (!tensor) {
    error(expr.place, text);
    return types_.variable();
  }
  std::vector<Term *> sizes;
  for (int64_t size : tensor->shape())
    sizes.push_back(types_.size(types_.shapes.constant(size)));
  return types_.tensor(types_.element(tensor->type()), types_.shape(std::move(sizes)));
}

Term *Inference::inferName(const Expr &expr) {
  if (auto found = visible_.find(expr.text); found != visible_.end() && !found->second.empty())
    return found->second.back();
  if (auto found = names_.functions.find(expr.text); found != names_.functions.end()) {
    auto own = current_.find(found->second);
    Term *type =
        own != current_.end() ? own->second : useScheme(schemes_[found->second], expr.place);
    return found->second->constant ? type->parts.back() : type;
  }
  if (auto found = names_.constructors.find(expr.text); found != names_.constructors.end()) {
    std::vector<Term *> parts;
    Term *type = constructorType(found->second, parts);
    if (parts.empty())
      return type;
    parts.push_back(type);
    return types_.function(std::move(parts));
  }
  error(expr.place, findOperator(expr.text)
                        ? "an operator is no value; write fn(x) => " + expr.text + "(x)"
                        : "there is nothing with the name '" + expr.text + "'");
  return types_.variable();
}

/// Where a Size is expected, a number is one.
Term *Inference::inferArgument(const Expr &expr, Term *expected) {
  Term *size = Types::isStaticSize(expected) ? sizeValue(expr) : nullptr;
  return size ? typing_.exprs[&expr] = types_.staticSize(size) : infer(expr);
}

Term *Inference::inferCall(const Expr &expr) {
  const Expr &callee = *expr.parts[0];
  auto local = visible_.find(callee.text);
  bool named = callee.kind == Expr::Kind::Name &&
               (local == visible_.end() || local->second.empty()) &&
               !names_.functions.contains(callee.text);
  if (const OperatorInfo *info = named ? findOperator(callee.text) : nullptr) {
    std::vector<const Expr *> operands;
    for (size_t i = 1; i < expr.parts.size(); ++i)
      operands.push_back(expr.parts[i].get());
    return inferOperator(expr, *info, operands);
  }
  size_t told = messages_.size();
  Term *type = Types::find(infer(callee));
  if (!expr.arguments.empty()) {
    if (messages_.size() == told) // else there is nothing by that name
      error(expr.arguments[0].place, "only operators take arguments by name");
    return types_.variable();
  }
  if (type->kind == Term::Kind::Function && type->parts.size() != expr.parts.size()) {
    error(expr.place, "this takes " + counted(type->parts.size() - 1, "argument") + ", not " +
                          std::to_string(expr.parts.size() - 1));
    return types_.variable();
  }
  if (type->kind != Term::Kind::Function && type->kind != Term::Kind::Variable) {
    error(expr.place, "this is called, but is no function: it is " + types_.print(type) +
                          (callee.kind == Expr::Kind::Name && findOperator(callee.text)
                               ? "; the operator of that name is " + (kOperatorPrefix + callee.text)
                               : ""));
    return types_.variable();
  }
  std::vector<Term *> parts;
  for (size_t i = 1; i < expr.parts.size(); ++i) {
    parts.push_back(type->kind == Term::Kind::Function
                        ? inferArgument(*expr.parts[i], type->parts[i - 1])
                        : infer(*expr.parts[i]));
    if (type->kind == Term::Kind::Function)
      equate(expr.parts[i]->place, type->parts[i - 1], parts.back());
  }
  if (type->kind == Term::Kind::Function)
    return type->parts.back();
  Term *result = types_.variable();
  parts.push_back(result);
  equate(callee.place, type, types_.function(std::move(parts)));
  return result;
}

Term *Inference::inferFunction(const Expr &expr) {
  std::vector<Term *> parts;
  for (const Parameter &param : expr.params) {
    parts.push_back(param.type ? annotate(*param.type, scope_) : types_.variable());
    bind(param.name, parts.back());
  }
  parts.push_back(infer(*expr.parts[0]));
  unbind(expr.params.size());
  return types_.function(std::move(parts));
}

/// A chain of lets, one after another.
Term *Inference::inferLet(const Expr &expr) {
  size_t before = locals_.size();
  const Expr *let = &expr;
  std::vector<const Expr *> chain;
  for (; let->kind == Expr::Kind::Let; let = let->parts[0].get()) {
    chain.push_back(let);
    bindPattern(let->cases[0].pattern, infer(*let->cases[0].body));
    size_t unreached;
    if (std::string value = uncovered(let->cases, names_, unreached); !value.empty())
      error(let->cases[0].pattern.place, "this pattern does not match " + value + "; use 'match'");
  }
  Term *type = infer(*let);
  for (const Expr *one : chain)
    typing_.exprs[one] = type;
  unbind(locals_.size() - before);
  return type;
}

Term *Inference::inferMatch(const Expr &expr) {
  Term *value = infer(*expr.parts[0]), *type = types_.variable();
  size_t told = messages_.size();
  for (const Case &one : expr.cases) {
    size_t before = locals_.size();
    bindPattern(one.pattern, value);
    equate(one.body->place, type, infer(*one.body));
    unbind(locals_.size() - before);
  }
  if (told != messages_.size())
    return type;
  size_t unreached;
  if (std::string missing = uncovered(expr.cases, names_, unreached); !missing.empty())
    error(expr.place, "no case matches " + missing);
  else if (unreached < expr.cases.size())
    error(expr.cases[unreached].pattern.place,
          "this case is never reached: those before it match everything that it does");
  return type;
}

} // namespace tensmith::text
