// Products of matrices in the forms that models have: stacks that broadcast, vectors, einsum's
// letters, quantised operands; and recurrent layers, which are products over time.
#include "tests/random/Generator.h"

#include "compiler/graph/Constants.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

/// The stack of the other operand: the same, ones, or none.
Dims stackLike(Generator &g, ArrayRef<AffineExpr> stack) {
  Dims result(stack.drop_front(g.chance(0.5) ? stack.size() : 0));
  for (AffineExpr &dim : result)
    if (g.chance(0.2))
      dim = g.size(1);
  return result;
}

Operation *matmul(Generator &g, StringRef name) {
  bool quantised = g.chance(0.08);
  auto byte = [&] {
    return graph::elementType(g.context, g.random.of({DataType::I8, DataType::U8}));
  };
  Value a = g.tensor(1, 5, quantised ? byte() : Type());
  Dims dims = g.dims(a);
  AffineExpr depth = dims.pop_back_val();
  Dims other = stackLike(g, ArrayRef(dims).drop_back(dims.empty() ? 0 : 1));
  other.push_back(depth);
  if (!other.empty() && (other.size() > 1 || g.chance(0.9)))
    other.push_back(g.drawDim());
  Value b = g.like(quantised ? byte() : g.element(a), other);
  return g.create(name, {a, b}, g.flag("accumulate_i32", quantised));
}

Operation *einsum(Generator &g, StringRef name) {
  struct Form {
    const char *equation, *first, *second;
  };
  static const Form kForms[] = {{"ij,jk->ik", "ij", "jk"},
                                {"bij,bkj->bik", "bij", "bkj"},
                                {"bhid,bhjd->bhij", "bhid", "bhjd"},
                                {"i,j->ij", "i", "j"},
                                {"ij->ji", "ij", ""},
                                {"ij->", "ij", ""},
                                {"ii->i", "ii", ""},
                                {"bij,jk", "bij", "jk"},
                                {"ij,ij->i", "ij", "ij"},
                                {"...ij,...jk->...ik", "bij", "bjk"}};
  const Form &form = g.random.among(kForms);
  llvm::StringMap<AffineExpr> sizes;
  auto dimsOf = [&](StringRef letters) {
    Dims dims;
    for (size_t i = 0; i < letters.size(); ++i) {
      auto [it, isNew] = sizes.try_emplace(letters.substr(i, 1), AffineExpr());
      if (isNew)
        it->second = g.drawDims(1)[0];
      dims.push_back(it->second);
    }
    return dims;
  };
  Type type = g.drawElement();
  SmallVector<Value> operands{g.like(type, dimsOf(form.first))};
  if (form.second[0])
    operands.push_back(g.like(type, dimsOf(form.second)));
  return g.create(name, operands, g.text("equation", form.equation));
}

Operation *det(Generator &g, StringRef name) {
  AffineExpr n = g.size(g.between(1, 5));
  Dims dims = g.drawDims(g.between(0, 1));
  dims.append({n, n});
  return g.create(name, g.fresh(g.drawFloat(), dims));
}

