// Types and expressions of programs that are drawn at random, in few words.
#pragma once

#include "frontends/text/Ast.h"

namespace tensmith::random_programs {

using text::Expr;
using text::ExprPointer;

/// A type that the generator can make values of.
struct Type {
  enum class Kind : uint8_t { Tensor, Tuple, Data, Function, Variable } kind = Kind::Tensor;
  std::string name;              // an element type, a data type, or a variable
  std::vector<std::string> dims; // "n", or a number
  std::vector<Type> parts;       // of a function: the parameters, then the result

  bool operator==(const Type &) const = default;
  bool isInteger() const { return kind == Kind::Tensor && name == "i64"; }
  bool isReal() const { return kind == Kind::Tensor && name == "f32"; }
  bool isScalar() const { return kind == Kind::Tensor && dims.empty(); }
  /// Whether a size in it is only known when it runs.
  bool isOpen() const;
  /// Whether functions or references are in it, whose own types may not be told by their use.
  bool hasFunctions() const;
};

Type tensor(std::string element, std::vector<std::string> dims = {});
inline Type reference(Type type) { return {Type::Kind::Data, "Ref", {}, {std::move(type)}}; }
Type tuple(std::vector<Type> parts);
Type data(std::string name, std::vector<Type> parts);
Type function(std::vector<Type> parts);
/// The type with others in the place of variables.
Type substitute(const Type &type, const std::vector<std::string> &names,
                const std::vector<Type> &types);

text::TypeExpr written(const Type &type);

template <typename... Parts> std::vector<ExprPointer> parts(Parts... given) {
  std::vector<ExprPointer> result;
  (result.push_back(std::move(given)), ...);
  return result;
}

ExprPointer make(Expr::Kind kind, std::string text, std::vector<ExprPointer> parts = {});
inline ExprPointer name(std::string text) { return make(Expr::Kind::Name, std::move(text)); }
ExprPointer integer(int64_t value);
ExprPointer real(const std::string &digits);
/// An operator that has a sign.
template <typename... Parts> ExprPointer sign(std::string record, Parts... given) {
  return make(Expr::Kind::Operator, std::move(record), parts(std::move(given)...));
}
/// A number's sign is a part of it.
ExprPointer negated(ExprPointer value);
ExprPointer call(ExprPointer callee, std::vector<ExprPointer> arguments);
template <typename... Parts> ExprPointer call(std::string callee, Parts... given) {
  return call(name(std::move(callee)), parts(std::move(given)...));
}
/// The call with one more argument, by name.
ExprPointer with(ExprPointer call, std::string attribute, ExprPointer value);
ExprPointer integers(const std::vector<int64_t> &values);
ExprPointer ascribe(ExprPointer value, const Type &type);
ExprPointer lambda(std::vector<text::Parameter> params, ExprPointer body);
ExprPointer let(text::Pattern pattern, ExprPointer value, ExprPointer body);
ExprPointer choice(ExprPointer condition, ExprPointer yes, ExprPointer no);
ExprPointer match(ExprPointer value, std::vector<text::Case> cases);
text::Case when(text::Pattern pattern, ExprPointer body);
text::Pattern bound(std::string name);
text::Pattern built(std::string constructor, std::vector<text::Pattern> parts);
text::Pattern pair(std::vector<text::Pattern> parts);
text::Parameter parameter(std::string name, const Type *type);

} // namespace tensmith::random_programs
