// Element-wise operators whose operands or attributes their record alone doesn't say how to draw.
#include "tests/random/Generator.h"

#include "compiler/graph/Constants.h"

#include <cmath>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

Type drawTarget(Generator &g) {
  return graph::elementType(
      g.context,
      g.random.of({DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8,
                   DataType::U8, DataType::I16, DataType::U16, DataType::I32, DataType::U32,
                   DataType::I64, DataType::U64, DataType::Bool, DataType::F32, DataType::F32}));
}

Operation *cast(Generator &g, StringRef name) {
  Type to = drawTarget(g);
  g.exactOnly = !isa<FloatType>(to); // truncation
  Value x = g.tensor(0, 5, g.chance(0.5) ? Type() : drawTarget(g));
  return g.create(name, x, g.type("to", to));
}

Operation *bitCast(Generator &g, StringRef name) {
  const std::pair<DataType, DataType> pairs[] = {
      {DataType::F32, DataType::I32}, {DataType::I32, DataType::U32},
      {DataType::I8, DataType::U8},   {DataType::F64, DataType::I64},
      {DataType::I16, DataType::U16}, {DataType::U64, DataType::I64}};
  auto [from, to] = g.random.among(pairs);
  return g.create(name, g.tensor(0, 5, graph::elementType(g.context, from)),
                  g.type("to", graph::elementType(g.context, to)));
}

Operation *where(Generator &g, StringRef name) {
  Value a = g.tensor(0, 5);
  Dims dims = g.dims(a), other = dims;
  for (AffineExpr &dim : other)
    if (g.chance(0.25))
      dim = g.size(1);
  Value condition = g.like(g.builder.getI1Type(), g.chance(0.6) ? dims : other);
  return g.create(name, {condition, a, g.like(g.element(a), g.chance(0.5) ? dims : other)});
}

/// Exponents of small magnitude, most of them constant: what models have.
Operation *pow(Generator &g, StringRef name) {
  Value a = g.tensor(0, 5);
  if (g.chance(0.6))
    return g.create(
        name, {a, g.helper(g.graph.scalar(g.element(a), double(g.between(0, 3))).getDefiningOp())});
  Type exponent = g.chance(0.7) ? g.element(a) : g.drawInteger();
  return g.create(name, {a, g.like(exponent, g.dims(a), "positive")});
}

Operation *bitShift(Generator &g, StringRef name) {
  Value a = g.tensor(0, 5, g.drawInteger());
  return g.create(name, {a, g.like(g.element(a), g.dims(a), g.chance(0.7) ? "positive" : "small")},
                  g.flag("left", g.chance(0.5)));
}

constexpr auto kFloats = [](Generator &g, StringRef name) -> Operation * {
  return g.create(name, g.tensor(0, 5, g.drawFloat()));
};
constexpr auto kPositive = [](Generator &g, StringRef name) -> Operation * {
  return g.create(name, g.chance(0.5)
                            ? g.tensor(0, 5, g.drawFloat())
                            : g.fresh(g.drawFloat(), g.drawDims(g.between(0, 4)), "positive"));
};
/// Of one shifted and scaled into the domain on which acosh is defined.
constexpr auto kAboveOne = [](Generator &g, StringRef name) -> Operation * {
  Value x = g.fresh(g.drawFloat(), g.drawDims(g.between(0, 4)), "positive");
  Value one = g.helper(g.graph.scalar(g.element(x), 1).getDefiningOp());
  return g.create(name, g.helper(g.create("add", {x, one})));
};
/// Of any magnitude, where the other summand is lost.
constexpr auto kLarge = [](Generator &g, StringRef name) -> Operation * {
  if (g.chance(0.6))
    return kPositive(g, name);
  Value x = g.fresh(g.drawFloat(), g.drawDims(g.between(0, 4)), "positive");
  double power = std::pow(10.0, double(g.between(1, 10)));
  Value factor = g.helper(g.graph.scalar(g.element(x), power).getDefiningOp());
  return g.create(name, g.helper(g.create("mul", {x, factor})));
};
/// Within [-1, 1], and not at the ends, where tanh soon arrives: slopes there are no numbers.
constexpr auto kUnit = [](Generator &g, StringRef name) -> Operation * {
  Value x = g.helper(g.create(g.chance(0.5) ? "sin" : "tanh", g.tensor(0, 5, g.drawFloat())));
  Value factor = g.helper(g.graph.scalar(g.element(x), 0.9375).getDefiningOp());
  return g.create(name, g.helper(g.create("mul", {x, factor})));
};

} // namespace

ArrayRef<NamedRecipe> elementwiseRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"cast", cast, 3},         {"bit_cast", bitCast, 0.6}, {"where", where, 2},
      {"pow", pow, 1},           {"bit_shift", bitShift},    {"sqrt", kPositive},
      {"rsqrt", kPositive},      {"log", kPositive},         {"log1p", kLarge},
      {"acosh", kAboveOne, 0.7}, {"asin", kUnit, 0.7},       {"acos", kUnit, 0.7},
      {"atanh", kUnit, 0.7},     {"exp", kFloats, 1.5},      {"erf", kFloats},
      {"tanh", kFloats},         {"sigmoid", kFloats},       {"add", drawByRecord, 3},
      {"mul", drawByRecord, 3},  {"sub", drawByRecord, 2},   {"max", drawByRecord, 1.5},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
