// Operators, functions and reads of a comprehension; see ComprehensionValue.h.
#include "compiler/nest/ComprehensionValue.h"

#include <cmath>

namespace tensmith::nest {

using CExpr = comprehension::Expr;

DataType computedAs(DataType type) {
  return type == DataType::F16 || type == DataType::BF16 ? DataType::F32 : type;
}

static Expr number(DataType type, double real, int64_t whole) {
  Expression result{Operation::Constant, type};
  result.number = real;
  result.integer = whole;
  return std::make_shared<Expression>(std::move(result));
}

static Expr both(const Expr &a, const Expr &b) {
  return !a ? b : !b ? a : apply(Operation::And, {a, b});
}

Expr ComprehensionValue::refuse(std::string why) {
  if (refusal_.empty())
    refusal_ = std::move(why);
  return number(DataType::I64, 0, 0);
}

Expr ComprehensionValue::of(const CExpr &expr, const Expr &active) {
  if (!refusal_.empty())
    return {};
  DataType type = computedAs(expr.type);
  switch (expr.kind) {
  case CExpr::Kind::Integer:
  case CExpr::Kind::Boolean:
    return number(type, double(expr.integer), expr.integer);
  case CExpr::Kind::Real:
    return number(type, expr.number, 0);
  case CExpr::Kind::Index:
  case CExpr::Kind::Size: {
    auto affine = scope_.affine(expr);
    return affine ? index(*affine) : refuse("'" + print(expr) + "' is not affine");
  }
  case CExpr::Kind::Read:
    return read(expr, active);
  case CExpr::Kind::Function:
    return function(expr, active);
  case CExpr::Kind::Unary: {
    Expr x = of(*expr.parts[0], active);
    return x ? apply(expr.text == "!" ? Operation::Not : Operation::Negate, {x}) : x;
  }
  case CExpr::Kind::Binary:
    return binary(expr, active);
  case CExpr::Kind::Select: {
    Expr condition = of(*expr.parts[0], active);
    if (!condition)
      return condition;
    Expr yes = of(*expr.parts[1], both(active, condition));
    Expr no = of(*expr.parts[2], both(active, apply(Operation::Not, {condition})));
    return yes && no ? apply(Operation::Select, {condition, yes, no}) : Expr();
  }
  case CExpr::Kind::Cast: {
    Expr x = of(*expr.parts[0], active);
    if (!x)
      return x;
    Expr made = x->type == expr.type ? x : cast(expr.type, x);
    return type == expr.type ? made : cast(type, made);
  }
  default:
    return refuse("'" + print(expr) + "' has no code");
  }
}

Expr ComprehensionValue::binary(const CExpr &expr, const Expr &active) {
  using enum Operation;
  const std::string &sign = expr.text;
  Expr a = of(*expr.parts[0], active);
  if (!a)
    return a;
  bool isAnd = sign == "&&", isOr = sign == "||";
  Expr within = isAnd ? both(active, a) : isOr ? both(active, apply(Not, {a})) : active;
  Expr b = of(*expr.parts[1], within);
  if (!b)
    return b;
  bool isWhole = isInteger(a->type);
  static const std::map<std::string, Operation> names = {
      {"+", Add},        {"-", Subtract}, {"*", Multiply},  {"min", Minimum},
      {"max", Maximum},  {"==", Equal},   {"!=", NotEqual}, {"<", Less},
      {"<=", LessEqual}, {"&&", And},     {"||", Or},       {"%", FloorRemainder}};
  if (sign == "/")
    return apply(isWhole ? FloorDivide : Divide, {a, b});
  if (sign == ">" || sign == ">=")
    return apply(sign == ">" ? Less : LessEqual, {b, a});
  auto found = names.find(sign);
  return found == names.end() ? refuse("'" + sign + "' has no code") : apply(found->second, {a, b});
}

Expr ComprehensionValue::function(const CExpr &expr, const Expr &active) {
  std::vector<Expr> arguments;
  for (const comprehension::ExprRef &part : expr.parts) {
    arguments.push_back(of(*part, active));
    if (!arguments.back())
      return {};
  }
  std::string name = graph::operatorOfFunction(expr.text).str();
  return name.empty() ? composed(expr.text, std::move(arguments))
                      : byOperator(name, std::move(arguments));
}

/// Functions that others give.
Expr ComprehensionValue::composed(const std::string &name, std::vector<Expr> x) {
  using enum Operation;
  DataType type = x[0]->type;
  auto real = [&](double value) { return number(type, value, 0); };
  auto isNan = [](const Expr &e) { return apply(NotEqual, {e, e}); };
  if (name == "fmod")
    return apply(Remainder, x);
  if (name == "fmax" || name == "fmin") { // the other where one is NaN
    Expr better = apply(name == "fmax" ? Maximum : Minimum, x);
    better = apply(Select, {isNan(x[0]), x[1], better});
    return apply(Select, {isNan(x[1]), x[0], better});
  }
  if (name == "fdim") {
    Expr difference = apply(Subtract, x);
    Expr isPositive = apply(Or, {apply(Less, {x[1], x[0]}), isNan(difference)});
    return apply(Select, {isPositive, difference, real(0)});
  }
  if (name == "fma")
    return apply(Add, {apply(Multiply, {x[0], x[1]}), x[2]});
  if (name == "trunc")
    return apply(Select, {apply(Less, {x[0], real(0)}), apply(Ceiling, x), apply(Floor, x)});
  if (name == "erfc")
    return apply(Subtract, {real(1), apply(ErrorFunction, x)});
  if (name == "exp2" || name == "exp10")
    return apply(Power, {real(name == "exp2" ? 2 : 10), x[0]});
  if (name == "log2" || name == "log10")
    return apply(Multiply, {apply(Logarithm, x), real(1 / std::log(name == "log2" ? 2.0 : 10.0))});
  if (name == "hypot" || name == "rhypot") {
    Expr square = apply(Add, {apply(Multiply, {x[0], x[0]}), apply(Multiply, {x[1], x[1]})});
    return apply(name == "hypot" ? SquareRoot : ReciprocalSquareRoot, {square});
  }
  return refuse("the function '" + name + "' is no operator of the graph");
}

/// An index: affine where it is, else computed in 64 bits.
Expr ComprehensionValue::whole(const CExpr &expr, const Expr &active) {
  if (auto affine = scope_.affine(expr))
    return index(*affine);
  if (expr.kind == CExpr::Kind::Integer)
    return number(DataType::I64, double(expr.integer), expr.integer);
  using enum Operation;
  static const std::map<std::string, Operation> names = {
      {"+", Add},       {"-", Subtract}, {"*", Multiply}, {"/", FloorDivide}, {"%", FloorRemainder},
      {"min", Minimum}, {"max", Maximum}};
  bool isArithmetic = expr.kind == CExpr::Kind::Binary && names.count(expr.text);
  if (isArithmetic)
    return apply(names.at(expr.text),
                 {whole(*expr.parts[0], active), whole(*expr.parts[1], active)});
  if (expr.kind == CExpr::Kind::Unary && expr.text == "-")
    return apply(Negate, {whole(*expr.parts[0], active)});
  Expr value = of(expr, active);
  return !value                         ? number(DataType::I64, 0, 0)
         : value->type == DataType::I64 ? value
                                        : cast(DataType::I64, value);
}

Expr ComprehensionValue::read(const CExpr &expr, const Expr &active) {
  size_t number = size_t(expr.integer);
  auto name = scope_.tensors.find(number);
  if (name == scope_.tensors.end())
    return refuse("'" + expr.text + "' is no operand");
  const Tensor &tensor = scope_.tensor(name->second);
  Expression result{Operation::Load, tensor.type};
  result.tensor = tensor.name;
  for (size_t dim = 0; dim < expr.parts.size(); ++dim) {
    auto low = scope_.affine(*view_.function->tensors[number].lows[dim]);
    if (!low)
      return refuse("where '" + expr.text + "' begins is not affine in sizes");
    Expr given = whole(*expr.parts[dim], active);
    bool isAffine = given->operation == Operation::Index;
    Expr at = isAffine            ? index(given->affine - *low)
              : *low == Affine(0) ? given
                                  : apply(Operation::Subtract, {given, index(*low)});
    if ((expr.checked >> dim) & 1) {
      if (isAffine) // what may be outside is a gather
        at = cast(DataType::I64, at);
      std::string text = "(C2) " + std::to_string(expr.place.line) + ":" +
                         std::to_string(expr.place.column) + ": " + expr.text +
                         " is read at index {} along dimension " + std::to_string(dim) +
                         ", which is outside of it";
      result.reports[dim] = {std::move(text), *low};
    }
    result.operands.push_back(std::move(at));
  }
  if (active && !result.reports.empty()) {
    result.isConditional = true;
    result.operands.push_back(active);
  }
  Expr loaded = std::make_shared<Expression>(std::move(result));
  DataType type = computedAs(tensor.type);
  return type == tensor.type ? loaded : cast(type, loaded);
}

} // namespace tensmith::nest
