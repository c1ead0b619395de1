// Reading and writing at indices that are data; indices are drawn within the sizes of every run.
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

Value drawIndices(Generator &g, int64_t bound, ArrayRef<AffineExpr> dims) {
  if (bound < 1)
    return {};
  Type type = g.chance(0.7) ? g.builder.getI64Type() : g.builder.getI32Type();
  return g.fresh(type, dims, "index:" + std::to_string(bound), g.chance(0.4));
}

Operation *gather(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t axis = g.between(0, g.rank(x) - 1);
  Value indices = drawIndices(g, g.least(g.dims(x)[size_t(axis)]), g.drawDims(g.between(0, 2)));
  return g.create(name, {x, indices}, g.i64("axis", axis));
}

Dims shrunk(Generator &g, ArrayRef<AffineExpr> dims) {
  Dims result;
  for (AffineExpr dim : dims)
    result.push_back(g.chance(0.5) || g.least(dim) < 1 ? dim : g.size(g.between(1, g.least(dim))));
  return result;
}

Operation *gatherElements(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t axis = g.between(0, g.rank(x) - 1);
  Value indices = drawIndices(g, g.least(g.dims(x)[size_t(axis)]), shrunk(g, g.dims(x)));
  return g.create(name, {x, indices}, g.i64("axis", axis));
}

/// Tuples that address `depth` dimensions, behind those that are batches.
Value drawTuples(Generator &g, Value x, int64_t depth, ArrayRef<AffineExpr> dims,
                 int64_t batches = 0) {
  int64_t bound = std::numeric_limits<int64_t>::max();
  for (int64_t dim = 0; dim < depth; ++dim)
    bound = std::min(bound, g.least(g.dims(x)[size_t(batches + dim)]));
  Dims all(dims);
  all.push_back(g.size(depth));
  return bound < 1 ? Value()
                   : g.fresh(g.builder.getI64Type(), all, "index:" + std::to_string(bound));
}

Operation *gatherND(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t rank = g.rank(x), batches = rank > 1 && g.chance(0.5) ? g.between(1, rank - 1) : 0;
  Dims own = g.dims(x), places(ArrayRef(own).take_front(size_t(batches)));
  places.append(g.drawDims(g.between(batches ? 0 : 1, 2)));
  Value tuples = drawTuples(g, x, g.between(1, rank - batches), places, batches);
  return g.create(name, {x, tuples}, g.i64("batch_dims", batches));
}

Operation *scatterElements(Generator &g, StringRef name) {
  Value x = g.tensor(1, 3);
  int64_t axis = g.between(0, g.rank(x) - 1);
  const char *reduction = g.random.of<const char *>({"none", "add", "mul", "min", "max"});
  Dims dims = g.dims(x);
  if (reduction[0] == 'n') // which of two updates of one element stays is not said
    dims[size_t(axis)] = g.size(1);
  Value indices = drawIndices(g, g.least(g.dims(x)[size_t(axis)]), dims);
  return g.create(name, {x, indices, g.like(g.element(x), dims)},
                  {g.i64("axis", axis), g.text("reduction", reduction)});
}

Operation *scatterND(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t depth = g.between(1, g.rank(x));
  const char *reduction = g.random.of<const char *>({"none", "add", "mul", "min", "max"});
  Dims updates{g.size(reduction[0] == 'n' ? 1 : g.between(1, 5))};
  Value indices = drawTuples(g, x, depth, updates);
  Dims own = g.dims(x);
  updates.append(own.begin() + depth, own.end());
  return g.create(name, {x, indices, g.like(g.element(x), updates)},
                  g.text("reduction", reduction));
}

Operation *tensorScatter(Generator &g, StringRef name) {
  Type type = g.drawElement();
  AffineExpr batch = g.size(g.between(1, 3)), width = g.drawDim();
  int64_t capacity = g.between(3, 9), length = g.between(1, 3);
  Value past = g.like(type, {batch, g.size(2), g.size(capacity), width});
  Value update = g.like(type, {batch, g.size(2), g.size(length), width});
  Value at =
      g.fresh(g.builder.getI64Type(), batch, "index:" + std::to_string(capacity - length + 1));
  return g.create(name, {past, update, at},
                  {g.i64("axis", 2), g.text("mode", g.chance(0.5) ? "linear" : "circular")});
}

Operation *oneHot(Generator &g, StringRef name) {
  int64_t depth = g.between(1, 9);
  Value indices = drawIndices(g, depth, g.drawDims(g.between(0, 3)));
  return g.create(name, {indices, g.integer(depth), g.like(g.drawElement(), g.size(2))},
                  g.i64("axis", g.between(-1, g.rank(indices))));
}

Operation *compress(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t axis = g.between(0, g.rank(x) - 1);
  Value condition = g.like(g.builder.getI1Type(), g.dims(x)[size_t(axis)]);
  return g.create(name, {x, condition}, g.i64("axis", axis));
}

Operation *topk(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  int64_t axis = g.between(0, g.rank(x) - 1), least = g.least(g.dims(x)[size_t(axis)]);
  if (least < 1)
    return nullptr;
  return g.create(name, {x, g.integers({g.between(1, least)})},
                  {g.i64("axis", axis), g.flag("largest", g.chance(0.5))});
}

Operation *unique(Generator &g, StringRef name) {
  Value x = g.tensor(0, 4);
  return g.create(name, x, g.flag("sorted", g.chance(0.7)));
}

Operation *nonMaxSuppression(Generator &g, StringRef name) {
  AffineExpr boxes = g.size(g.between(1, 12)), batch = g.size(g.between(1, 2));
  Type f32 = g.builder.getF32Type();
  return g.create(name,
                  {g.like(f32, {batch, boxes, g.size(4)}), g.like(f32, {batch, g.size(2), boxes}),
                   g.integers({3}), g.reals(f32, {0.5}), g.reals(f32, {0.1})});
}

} // namespace

ArrayRef<NamedRecipe> gatherRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"gather", gather, 2},
      {"gather_elements", gatherElements, 1},
      {"gather_nd", gatherND, 1},
      {"scatter_elements", scatterElements, 0.6},
      {"scatter_nd", scatterND, 0.6},
      {"tensor_scatter", tensorScatter, 0.3},
      {"one_hot", oneHot, 0.5},
      {"compress", compress, 0.3},
      {"topk", topk, 0.6},
      {"unique", unique, 0.3},
      {"non_max_suppression", nonMaxSuppression, 0.3},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