Operation *attention(Generator &g, StringRef name) {
  Type type = g.drawFloat();
  AffineExpr batch = g.size(g.between(1, 3)), queries = g.drawDim(), keys = g.drawDim();
  int64_t groups = g.between(1, 2), kvHeads = g.between(1, 2), heads = kvHeads * groups;
  AffineExpr width = g.size(g.random.of({1, 4, 7, 8, 16})), out = g.size(g.random.of({3, 8, 16}));
  SmallVector<NamedAttribute> attributes{g.flag("is_causal", g.chance(0.3))};
  if (g.chance(0.3))
    attributes.push_back(g.real("scale", 0.5));
  if (g.chance(0.15))
    attributes.push_back(g.real("softcap", 2.0));
  Value q, k, v;
  if (g.chance(0.5)) {
    q = g.like(type, {batch, g.size(heads), queries, width});
    k = g.like(type, {batch, g.size(kvHeads), keys, width});
    v = g.like(type, {batch, g.size(kvHeads), keys, out});
  } else {
    attributes.append({g.i64("q_num_heads", heads), g.i64("kv_num_heads", kvHeads)});
    q = g.like(type, {batch, queries, width * heads});
    k = g.like(type, {batch, keys, width * kvHeads});
    v = g.like(type, {batch, keys, out * kvHeads});
  }
  Value pastKeys = g.none(), pastValues = g.none(), lengths = g.none(), mask = g.none();
  AffineExpr all = keys;
  if (g.drawsRare && g.chance(0.3)) {
    AffineExpr past = g.drawDim();
    pastKeys = g.like(type, {batch, g.size(kvHeads), past, width});
    pastValues = g.like(type, {batch, g.size(kvHeads), past, out});
    all = g.shapes.simplify(keys + past);
  } else if (g.drawsRare && g.chance(0.2)) {
    lengths = g.fresh(g.builder.getI64Type(), batch, "index:" + std::to_string(g.least(keys) + 1));
  }
  if (g.chance(0.4)) {
    Dims dims{g.chance(0.5) ? batch : g.size(1), g.chance(0.5) ? g.size(heads) : g.size(1), queries,
              g.chance(0.8) || g.least(all) < 2 ? all : g.size(g.between(1, g.least(all)))};
    mask = g.like(type, ArrayRef(dims).drop_front(size_t(g.between(0, 2))));
  }
  return g.create(name, {q, k, v, mask, pastKeys, pastValues, lengths}, attributes);
}

Operation *recurrent(Generator &g, StringRef name) {
  int64_t gates = name == "rnn" ? 1 : name == "gru" ? 3 : 4;
  bool both = g.chance(0.4), batchFirst = g.chance(0.15);
  int64_t hidden = g.random.of({1, 3, 8, 16, 17}), directions = both ? 2 : 1;
  AffineExpr steps = g.size(g.between(1, 5)), batch = g.drawDim(),
             in = g.size(g.random.of({1, 5, 8}));
  Type type = g.chance(0.8) ? Type(g.builder.getF32Type()) : g.drawFloat();
  AffineExpr d = g.size(directions), gh = g.size(gates * hidden), h = g.size(hidden);
  Dims x = batchFirst ? Dims{batch, steps, in} : Dims{steps, batch, in};
  SmallVector<Value> operands{g.like(type, x), g.like(type, {d, gh, in}), g.like(type, {d, gh, h}),
                              g.chance(0.6) ? g.like(type, {d, g.size(2 * gates * hidden)})
                                            : g.none()};
  auto perhaps = [&](ArrayRef<AffineExpr> dims, StringRef kind = {}) {
    return g.drawsRare && g.chance(0.25)
               ? g.fresh(kind.empty() ? type : Type(g.builder.getI32Type()), dims, kind)
               : g.none();
  };
  Dims state = batchFirst ? Dims{batch, d, h} : Dims{d, batch, h};
  operands.push_back(perhaps(batch, "index:" + std::to_string(g.least(steps) + 1)));
  operands.push_back(perhaps(state));
  if (name == "lstm")
    operands.append({perhaps(state), perhaps({d, g.size(3 * hidden)})});
  SmallVector<StringRef> functions{"Sigmoid", "Tanh", "Tanh"};
  functions.resize(name == "lstm" ? 3 : 2);
  if (name == "rnn")
    functions = {"Tanh"};
  SmallVector<mlir::Attribute> activations;
  for (int64_t i = 0; i < directions; ++i)
    for (StringRef one : functions)
      activations.push_back(g.builder.getStringAttr(one));
  SmallVector<NamedAttribute> attributes{
      g.i64("hidden_size", hidden),
      g.text("direction", both            ? "bidirectional"
                          : g.chance(0.7) ? "forward"
                                          : "reverse"),
      g.graph.named("activations", g.builder.getArrayAttr(activations)),
      g.flag("batch_first", batchFirst)};
  if (name == "gru")
    attributes.push_back(g.flag("linear_before_reset", g.chance(0.5)));
  return g.create(name, operands, attributes);
}

