// Ranges, random numbers (a function of their seed, so comparable), windows and transforms of
// signals.
#include "tests/random/Generator.h"

#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

Operation *range(Generator &g, StringRef name) {
  return g.create(
      name, {g.integer(g.between(-5, 5)), g.integer(g.between(6, 40)), g.integer(g.between(1, 4))});
}

Operation *iota(Generator &g, StringRef name) {
  Dims dims = g.drawDims(g.between(1, 3));
  Type type = g.chance(0.5) ? g.builder.getI64Type() : g.drawElement();
  return g.createTyped(name, g.shapes.tensorType(type, dims), {},
                       g.i64("axis", g.between(0, int64_t(dims.size()) - 1)));
}

/// What the numbers depend on besides their seed.
Value key(Generator &g) { return g.chance(0.5) ? g.none() : g.integer(g.between(-9, 9)); }

Operation *randomNumbers(Generator &g, StringRef name) {
  Type type = g.shapes.tensorType(g.builder.getF32Type(), g.drawDims(g.between(1, 3)));
  return g.createTyped(name, type, key(g), g.i64("seed", g.between(0, 1000)));
}

Operation *bernoulli(Generator &g, StringRef name) {
  Value p = g.fresh(g.builder.getF32Type(), g.drawDims(g.between(0, 3)), "positive");
  return g.create(name, {p, key(g)},
                  {g.type("to", g.builder.getF32Type()), g.i64("seed", g.between(0, 1000))});
}

Operation *multinomial(Generator &g, StringRef name) {
  Value x = g.fresh(g.builder.getF32Type(), g.drawDims(2));
  return g.create(name, {x, key(g)},
                  {g.type("to", g.builder.getI64Type()), g.i64("sample_size", g.between(1, 4)),
                   g.i64("seed", g.between(0, 1000))});
}

Operation *dropout(Generator &g, StringRef name) {
  Value x = g.tensor(0, 4, g.builder.getF32Type());
  bool training = g.chance(0.5);
  Value ratio = g.helper(g.graph.scalar(g.builder.getF32Type(), 0.25).getDefiningOp());
  Value mode =
      training ? g.helper(g.graph.scalar(g.builder.getI1Type(), 1).getDefiningOp()) : g.none();
  return g.create(name, {x, ratio, mode, key(g)}, g.i64("seed", g.between(0, 1000)));
}

Operation *dft(Generator &g, StringRef name) {
  int64_t length = g.between(1, 17);
  bool isInverse = g.chance(0.4), isHalf = g.chance(0.4);
  AffineExpr own = g.size(isInverse && isHalf ? length / 2 + 2 : length);
  Value x = g.like(g.builder.getF32Type(),
                   {g.size(g.between(1, 3)), own, g.size(2), g.size(g.between(1, 2))});
  Value given = g.chance(0.5) ? g.integer(g.between(1, 20)) : g.none();
  Value axis = isHalf || g.chance(0.5) ? g.integer(g.random.of({1, -3})) : g.none();
  return g.create(name, {x, given, axis},
                  {g.flag("inverse", isInverse), g.flag("onesided", isHalf)});
}

Operation *stft(Generator &g, StringRef name) {
  Value x = g.like(g.builder.getF32Type(), {g.size(g.between(1, 2)), g.size(g.between(16, 48)),
                                            g.size(g.chance(0.8) ? 1 : 2)});
  int64_t length = g.random.of({4, 7, 8, 16});
  Value window = g.chance(0.5) ? g.like(g.builder.getF32Type(), g.size(length)) : g.none();
  return g.create(name, {x, g.integer(g.between(1, 5)), window, g.integer(length)},
                  g.flag("onesided", g.chance(0.7)));
}

Operation *window(Generator &g, StringRef name) {
  return g.create(name, g.integer(g.between(1, 20)),
                  {g.text("kind", g.random.of<const char *>({"blackman", "hann", "hamming"})),
                   g.type("to", g.builder.getF32Type()), g.flag("periodic", g.chance(0.5))});
}

Operation *melWeightMatrix(Generator &g, StringRef name) {
  Type f32 = g.builder.getF32Type();
  Value low = g.helper(g.graph.scalar(f32, 0).getDefiningOp());
  Value high = g.helper(g.graph.scalar(f32, 4000).getDefiningOp());
  return g.create(name, {g.integer(g.between(1, 8)), g.integer(16), g.integer(8192), low, high},
                  g.type("to", f32));
}

} // namespace

ArrayRef<NamedRecipe> creationRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"range", range, 0.5},
      {"iota", iota, 0.6},
      {"random_uniform", randomNumbers, 0.3},
      {"random_normal", randomNumbers, 0.3},
      {"bernoulli", bernoulli, 0.3},
      {"multinomial", multinomial, 0.3},
      {"dropout", dropout, 0.4},
      {"dft", dft, 0.3},
      {"stft", stft, 0.3},
      {"window", window, 0.3},
      {"mel_weight_matrix", melWeightMatrix, 0.3},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
