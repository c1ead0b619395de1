// Building types and expressions; see Terms.h.
#include "tests/random_programs/Terms.h"

#include <algorithm>

namespace tensmith::random_programs {

bool Type::isOpen() const {
  return std::any_of(dims.begin(), dims.end(),
                     [](const std::string &dim) { return dim[0] > '9'; }) ||
         std::any_of(parts.begin(), parts.end(), [](const Type &part) { return part.isOpen(); });
}

bool Type::hasFunctions() const {
  return kind == Kind::Function || name == "Ref" ||
         std::any_of(parts.begin(), parts.end(),
                     [](const Type &part) { return part.hasFunctions(); });
}

Type tensor(std::string element, std::vector<std::string> dims) {
  return {Type::Kind::Tensor, std::move(element), std::move(dims), {}};
}
Type tuple(std::vector<Type> parts) { return {Type::Kind::Tuple, "", {}, std::move(parts)}; }
Type data(std::string name, std::vector<Type> parts) {
  return {Type::Kind::Data, std::move(name), {}, std::move(parts)};
}
Type function(std::vector<Type> parts) { return {Type::Kind::Function, "", {}, std::move(parts)}; }

Type substitute(const Type &type, const std::vector<std::string> &names,
                const std::vector<Type> &types) {
  if (type.kind == Type::Kind::Variable)
    return types[size_t(std::find(names.begin(), names.end(), type.name) - names.begin())];
  Type result = type;
  for (Type &part : result.parts)
    part = substitute(part, names, types);
  return result;
}

text::TypeExpr written(const Type &type) {
  using Kind = text::TypeExpr::Kind;
  text::TypeExpr result;
  result.kind = type.kind == Type::Kind::Tensor     ? Kind::Tensor
                : type.kind == Type::Kind::Tuple    ? Kind::Tuple
                : type.kind == Type::Kind::Function ? Kind::Function
                                                    : Kind::Name;
  result.name = type.name;
  for (const std::string &dim : type.dims) {
    text::DimExpr &size = result.dims.emplace_back();
    size.kind = dim[0] > '9' ? text::DimExpr::Kind::Name : text::DimExpr::Kind::Size;
    if (dim[0] > '9')
      size.name = dim;
    else
      size.size = std::stoll(dim);
  }
  for (const Type &part : type.parts)
    result.parts.push_back(written(part));
  return result;
}

ExprPointer make(Expr::Kind kind, std::string text, std::vector<ExprPointer> parts) {
  auto result = std::make_unique<Expr>();
  result->kind = kind;
  result->text = std::move(text);
  result->parts = std::move(parts);
  return result;
}

ExprPointer integer(int64_t value) { return make(Expr::Kind::Integer, std::to_string(value)); }
ExprPointer real(const std::string &digits) { return make(Expr::Kind::Real, digits); }

ExprPointer negated(ExprPointer value) {
  bool literal = value->kind == Expr::Kind::Integer || value->kind == Expr::Kind::Real;
  if (!literal || value->text[0] == '-')
    return sign("neg", std::move(value));
  value->text.insert(0, "-");
  return value;
}

ExprPointer call(ExprPointer callee, std::vector<ExprPointer> arguments) {
  arguments.insert(arguments.begin(), std::move(callee));
  return make(Expr::Kind::Call, "", std::move(arguments));
}

ExprPointer with(ExprPointer call, std::string attribute, ExprPointer value) {
  call->arguments.push_back({{}, std::move(attribute), std::move(value)});
  return call;
}

ExprPointer integers(const std::vector<int64_t> &values) {
  ExprPointer list = make(Expr::Kind::List, "");
  for (int64_t value : values)
    list->parts.push_back(integer(value));
  return list;
}

ExprPointer ascribe(ExprPointer value, const Type &type) {
  ExprPointer result = make(Expr::Kind::Ascribe, "", parts(std::move(value)));
  result->type = std::make_unique<text::TypeExpr>(written(type));
  return result;
}

ExprPointer lambda(std::vector<text::Parameter> params, ExprPointer body) {
  ExprPointer result = make(Expr::Kind::Function, "", parts(std::move(body)));
  result->params = std::move(params);
  return result;
}

ExprPointer let(text::Pattern pattern, ExprPointer value, ExprPointer body) {
  ExprPointer result = make(Expr::Kind::Let, "", parts(std::move(body)));
  result->cases.push_back(when(std::move(pattern), std::move(value)));
  return result;
}

ExprPointer choice(ExprPointer condition, ExprPointer yes, ExprPointer no) {
  return make(Expr::Kind::If, "", parts(std::move(condition), std::move(yes), std::move(no)));
}

ExprPointer match(ExprPointer value, std::vector<text::Case> cases) {
  ExprPointer result = make(Expr::Kind::Match, "", parts(std::move(value)));
  result->cases = std::move(cases);
  return result;
}

text::Case when(text::Pattern pattern, ExprPointer body) {
  text::Case result;
  result.pattern = std::move(pattern);
  result.body = std::move(body);
  return result;
}

text::Pattern bound(std::string name) {
  text::Pattern result;
  result.kind = name == "_" ? text::Pattern::Kind::Wildcard : text::Pattern::Kind::Name;
  result.name = std::move(name);
  return result;
}

text::Pattern built(std::string constructor, std::vector<text::Pattern> parts) {
  text::Pattern result = bound(std::move(constructor));
  result.kind = text::Pattern::Kind::Constructor;
  result.parts = std::move(parts);
  return result;
}

text::Pattern pair(std::vector<text::Pattern> parts) {
  text::Pattern result = bound("");
  result.kind = text::Pattern::Kind::Tuple;
  result.parts = std::move(parts);
  return result;
}

text::Parameter parameter(std::string name, const Type *type) {
  text::Parameter result;
  result.name = std::move(name);
  if (type)
    result.type = std::make_unique<text::TypeExpr>(written(*type));
  return result;
}

} // namespace tensmith::random_programs