/// Small numbers: those of the blocks' scales are, whose bytes are.
Operation *blockProduct(Generator &g, StringRef name) {
  constexpr int64_t kNumbers = 32, kBytes = 34;
  int64_t blocks = g.between(1, 3);
  Dims dims = g.drawDims(g.between(0, 2));
  dims.push_back(g.size(blocks * kNumbers));
  Value weights = g.fresh(g.builder.getIntegerType(8, false),
                          {g.size(g.between(1, 9)), g.size(blocks * kBytes)}, "index:4",
                          /*constant=*/true);
  return g.create(name, {g.like(g.builder.getF32Type(), dims), weights},
                  {g.text("format", "q8_0"), g.i64("x_bits", 0)});
}

/// Of keys and values that are kept as they are.
Operation *cachedAttention(Generator &g, StringRef name) {
  Type f32 = g.builder.getF32Type(), i64 = g.builder.getI64Type();
  int64_t pages = g.between(1, 4), positions = g.between(1, 5), listed = g.between(0, 3);
  int64_t keyHeads = g.between(1, 2), heads = keyHeads * g.between(1, 2);
  int64_t size = g.random.of({1, 4, 16, 20}), valueSize = g.random.of({1, 8, 16});
  AffineExpr rows = g.drawDim();
  auto cached = [&](int64_t each) {
    return g.like(f32, {g.size(pages), g.size(positions), g.size(keyHeads), g.size(each)});
  };
  auto made = [&](int64_t each) { return g.like(f32, {rows, g.size(keyHeads), g.size(each)}); };
  auto indices = [&](ArrayRef<AffineExpr> dims, int64_t below) {
    return g.fresh(i64, dims, "index:" + std::to_string(below));
  };
  return g.create(
      name,
      {g.like(f32, {rows, g.size(heads), g.size(size)}), cached(size), cached(valueSize),
       indices({rows, g.size(listed)}, pages), indices(rows, listed * positions + 1),
       indices(rows, 1), made(size), made(valueSize)},
      {g.text("format", ""), g.real("scale", 0.5), g.real("softcap", g.chance(0.2) ? 2.0 : 0.0),
       g.i64("window", g.chance(0.3) ? g.between(1, 6) : 0), g.i64("q_bits", 0)});
}

Operation *comprehension(Generator &g, StringRef name) {
  static const char *const kTexts[] = {
      "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
      "def f(float(M, N) A, float(N) B) -> (C) { C(m, n) = A(m, n) + B(n) }",
      "def f(float(N) A, float(K) B) -> (C) { C(n) +=! A(n + k) * B(k) }"};
  size_t which = size_t(g.between(0, 2));
  Dims a = g.drawDims(which == 2 ? 1 : 2), b{a.back()};
  if (which == 0)
    b.push_back(g.drawDim());
  else if (which == 2)
    b[0] = g.size(std::min<int64_t>(g.least(a[0]), 3));
  Type f32 = g.builder.getF32Type();
  return g.create(name, {g.like(f32, a), g.like(f32, b)}, g.text("text", kTexts[which]));
}

} // namespace

ArrayRef<NamedRecipe> contractionRecipes() {
  static const NamedRecipe kRecipes[] = {
      {"matmul", matmul, 9},
      {"einsum", einsum, 2},
      {"det", det, 0.4},
      {"attention", attention, 1},
      {"rnn", recurrent, 0.4},
      {"gru", recurrent, 0.4},
      {"lstm", recurrent, 0.4},
      {"block_product", blockProduct, 0},
      {"cached_attention", cachedAttention, 0},
      {"comprehension", comprehension, 0},
  };
  return kRecipes;
}

} // namespace tensmith::random_graphs
