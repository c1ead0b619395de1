// Reshapes, slices, paddings and their like, with parameters as attributes and as operands.
#include "tests/random/Generator.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

/// Neighbours joined, dimensions split by a divisor, ones added or dropped: the same elements.
Dims regrouped(Generator &g, ArrayRef<AffineExpr> dims) {
  Dims result;
  for (AffineExpr dim : dims) {
    auto size = g.known(dim);
    if (size && *size == 1 && g.chance(0.5))
      continue;
    if (!result.empty() && g.chance(0.4))
      result.back() = g.shapes.simplify(result.back() * dim);
    else
      result.push_back(dim);
    auto joined = g.known(result.back());
    int64_t divisor = g.random.of({2, 3, 4});
    if (joined && *joined > 0 && *joined % divisor == 0 && g.chance(0.4) && result.size() < 5) {
      result.back() = g.size(divisor);
      result.push_back(g.size(*joined / divisor));
    }
  }
  if (result.size() < 5 && g.chance(0.3))
    result.insert(result.begin() + g.between(0, int64_t(result.size())), g.size(1));
  return result;
}

/// A target that the run computes of x's own dimensions, in another order, with one that is left to
/// -1. A size of 0 is that, and not the operand's.
Operation *reshapeByShape(Generator &g, StringRef name) {
  Value x = g.tensor(2, 4);
  SmallVector<int64_t> kept = g.permutation(g.rank(x));
  kept.resize(size_t(g.between(1, g.rank(x) - 1)));
  Value sizes = g.helper(g.create("shape", x));
  Value chosen = g.helper(g.create("gather", {sizes, g.integers(kept)}, g.i64("axis", 0)));
  SmallVector<Value> parts{chosen, g.integers({-1})};
  if (g.chance(0.5))
    std::swap(parts[0], parts[1]);
  Value target = g.helper(g.create("concat", parts, g.i64("axis", 0)));
  return g.create(name, {x, target}, g.flag("allowzero", true));
}

Operation *reshape(Generator &g, StringRef name) {
  if (g.drawsRare && name == "dynamic_reshape" && g.chance(0.4))
    return reshapeByShape(g, name);
  Value x = g.tensor(0, 5);
  Dims to = regrouped(g, g.dims(x));
  if (name == "reshape")
    return g.createTyped(name, g.shapes.tensorType(g.element(x), to), x);
  SmallVector<int64_t> sizes;
  for (AffineExpr dim : to)
    sizes.push_back(g.known(dim).value_or(-1));
  if (!sizes.empty() && g.chance(0.4))
    sizes[size_t(g.between(0, int64_t(sizes.size()) - 1))] = -1;
  return g.create(name, {x, g.integers(sizes)});
}

Operation *transpose(Generator &g, StringRef name) {
  Value x = g.tensor(0, 5);
  return g.create(name, x, g.i64s("permutation", g.permutation(g.rank(x))));
}

Operation *broadcast(Generator &g, StringRef name) {
  Value x = g.tensor(0, 4);
  Dims to = g.dims(x);
  for (AffineExpr &dim : to)
    if (auto size = g.known(dim); size && *size == 1)
      dim = g.drawDim();
  if (g.chance(0.5))
    to.insert(to.begin(), g.drawDim());
  if (name == "broadcast")
    return g.createTyped(name, g.shapes.tensorType(g.element(x), to), x);
  SmallVector<int64_t> sizes;
  for (AffineExpr dim : to)
    sizes.push_back(g.known(dim).value_or(1));
  return g.create(name, {x, g.integers(sizes)});
}

struct Range {
  int64_t start, step, count;
};
Range drawRange(Generator &g, int64_t size) {
  int64_t start = g.between(0, size - 1), step = g.random.of({1, 1, 1, 2, 3, -1, -2});
  int64_t most = step > 0 ? (size - 1 - start) / step + 1 : start / -step + 1;
  return {start, step, g.chance(0.5) ? most : g.between(1, most)};
}

Operation *slice(Generator &g, StringRef name) {
  Value x = g.tensor(1, 5);
  SmallVector<int64_t> starts, steps, ends;
  Dims to;
  for (AffineExpr dim : g.dims(x)) {
    int64_t size = g.least(dim);
    bool whole = size < 1 || g.chance(0.5);
    Range range = whole ? Range{0, 1, size} : drawRange(g, size);
    starts.push_back(range.start);
    steps.push_back(range.step);
    to.push_back(whole ? dim : g.size(range.count));
    int64_t end = range.start + range.count * range.step;
    ends.push_back(whole     ? std::numeric_limits<int64_t>::max()
                   : end < 0 ? std::numeric_limits<int64_t>::min()
                             : end);
  }
  if (name == "slice")
    return g.createTyped(name, g.shapes.tensorType(g.element(x), to), x,
                         {g.i64s("starts", starts), g.i64s("steps", steps)});
  return g.create(name, {x, g.integers(starts), g.integers(ends), g.none(), g.integers(steps)});
}

