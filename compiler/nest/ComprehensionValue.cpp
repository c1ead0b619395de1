// Operators, functions and reads of a comprehension; see ComprehensionValue.h.
#include "compiler/nest/ComprehensionValue.h"

#include <algorithm>
#include <cmath>

namespace tensmith::nest {

using CExpr = comprehension::Expr;

/// Of whole numbers of 64 bits, where it is affine as written; others may wrap, and sums of larger
/// constants could.
static std::optional<Affine> affineOf(const Expr &expr) {
  constexpr int64_t kMost = int64_t(1) << 40;
  if (expr->operation == Operation::Index)
    return expr->affine;
  if (expr->type != DataType::I64)
    return std::nullopt;
  std::optional<Affine> result;
  if (expr->operation == Operation::Constant)
    result = Affine(expr->integer);
  if (expr->operation == Operation::Add || expr->operation == Operation::Subtract) {
    auto a = affineOf(expr->operands[0]), b = affineOf(expr->operands[1]);
    if (a && b)
      result = expr->operation == Operation::Add ? *a + *b : *a - *b;
  }
  return result && result->constant >= -kMost && result->constant <= kMost ? result : std::nullopt;
}

/// The conditions of which all must hold; false: one of them has another form.
static bool addConjuncts(const Expr &condition, std::vector<Constraint> &into) {
  if (condition->operation == Operation::And) {
    bool first = addConjuncts(condition->operands[0], into);
    return addConjuncts(condition->operands[1], into) && first;
  }
  bool isLess = condition->operation == Operation::Less;
  if (!isLess && condition->operation != Operation::LessEqual)
    return false;
  auto a = affineOf(condition->operands[0]), b = affineOf(condition->operands[1]);
  if (a && b)
    into.push_back(isLess ? less(*a, *b) : atLeast(*b, *a));
  return a && b;
}

/// Whether one of the facts says it, or more.
static bool isImplied(const Constraint &wanted, const std::vector<Constraint> &facts) {
  if (wanted.value.isConstant())
    return wanted.value.constant >= 0;
  return std::any_of(facts.begin(), facts.end(), [&](const Constraint &fact) {
    return fact.value.terms == wanted.value.terms && fact.value.constant <= wanted.value.constant;
  });
}

bool ComprehensionValue::alwaysHolds(const Expr &condition) const {
  std::vector<Constraint> asked;
  return addConjuncts(condition, asked) &&
         std::all_of(asked.begin(), asked.end(),
                     [&](const Constraint &each) { return isImplied(each, scope_.domain); });
}

Expr ComprehensionValue::refuse(std::string why) {
  if (refusal_.empty())
    refusal_ = std::move(why);
  return wholeNumber(DataType::I64, 0);
}

Expr ComprehensionValue::of(const CExpr &expr, const Expr &active) {
  if (!refusal_.empty())
    return {};
  DataType type = computedAs(expr.type);
  switch (expr.kind) {
  case CExpr::Kind::Integer:
  case CExpr::Kind::Boolean:
    return wholeNumber(type, expr.integer);
  case CExpr::Kind::Real:
    return constant(type, expr.number);
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
    if (alwaysHolds(condition)) // as what an adjoint asks of ranges that are the operand's own
      return of(*expr.parts[1], active);
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
  auto real = [&](double value) { return constant(type, value); };
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
    return wholeNumber(DataType::I64, expr.integer);
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
  return !value                         ? wholeNumber(DataType::I64, 0)
         : value->type == DataType::I64 ? value
                                        : cast(DataType::I64, value);
}

/// An index that may be outside of what the text tells of sizes is a gather, and reported. Where
/// the sizes that are known here, and the statement's ranges, keep it inside, it is like any other;
/// and where the conditions around the read do, they are its guard.
Expr ComprehensionValue::read(const CExpr &expr, const Expr &active) {
  size_t number = size_t(expr.integer);
  auto name = scope_.tensors.find(number);
  if (name == scope_.tensors.end())
    return refuse("'" + expr.text + "' is no operand");
  const Tensor &tensor = scope_.tensor(name->second);
  Expression result{Operation::Load, tensor.type};
  result.tensor = tensor.name;
  std::vector<Constraint> held, guard; // what holds here; of indices that ranges don't keep inside
  if (expr.checked) {
    held = scope_.domain;
    if (active)
      addConjuncts(active, held);
  }
  bool isGuarded = true;
  for (size_t dim = 0; dim < expr.parts.size(); ++dim) {
    auto low = scope_.affine(*view_.function->tensors[number].lows[dim]);
    if (!low)
      return refuse("where '" + expr.text + "' begins is not affine in sizes");
    Expr given = whole(*expr.parts[dim], active);
    bool isAffine = given->operation == Operation::Index;
    Expr at = isAffine            ? index(given->affine - *low)
              : *low == Affine(0) ? given
                                  : apply(Operation::Subtract, {given, index(*low)});
    bool mayBeOutside = ((expr.checked >> dim) & 1) && !isAffine;
    isGuarded &= !mayBeOutside;
    if (((expr.checked >> dim) & 1) && isAffine)
      for (const Constraint &bound : within(at->affine, 0, tensor.extents[dim]))
        if (!isImplied(bound, scope_.domain)) {
          mayBeOutside = true;
          isGuarded &= isImplied(bound, held);
          guard.push_back(bound);
        }
    if (mayBeOutside) {
      std::string text = "(C2) " + std::to_string(expr.place.line) + ":" +
                         std::to_string(expr.place.column) + ": " + expr.text +
                         " is read at index {} along dimension " + std::to_string(dim) +
                         ", which is outside of it";
      result.reports[dim] = {std::move(text), *low};
    }
    result.operands.push_back(std::move(at));
  }
  if (!guard.empty() && isGuarded) {
    result.reports.clear();
    result.guard = std::move(guard);
    result.operands.push_back(nest::constant(tensor.type, 0));
  }
  for (auto &[dim, report] : result.reports)
    if (result.operands[dim]->operation == Operation::Index) // what may be outside is a gather
      result.operands[dim] = cast(DataType::I64, result.operands[dim]);
  if (active && !result.reports.empty()) {
    result.isConditional = true;
    result.operands.push_back(active);
  }
  Expr loaded = std::make_shared<Expression>(std::move(result));
  DataType type = computedAs(tensor.type);
  return type == tensor.type ? loaded : cast(type, loaded);
}

} // namespace tensmith::nest
