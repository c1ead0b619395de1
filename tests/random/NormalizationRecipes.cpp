// Normalisation, and the quantised forms: a tensor, and parameters of the shapes that belong to it.
#include "tests/random/Generator.h"

#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

Operation *layerNorm(Generator &g, StringRef name) {
  Value x = g.tensor(1, 5, g.drawFloat());
  Dims dims = g.dims(x);
  int64_t axis = g.chance(0.7) ? g.rank(x) - 1 : g.between(0, g.rank(x) - 1);
  ArrayRef<AffineExpr> tail = ArrayRef(dims).drop_front(size_t(axis));
  SmallVector<Value> operands{x, g.like(g.element(x), tail)};
  if (name == "layer_norm")
    operands.push_back(g.chance(0.6) ? g.like(g.element(x), tail) : g.none());
  return g.create(name, operands, g.i64("axis", axis));
}

/// Normalisation with parameters for each channel.
Operation *channelNorm(Generator &g, StringRef name) {
  Value x = g.tensor(name == "batch_norm" ? 2 : 3, 5, g.drawFloat());
  AffineExpr channels = g.dims(x)[1];
  SmallVector<Value> operands{x};
  for (int i = 0; i < (name == "batch_norm" ? 3 : 2); ++i)
    operands.push_back(g.like(g.element(x), channels));
  if (name == "batch_norm")
    operands.push_back(g.fresh(g.element(x), channels, "positive", g.chance(0.5)));
  SmallVector<NamedAttribute> attributes;
  if (name == "group_norm") {
    auto count = g.known(channels);
    if (!count || *count == 0)
      return nullptr;
    int64_t groups = g.between(1, *count);
    while (*count % groups != 0)
      --groups;
    attributes.push_back(g.i64("groups", groups));
  }
  return g.create(name, operands, attributes);
}

Operation *lrn(Generator &g, StringRef name) {
  return g.create(name, g.tensor(3, 5, g.drawFloat()), g.i64("size", g.between(1, 5)));
}

/// One scale, or one for each element of an axis or each block of them.
Operation *quantise(Generator &g, StringRef name) {
  Type code = graph::elementType(g.context, g.random.of({DataType::I8, DataType::U8}));
  Type real = g.chance(0.8) ? Type(g.builder.getF32Type()) : g.builder.getF16Type();
  bool isOfCodes = name == "dequantize";
  Value x = g.tensor(1, 5, isOfCodes ? code : real);
  int64_t axis = g.between(0, g.rank(x) - 1);
  Dims scaleDims;
  int64_t block = g.chance(0.3) ? g.between(1, 4) : 0;
  if (block) {
    scaleDims = g.dims(x);
    AffineExpr &blocks = scaleDims[size_t(axis)];
    blocks = g.shapes.simplify(blocks.ceilDiv(block));
  } else if (g.chance(0.5)) {
    scaleDims.push_back(g.dims(x)[size_t(axis)]);
  }
  // Powers of two, so that nothing lies on one side of a tie in F16 and on the other in F32.
  Value scale = g.fresh(real, scaleDims, "powers", g.chance(0.7));
  SmallVector<Value> operands{x, scale};
  operands.push_back(g.chance(0.5) ? g.fresh(code, scaleDims, "positive", true) : g.none());
  return g.create(
      name, operands,
      {g.i64("axis", axis), g.i64("block_size", block), g.type("to", isOfCodes ? real : code)});
}

} // namespace

ArrayRef<NamedRecipe> normalizationRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"softmax", drawByRecord, 2},     {"log_softmax", drawByRecord, 0.8},
      {"layer_norm", layerNorm, 2},     {"rms_norm", layerNorm, 1},
      {"batch_norm", channelNorm, 1},   {"instance_norm", channelNorm, 0.6},
      {"group_norm", channelNorm, 0.6}, {"lrn", lrn, 0.4},
      {"quantize", quantise, 0.8},      {"dequantize", quantise, 0.8},
      {"fake_quantize", quantise, 0.6},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