Operation *concat(Generator &g, StringRef name) {
  Value x = g.tensor(1, 5);
  int64_t axis = g.between(0, g.rank(x) - 1), count = g.between(1, 4);
  SmallVector<Value> operands{x};
  for (int64_t i = 1; i < count; ++i) {
    Dims dims = g.dims(x);
    if (g.chance(0.6))
      dims[size_t(axis)] = g.drawDim();
    operands.push_back(g.like(g.element(x), dims));
  }
  return g.create(name, operands, g.i64("axis", axis));
}

/// What is cut off and put back: of nothing, the size between is negative, and no value that is
/// stored has it.
Operation *padBackAgain(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  SmallVector<int64_t> none(size_t(g.rank(x)), 0), cut(none), back(none);
  size_t dim = size_t(g.between(0, g.rank(x) - 1));
  cut[dim] = -g.between(1, 2), back[dim] = g.between(1, 3);
  if (g.least(g.dims(x)[dim]) + cut[dim] < 0)
    return nullptr;
  auto constant = g.text("mode", "constant");
  Value inner =
      g.helper(g.create(name, {x, g.none()}, {g.i64s("low", cut), g.i64s("high", none), constant}));
  return inner ? g.create(name, {inner, g.none()},
                          {g.i64s("low", none), g.i64s("high", back), constant})
               : nullptr;
}

Operation *pad(Generator &g, StringRef name) {
  if (g.drawsRare && name == "pad" && g.chance(0.4))
    return padBackAgain(g, name);
  Value x = g.tensor(1, 5);
  const char *mode = g.random.of<const char *>({"constant", "constant", "reflect", "edge", "wrap"});
  SmallVector<int64_t> low, high;
  for (AffineExpr dim : g.dims(x)) {
    int64_t most = std::min<int64_t>(g.least(dim) - 1, 3);
    auto draw = [&] {
      return g.chance(0.4) || most < 1 ? 0 : g.between(mode[0] == 'c' ? -1 : 0, most);
    };
    low.push_back(draw());
    high.push_back(draw());
  }
  Value value = mode[0] == 'c' && g.chance(0.5) ? g.like(g.element(x), {}) : g.none();
  if (name == "pad")
    return g.create(name, {x, value},
                    {g.i64s("low", low), g.i64s("high", high), g.text("mode", mode)});
  low.append(high);
  return g.create(name, {x, g.integers(low), value, g.none()}, g.text("mode", mode));
}

Operation *trilu(Generator &g, StringRef name) {
  Value x = g.tensor(2, 5);
  return g.create(name, {x, g.chance(0.5) ? g.none() : g.integer(g.between(-3, 3))},
                  g.flag("upper", g.chance(0.5)));
}

Operation *pack(Generator &g, StringRef name) {
  return g.create(name, g.tensor(2, 4),
                  {g.i64("width", g.random.of({4, 8, 16})), g.flag("transposed", g.chance(0.5))});
}

Operation *tile(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  SmallVector<int64_t> repeats;
  for (int64_t dim = 0; dim < g.rank(x); ++dim)
    repeats.push_back(g.chance(0.6) ? 1 : g.between(1, 3));
  return g.create(name, {x, g.integers(repeats)});
}

Operation *centerCropPad(Generator &g, StringRef name) {
  Value x = g.tensor(1, 4);
  SmallVector<int64_t> sizes;
  for (int64_t dim = 0; dim < g.rank(x); ++dim)
    sizes.push_back(g.between(1, 9));
  return g.create(name, {x, g.integers(sizes)});
}

Operation *reverseSequence(Generator &g, StringRef name) {
  Value x = g.tensor(2, 4);
  int64_t batch = g.between(0, 1), least = g.least(g.dims(x)[size_t(1 - batch)]);
  if (least < 1)
    return nullptr;
  Value lengths = g.fresh(g.builder.getI64Type(), g.dims(x)[size_t(batch)],
                          "index:" + std::to_string(least + 1));
  return g.create(name, {x, lengths}, {g.i64("batch_axis", batch), g.i64("time_axis", 1 - batch)});
}

Operation *shape(Generator &g, StringRef name) { return g.create(name, g.tensor(0, 5)); }

} // namespace

ArrayRef<NamedRecipe> movementRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"reshape", reshape, 3},
      {"transpose", transpose, 4},
      {"broadcast", broadcast, 1.5},
      {"slice", slice, 3},
      {"concat", concat, 3},
      {"pad", pad, 2},
      {"trilu", trilu, 0.6},
      {"pack", pack, 0.3},
      {"dynamic_reshape", reshape, 1},
      {"dynamic_broadcast", broadcast, 0.8},
      {"dynamic_slice", slice, 1},
      {"dynamic_pad", pad, 0.6},
      {"dynamic_tile", tile, 0.6},
      {"center_crop_pad", centerCropPad, 0.3},
      {"reverse_sequence", reverseSequence, 0.3},
      {"shape", shape, 0.5},
      {"size", shape, 0.3},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
