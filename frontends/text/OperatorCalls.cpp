// Calls of operators: operands by place or by name, attributes from what is written for them.
#include "frontends/text/Inference.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tensmith::text {
namespace {

std::optional<int64_t> integerOf(const Expr &expr) {
  bool negative = expr.kind == Expr::Kind::Operator && expr.text == "neg";
  const Expr &number = negative ? *expr.parts[0] : expr;
  if (number.kind != Expr::Kind::Integer || number.text.size() > 18)
    return std::nullopt;
  return (negative ? -1 : 1) * std::stoll(number.text);
}

std::optional<double> realOf(const Expr &expr) {
  if (expr.kind != Expr::Kind::Integer && expr.kind != Expr::Kind::Real)
    return std::nullopt;
  return std::strtod(expr.text.c_str(), nullptr);
}

template <typename Value, typename Of>
std::optional<SmallVector<Value>> listOf(const Expr &expr, Of of) {
  SmallVector<Value> values;
  if (expr.kind != Expr::Kind::List)
    return std::nullopt;
  for (const ExprPointer &part : expr.parts) {
    auto value = of(*part);
    if (!value)
      return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

constexpr const char *kKindNames[] = {
    "an integer",        "true or false",           "a number",
    "a text in quotes",  "an element type, as f32", "a list of integers, as [0, 1]",
    "a list of numbers", "a list of texts"};

/// Null where the expression is no attribute of the kind.
mlir::Attribute attributeOf(const Expr &expr, AttributeKind kind, Builder &builder,
                            Relations &relations) {
  auto text = [&](const Expr &one) -> std::optional<StringRef> {
    return one.kind == Expr::Kind::String ? std::optional<StringRef>(one.text) : std::nullopt;
  };
  switch (kind) {
  case AttributeKind::Integer:
    if (auto value = integerOf(expr))
      return builder.getI64IntegerAttr(*value);
    return {};
  case AttributeKind::Boolean:
    return expr.kind == Expr::Kind::Boolean ? builder.getBoolAttr(expr.text == "true")
                                            : mlir::Attribute();
  case AttributeKind::Real:
    if (auto value = realOf(expr))
      return builder.getF64FloatAttr(*value);
    return {};
  case AttributeKind::Text:
    return text(expr) ? builder.getStringAttr(*text(expr)) : mlir::Attribute();
  case AttributeKind::Type:
    for (int i = 1; i < kDataTypeCount && expr.kind == Expr::Kind::Name; ++i)
      if (name(DataType(i)) == expr.text)
        return TypeAttr::get(relations.elementType(DataType(i)));
    return {};
  case AttributeKind::Integers:
    if (auto values = listOf<int64_t>(expr, integerOf))
      return builder.getDenseI64ArrayAttr(*values);
    return {};
  case AttributeKind::Reals:
    if (auto values = listOf<double>(expr, realOf))
      return builder.getDenseF64ArrayAttr(*values);
    return {};
  case AttributeKind::Texts:
    if (auto values = listOf<StringRef>(expr, text))
      return builder.getStrArrayAttr(*values);
    return {};
  }
  return {};
}

} // namespace

/// What is no number and no element type as it stands may be computed from the function's types.
bool Inference::addComputed(const Argument &argument, const OperatorInfo::Attribute &info,
                            Relation &relation) {
  const Expr &given = *argument.value;
  if (info.kind == AttributeKind::Type) {
    bool wide = given.kind == Expr::Kind::Call && given.parts.size() == 2 &&
                given.parts[0]->text == "wide" && given.arguments.empty();
    const Expr &letter = wide ? *given.parts[1] : given;
    auto named = scope_.names.find("element " + letter.text);
    if (letter.kind != Expr::Kind::Name || named == scope_.names.end())
      return false;
    relation.computed.push_back({std::string(info.name), false, wide, {named->second}});
    return true;
  }
  ComputedAttribute sizes{std::string(info.name), info.kind == AttributeKind::Integers, false, {}};
  if (!sizes.list && info.kind != AttributeKind::Integer)
    return false;
  if (sizes.list && given.kind != Expr::Kind::List)
    return false;
  std::vector<const Expr *> parts{&given};
  if (sizes.list) {
    parts.clear();
    for (const ExprPointer &part : given.parts)
      parts.push_back(part.get());
  }
  for (const Expr *part : parts)
    if (sizes.values.emplace_back(sizeValue(*part)); !sizes.values.back())
      return false;
  relation.computed.push_back(std::move(sizes));
  return true;
}

bool Inference::addAttribute(const Argument &argument, const OperatorInfo::Attribute &info,
                             Relation &relation) {
  Builder builder(types_.shapes.mlirContext());
  mlir::Attribute value = attributeOf(*argument.value, info.kind, builder, relations_);
  if (!value && addComputed(argument, info, relation))
    return true;
  if (!value)
    error(argument.value->place, "'" + argument.name + "' of " + std::string(relation.info->name) +
                                     " is " + kKindNames[size_t(info.kind)]);
  else
    relation.attributes.push_back(builder.getNamedAttr(argument.name, value));
  return bool(value);
}

Term *Inference::inferOperator(const Expr &expr, const OperatorInfo &info,
                               const std::vector<const Expr *> &given) {
  Relation relation;
  relation.info = &info;
  relation.place = expr.place;
  bool variadic = !info.operands.empty() && info.operands[0].kind == OperandKind::Variadic;
  std::vector<const Expr *> operands = given;
  if (!variadic && operands.size() > info.operands.size()) {
    error(expr.place, std::string(info.name) + " takes " +
                          counted(info.operands.size(), "operand") + ", not " +
                          std::to_string(operands.size()) + "; attributes are given by name");
    return types_.variable();
  }
  if (!variadic)
    operands.resize(info.operands.size());
  bool right = true, unknown = false;
  std::set<std::string> names;
  for (const Argument &argument : expr.arguments) {
    if (!names.insert(argument.name).second)
      error(argument.place, "'" + argument.name + "' is given twice");
    auto named = [&](const auto &one) { return one.name == argument.name; };
    auto attribute = std::find_if(info.attributes.begin(), info.attributes.end(), named);
    auto operand = std::find_if(info.operands.begin(), info.operands.end(), named);
    if (attribute != info.attributes.end())
      right &= addAttribute(argument, *attribute, relation);
    else if (operand != info.operands.end() && !variadic)
      operands[size_t(operand - info.operands.begin())] = argument.value.get();
    else
      error(argument.place,
            std::string(info.name) + " has no operand or attribute '" + argument.name + "'");
    unknown |= attribute == info.attributes.end() && operand == info.operands.end();
  }
  for (const OperatorInfo::Attribute &attribute : info.attributes) {
    bool has =
        std::any_of(expr.arguments.begin(), expr.arguments.end(),
                    [&](const Argument &argument) { return argument.name == attribute.name; });
    if (attribute.required && !has) {
      if (!unknown)
        error(expr.place, std::string(info.name) + " needs '" + std::string(attribute.name) +
                              "', " + kKindNames[size_t(attribute.kind)]);
      right = false;
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i] && info.operands[i].kind == OperandKind::Tensor) {
      error(expr.place, std::string(info.name) + " needs the operand '" +
                            std::string(info.operands[i].name) + "'");
      return types_.variable();
    }
    relation.operands.push_back(operands[i] ? infer(*operands[i]) : nullptr);
    bool number = operands[i] && (operands[i]->kind == Expr::Kind::Integer ||
                                  operands[i]->kind == Expr::Kind::Real);
    relation.numbers.push_back(number ? operands[i] : nullptr);
  }
  std::vector<Term *> results;
  for (int i = 0; i < info.results; ++i)
    results.push_back(types_.variable());
  relation.result = info.results == 1 ? results[0] : types_.tuple(results);
  if (!right)
    return relation.result;
  Relation &kept = typing_.relations[&expr] = relation;
  // Most are decided at once, and so later errors say what is known.
  std::string text;
  Relations::Outcome outcome = relations_.solve(kept, text);
  if (outcome == Relations::Outcome::Wrong)
    error(expr.place, text);
  if (outcome == Relations::Outcome::Waiting)
    pending_.push_back(std::move(relation));
  return kept.result;
}

} // namespace tensmith::text
