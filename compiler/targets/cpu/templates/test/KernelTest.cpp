// Each template on shapes that leave rests, against the reference evaluation of the same region.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"
#include "compiler/targets/cpu/templates/test/KernelText.h"

namespace tensmith::kernel {
namespace {

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Breaks if broadcasting, 16-bit rounding or the block of the last dimension is off.
TEST(LoopKernel, ElementwiseChain) {
  expectAgreement(kernel("%x: tensor<3x5x7xf32>, %y: tensor<5x1xf32>", "%x, %y",
                         "tensor<3x5x7xf32>",
                         R"(%a: tensor<3x5x7xf32>, %b: tensor<5x1xf32>):
      %0 = graph.add %a, %b : (tensor<3x5x7xf32>, tensor<5x1xf32>) -> tensor<3x5x7xf32>
      %1 = graph.tanh %0 : (tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
      graph.yield %1 : tensor<3x5x7xf32>
    }) : (tensor<3x5x7xf32>, tensor<5x1xf32>) -> tensor<3x5x7xf32>)"),
                  {}, "loops");
}

// Breaks if a rest of lanes reads or writes beyond its row, or lanes start from another's sum.
TEST(LoopKernel, ReductionSideBySide) {
  for (const char *name : {"sum", "max", "min", "prod"})
    for (bool keepdims : {false, true})
      for (auto [rows, columns] : {std::pair{3, 37}, {49, 600}, {1, 16}}) {
        std::string x = "tensor<2x" + std::to_string(rows) + "x2x" + std::to_string(columns);
        std::string y =
            std::string("tensor<2x") + (keepdims ? "1x1x" : "") + std::to_string(columns);
        std::string body = R"(%a: @Xxi16>, %b: @Yxf32>):
      %0 = graph.cast %a {to = f32} : (@Xxi16>) -> @Xxf32>
      %1 = "graph.reduce_@N"(%0) <{axes = array<i64: 1, 2>, keepdims = @K}> : (@Xxf32>) -> @Yxf32>
      %2 = graph.add %1, %b : (@Yxf32>, @Yxf32>) -> @Yxf32>
      graph.yield %2 : @Yxf32>
    }) : (@Xxi16>, @Yxf32>) -> @Yxf32>)";
        body = replaceAll(replaceAll(body, "@X", x), "@Y", y);
        body = replaceAll(replaceAll(body, "@N", name), "@K", keepdims ? "true" : "false");
        expectAgreement(
            kernel("%x: " + x + "xi16>, %y: " + y + "xf32>", "%x, %y", y + "xf32>", body), {},
            "loops of vectors", 1e-5);
      }
}

// Breaks if what is moved on the way to sums, and stays side by side, is gathered lane by lane, or
// taken from the wrong place: the gradient of a depthwise convolution's weights.
TEST(LoopKernel, ReductionOfMovedLanes) {
  for (auto [channels, first, step] : {std::tuple{37, 0, 1}, {16, 1, 2}, {70, 2, 1}}) {
    std::string c = std::to_string(channels), wide = std::to_string(channels + 3);
    std::string body = R"(%a: tensor<2x9x8x@Wxf32>, %b: tensor<3x2x4x@Cxf32>):
      %0 = graph.slice %a {starts = array<i64: 0, 1, 0, @F>, steps = array<i64: 1, @S, 2, 1>} : (tensor<2x9x8x@Wxf32>) -> tensor<2x3x4x@Cxf32>
      %1 = graph.transpose %b {permutation = array<i64: 1, 0, 2, 3>} : (tensor<3x2x4x@Cxf32>) -> tensor<2x3x4x@Cxf32>
      %2 = graph.mul %0, %1 : (tensor<2x3x4x@Cxf32>, tensor<2x3x4x@Cxf32>) -> tensor<2x3x4x@Cxf32>
      %3 = "graph.reduce_sum"(%2) <{axes = array<i64: 0, 1, 2>, keepdims = false}> : (tensor<2x3x4x@Cxf32>) -> tensor<@Cxf32>
      graph.yield %3 : tensor<@Cxf32>
    }) : (tensor<2x9x8x@Wxf32>, tensor<3x2x4x@Cxf32>) -> tensor<@Cxf32>)";
    body = replaceAll(replaceAll(body, "@W", wide), "@C", c);
    body = replaceAll(replaceAll(body, "@F", std::to_string(first)), "@S", std::to_string(step));
    expectAgreement(kernel("%x: tensor<2x9x8x" + wide + "xf32>, %y: tensor<3x2x4x" + c + "xf32>",
                           "%x, %y", "tensor<" + c + "xf32>", body),
                    {}, "loops of vectors");
  }
}

// Breaks if a piece of a row comes into another panel or another row of it, or if the panels of a
// matrix are made one after the other.
TEST(LoopKernel, PanelsOfSeveralRowsTogether) {
  for (auto [stack, rows, columns, together] :
       {std::tuple{1, 48, 80, 16}, {3, 20, 32, 4}, {2, 7, 48, 1}, {1, 64, 16, 16}}) {
    auto s = [](int64_t v) { return std::to_string(v); };
    std::string x = "tensor<" + s(stack) + "x" + s(rows) + "x" + s(columns) + "xf32>",
                y = "tensor<" + s(stack) + "x" + s((columns + 15) / 16) + "x" + s(rows) +
                    "x16xf32>";
    std::string body = "%a: " + x + "):\n  %0 = graph.tanh %a : (" + x + ") -> " + x +
                       "\n  %1 = \"graph.pack\"(%0) <{width = 16 : i64}> : (" + x + ") -> " + y +
                       "\n  graph.yield %1 : " + y + "\n}) : (" + x + ") -> " + y;
    expectAgreement(kernel("%x: " + x, "%x", y, body), {},
                    together == 1 ? "loops" : "loops, " + s(together) + " rows together");
  }
}

/// Bytes less the mean of their channel, and functions of that.
std::string channels(int64_t count, int functions, int before = 17) {
  std::string body = R"(%a: @Xui8>, %b: @M):
      %0 = graph.cast %a {to = f32} : (@Xui8>) -> @Xf32>
      %v0 = graph.sub %0, %b : (@Xf32>, @M) -> @Xf32>)";
  std::string last = "%v0";
  for (int i = 1; i <= functions; ++i) {
    std::string next = "%v" + std::to_string(i);
    body += "\n      " + next + " = graph.tanh " + last + " : (@Xf32>) -> @Xf32>";
    last = next;
  }
  body += "\n      graph.yield " + last + " : @Xf32>\n    }) : (@Xui8>, @M) -> @Xf32>";
  std::string size = std::to_string(count);
  std::string text = kernel("%x: @Xui8>, %m: @M", "%x, %m", "@Xf32>", body);
  return replaceAll(
      replaceAll(text, "@X", "tensor<2x5x" + std::to_string(before) + "x" + size + "x"), "@M",
      "tensor<1x" + size + "xf32>");
}

// Breaks if the elements of a short last dimension are a loop, are taken for one another, or have
// their code each however long it is, or however short the dimension before.
TEST(LoopKernel, ElementsOfAShortDimensionTogether) {
  for (int64_t count : {2, 3, 4})
    for (int functions : {0, 1, 2})
      expectAgreement(channels(count, functions), {},
                      "loops, " + std::to_string(count) + " elements together");
  for (auto [count, functions] : {std::pair{5, 0}, {1, 0}, {3, 4}, {4, 12}})
    EXPECT_EQ(KernelRunner(channels(count, functions)).summary(), "loops");
  expectAgreement(channels(3, 4), {}, "loops");
  EXPECT_EQ(KernelRunner(channels(3, 0, 3)).summary(), "loops");
}

const char *matmulBody = R"(%a: tensor<@A>, %p: tensor<@P>, %bias: tensor<@Nxf32>):
      %b = "graph.unpack"(%p) <{columns = @N}> : (tensor<@P>) -> tensor<@B>
      %c = graph.matmul %a, %b : (tensor<@A>, tensor<@B>) -> tensor<@C>
      %d = graph.add %c, %bias : (tensor<@C>, tensor<@Nxf32>) -> tensor<@C>
      graph.yield %d : tensor<@C>
    }) : (tensor<@A>, tensor<@P>, tensor<@Nxf32>) -> tensor<@C>)";

std::string matmul(int64_t m, int64_t k, int64_t n) {
  int64_t width = panelWidth(hostKernelMachine(), 4), panels = (n + width - 1) / width;
  auto s = [](int64_t v) { return std::to_string(v); };
  std::string text = replaceAll(matmulBody, "@A", s(m) + "x" + s(k) + "xf32");
  text = replaceAll(text, "@P", s(panels) + "x" + s(k) + "x" + s(width) + "xf32");
  text = replaceAll(text, "@B", s(k) + "x" + s(n) + "xf32");
  text = replaceAll(text, "@C", s(m) + "x" + s(n) + "xf32");
  text = replaceAll(text, "@N", s(n));
  std::string a = "tensor<" + s(m) + "x" + s(k) + "xf32>",
              p = "tensor<" + s(panels) + "x" + s(k) + "x" + s(width) + "xf32>",
              bias = "tensor<" + s(n) + "xf32>", c = "tensor<" + s(m) + "x" + s(n) + "xf32>";
  return kernel("%x: " + a + ", %y: " + p + ", %z: " + bias, "%x, %y, %z", c, text);
}

// Breaks if a tile of fewer rows, a cut-off panel or the epilogue's offsets are wrong.
TEST(ContractionKernel, MatMulWithBias) {
  for (auto [m, k, n] : {std::tuple{49, 33, 40},
                         {1, 7, 5},
                         {1, 38, 20},
                         {2, 21, 33},
                         {3, 9, 70},
                         {6, 1, 16},
                         {13, 64, 100},
                         {128, 96, 64}})
    expectAgreement(matmul(m, k, n), {}, "contraction");
}

/// A product whose left operand is made by `rows`, of type @A from %a: tensor<@X>.
std::string matmulOf(const std::string &rows, const std::string &x, int64_t m, int64_t k) {
  auto s = [](int64_t v) { return std::to_string(v); };
  int64_t width = panelWidth(hostKernelMachine(), 4);
  std::string p = "tensor<1x" + s(k) + "x" + s(width) + "xf32>", a = "tensor<" + s(m) + "x" + s(k);
  std::string body = "%a: " + x + ", %p: " + p + "):\n" + rows + R"(
      %b = "graph.unpack"(%p) <{columns = 5}> : (@P) -> tensor<@Kx5xf32>
      %c = graph.matmul %r, %b : (@Axf32>, tensor<@Kx5xf32>) -> tensor<@Mx5xf32>
      graph.yield %c : tensor<@Mx5xf32>
    }) : (@X, @P) -> tensor<@Mx5xf32>)";
  body = replaceAll(replaceAll(body, "@X", x), "@P", p);
  body = replaceAll(replaceAll(replaceAll(body, "@A", a), "@K", s(k)), "@M", s(m));
  return kernel("%x: " + x + ", %y: " + p, "%x, %y", "tensor<" + s(m) + "x5xf32>", body);
}

// Breaks if heads that are put side by side are read at the wrong places, or are copied although
// they lie in memory in pieces.
TEST(ContractionKernel, HeadsSideBySide) {
  auto heads = [](const std::string &d, int64_t k) {
    std::string rows = R"(
      %t = "graph.transpose"(%a) <{permutation = array<i64: 1, 0, 2>}> : (tensor<3x13x@xf32>) -> tensor<13x3x@xf32>
      %r = "graph.reshape"(%t) : (tensor<13x3x@xf32>) -> tensor<13x#xf32>)";
    rows = replaceAll(replaceAll(rows, "@", d), "#", std::to_string(k));
    return matmulOf(rows, "tensor<3x13x" + d + "xf32>", 13, k);
  };
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(hostKernelMachine(), 4));
  expectAgreement(heads("16", 48), {}, tile + ", rows moved");
  expectAgreement(heads("11", 33), {}, tile + ", rows moved");
  expectAgreement(heads("3", 9), {}, tile + ", rows copied");
}

// Breaks if a copy of an item's rows is read at another row, or before it is made.
TEST(ContractionKernel, RowsComputedBefore) {
  std::string rows = R"(
      %r = graph.tanh %a : (tensor<200x65xf32>) -> tensor<200x65xf32>)";
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(hostKernelMachine(), 4));
  expectAgreement(matmulOf(rows, "tensor<200x65xf32>", 200, 65), {}, tile + ", rows copied");
}

/// A machine on which sums are cut that aren't long.
Machine smallCache() {
  Machine machine = hostKernelMachine();
  machine.l2Bytes = 32 << 10;
  return machine;
}

// Breaks if rows of a matrix that lies transposed are copied one by one, each from as many cache
// lines as it has elements, or if an element of a tile is taken for another row's or k's.
TEST(ContractionKernel, RowsThatLieTransposed) {
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(hostKernelMachine(), 4));
  for (auto [m, k] :
       {std::pair{200, 65}, {13, 1}, {1, 20}, {6, 7}, {49, 300}, {100, 1205}, {0, 5}}) {
    auto s = [](int64_t v) { return std::to_string(v); };
    std::string x = "tensor<" + s(k) + "x" + s(m) + "xf32>", r = "tensor<" + s(m) + "x" + s(k);
    std::string rows = "      %r = \"graph.transpose\"(%a) <{permutation = array<i64: 1, 0>}> : (" +
                       x + ") -> " + r + "xf32>";
    expectAgreement(matmulOf(rows, x, m, k), {}, tile + ", rows turned", 1e-4);
    expectAgreement(matmulOf(rows, x, m, k), {}, tile + ", rows turned", 2e-4, smallCache());
  }
}

// Breaks if a part of a sum is left out or added twice, or sums of one tile or panel are taken for
// another's while they wait.
TEST(ContractionKernel, LongSumsAreCut) {
  for (auto [m, k, n] : {std::tuple{13, 1100, 40},
                         {7, 1537, 100},
                         {50, 2049, 17},
                         {3, 5000, 33},
                         {128, 1030, 64},
                         {31, 4111, 130},
                         {1, 3000, 20}})
    expectAgreement(matmul(m, k, n), {}, "contraction", 2e-4, smallCache());
  std::string rows = R"(
      %r = graph.tanh %a : (tensor<40x1205xf32>) -> tensor<40x1205xf32>)";
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(hostKernelMachine(), 4));
  expectAgreement(matmulOf(rows, "tensor<40x1205xf32>", 40, 1205), {}, tile + ", rows copied", 2e-4,
                  smallCache());
}

// Breaks if rows that the run only knows are cut wrongly, or long ones of them, which the run may
// find to be too few to be cut.
TEST(ContractionKernel, SymbolicRows) {
  int64_t width = panelWidth(hostKernelMachine(), 4);
  auto rowsOf = [&](int64_t depth) {
    std::string k = std::to_string(depth), w = std::to_string(width);
    auto type = [](const std::string &columns) {
      return "tensor<?x" + columns + "xf32, #graph.dims<[\"rows\"], ()[s0] -> (s0, " + columns +
             ")>>";
    };
    std::string a = type(k), c = type("24"), b = "tensor<" + k + "x24xf32>";
    std::string p =
        "tensor<" + std::to_string((24 + width - 1) / width) + "x" + k + "x" + w + "xf32>";
    return kernel("%x: " + a + ", %y: " + p, "%x, %y", c,
                  "%a: " + a + ", %p: " + p +
                      "):\n  %b = \"graph.unpack\"(%p) <{columns = 24}> : (" + p + ") -> " + b +
                      "\n  %c = graph.matmul %a, %b : (" + a + ", " + b + ") -> " + c +
                      "\n  graph.yield %c : " + c + "\n}) : (" + a + ", " + p + ") -> " + c);
  };
  for (int64_t rows : {1, 5, 6, 7, 8, 14, 40}) {
    expectAgreement(rowsOf(24), {{"rows", rows}}, "contraction");
    expectAgreement(rowsOf(1800), {{"rows", rows}}, "contraction", 2e-4, smallCache());
  }
}

/// softmax(q k * 0.5 + mask) v, with queries that are moved out of [batch, rows, heads, size], and
/// `after` between the softmax and the second product.
std::string attention(const std::string &batch, int64_t heads, const std::string &queries,
                      const std::string &keys, int64_t size, int64_t columns,
                      const std::string &after = "") {
  int64_t width = panelWidth(hostKernelMachine(), 4);
  auto s = [](int64_t v) { return std::to_string(v); };
  bool symbolic = keys == "keys";
  auto tensor = [&](std::vector<std::string> dims) {
    std::string sizes, text;
    for (const std::string &dim : dims) {
      bool number = isdigit(dim[0]);
      sizes += (number ? dim : "?") + "x";
      text += (text.empty() ? "" : ", ") + (dim == "keys"      ? "s0"
                                            : dim == "queries" ? "s1"
                                            : dim == "panels"
                                                ? "(s0 + " + s(width - 1) + ") floordiv " + s(width)
                                                : dim);
    }
    std::string layout =
        symbolic ? ", #graph.dims<[\"keys\", \"queries\"], ()[s0, s1] -> (" + text + ")>" : "";
    return "tensor<" + sizes + "f32" + layout + ">";
  };
  std::string h = s(heads), d = s(size), n = s(columns);
  std::string keyPanels = symbolic ? "panels" : s((std::stoll(keys) + width - 1) / width);
  std::string x = tensor({batch, queries, h, d}), q = tensor({batch, h, queries, d}),
              kp = tensor({batch, h, keyPanels, d, s(width)}), k = tensor({batch, h, d, keys}),
              m = tensor({batch, "1", "1", keys}), w = tensor({batch, h, queries, keys}),
              vp = tensor({batch, h, s((columns + width - 1) / width), keys, s(width)}),
              v = tensor({batch, h, keys, n}), y = tensor({batch, h, queries, n});
  std::string body = "%a: " + x + ", %kp: " + kp + ", %m: " + m + ", %vp: " + vp + R"():
      %half = graph.constant {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
      %q = "graph.transpose"(%a) <{permutation = array<i64: 0, 2, 1, 3>}> : (@X) -> @Q
      %k = "graph.unpack"(%kp) <{columns = @K}> : (@KP) -> @KT
      %s = graph.matmul %q, %k : (@Q, @KT) -> @W
      %t = graph.mul %s, %half : (@W, tensor<f32>) -> @W
      %u = graph.add %t, %m : (@W, @M) -> @W
      %r = graph.softmax %u {axis = 3 : i64} : (@W) -> @W
      @AFTER
      %v = "graph.unpack"(%vp) <{columns = @N}> : (@VP) -> @V
      %y = graph.matmul @R, %v : (@W, @V) -> @Y
      %z = graph.neg %y : (@Y) -> @Y
      graph.yield %z : @Y
    }) : (@X, @KP, @M, @VP) -> @Y)";
  body = replaceAll(replaceAll(body, "@AFTER", after), "@R", after.empty() ? "%r" : "%w");
  body = replaceAll(replaceAll(body, "@KP", kp), "@KT", k);
  body = replaceAll(replaceAll(body, "@K", symbolic ? "-1" : keys), "@VP", vp);
  body = replaceAll(replaceAll(replaceAll(body, "@V", v), "@X", x), "@Q", q);
  body = replaceAll(replaceAll(replaceAll(body, "@M", m), "@W", w), "@Y", y);
  body = replaceAll(body, "@N", n);
  return kernel("%0: " + x + ", %1: " + kp + ", %2: " + m + ", %3: " + vp, "%0, %1, %2, %3", y,
                body);
}

// Breaks if a row of weights is another query's, the mask or a cut-off panel is read at a wrong
// place, or the softmax goes over what lies behind the last key.
TEST(ContractionKernel, Attention) {
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(hostKernelMachine(), 4)) +
                     ", rows copied, attention";
  for (auto [heads, queries, keys, size, columns] : {std::tuple{3, 13, 29, 16, 20},
                                                     {1, 1, 5, 8, 3},
                                                     {2, 7, 64, 24, 64},
                                                     {5, 2, 1, 9, 17},
                                                     {2, 50, 150, 33, 40},
                                                     {1, 128, 128, 64, 64}})
    expectAgreement(
        attention("2", heads, std::to_string(queries), std::to_string(keys), size, columns), {},
        tile);
  expectAgreement(
      attention("1", 2, "19", "35", 16, 16, "%w = graph.mul %r, %half : (@W, tensor<f32>) -> @W"),
      {}, tile);
  // Weights whose second product is cut along the keys.
  expectAgreement(attention("1", 1, "9", "1200", 16, 20), {}, tile, 2e-5, smallCache());
  for (int64_t keys : {1, 16, 39})
    for (int64_t queries : {1, 23})
      expectAgreement(attention("2", 3, "queries", "keys", 16, 24),
                      {{"keys", keys}, {"queries", queries}}, tile);
}

/// What an operand that lies so in memory is widened to, beside a left one of that type.
std::string widened(const std::string &stored, const std::string &left) {
  return left == "bf16" ? "f32" : left == "i16" ? "i16" : stored;
}

/// A product of integers, or of bf16 that is widened, whose right operand has `step` rows side by
/// side.
std::string interleavedMatmul(const std::string &left, const std::string &right, int64_t rows,
                              int64_t depth, int64_t columns, int64_t step,
                              bool liesTransposed = false) {
  bool floats = left == "bf16";
  int64_t width = panelWidth(hostKernelMachine(), 4), lines = (depth + step - 1) / step;
  int64_t panels = (columns * step + width * step - 1) / (width * step);
  auto tensor = [](std::initializer_list<int64_t> dims, const std::string &element) {
    std::string text = "tensor<";
    for (int64_t dim : dims)
      text += std::to_string(dim) + "x";
    return text + element + ">";
  };
  std::string ofLeft = tensor({rows, depth}, left),
              a = liesTransposed ? tensor({depth, rows}, left) : ofLeft,
              p = tensor({panels, lines, width * step}, right),
              l = tensor({lines, columns * step}, right),
              c = tensor({rows, columns}, floats ? "f32" : "i32"),
              apart = tensor({lines, columns, step}, right),
              turned = tensor({lines, step, columns}, right),
              whole = tensor({lines * step, columns}, right), b = tensor({depth, columns}, right);
  std::string body =
      "%a: " + a + ", %p: " + p +
      "):\n  %l = \"graph.unpack\"(%p) <{columns = " + std::to_string(columns * step) + "}> : (" +
      p + ") -> " + l + "\n  %r = graph.reshape %l : (" + l + ") -> " + apart +
      "\n  %t = \"graph.transpose\"(%r) <{permutation = array<i64: 0, 2, 1>}> : (" + apart +
      ") -> " + turned + "\n  %w = graph.reshape %t : (" + turned + ") -> " + whole + "\n";
  std::string matrix = "%w";
  if (lines * step != depth) {
    matrix = "%b";
    body +=
        "  %b = \"graph.slice\"(%w) <{starts = array<i64: 0, 0>, steps = array<i64: 1, 1>}> : (" +
        whole + ") -> " + b + "\n";
  }
  std::string product;
  auto widen = [&](const char *name, std::string &value, std::string type, std::string wide) {
    if (type != wide) {
      body += std::string("  ") + name + " = graph.cast " + value + " {to = " +
              wide.substr(wide.find_last_of('x') + 1, wide.size() - wide.find_last_of('x') - 2) +
              "} : (" + type + ") -> " + wide + "\n";
      value = name;
    }
  };
  std::string x = "%a";
  if (liesTransposed) {
    x = "%ta";
    body += "  %ta = \"graph.transpose\"(%a) <{permutation = array<i64: 1, 0>}> : (" + a + ") -> " +
            ofLeft + "\n";
  }
  std::string wideA = tensor({rows, depth}, widened(left, left)),
              wideB = tensor({depth, columns}, widened(right, left));
  widen("%wa", x, ofLeft, wideA);
  widen("%wb", matrix, b, wideB);
  product = x + ", " + matrix + (floats ? "" : " {accumulate_i32 = true}") + " : (" + wideA + ", " +
            wideB + ")";
  body += "  %c = graph.matmul " + product + " -> " + c + "\n  graph.yield %c : " + c + "\n}) : (" +
          a + ", " + p + ") -> " + c;
  return kernel("%x: " + a + ", %y: " + p, "%x, %y", c, body);
}

void expectSameIntegers(const std::string &text, const Machine &machine,
                        const std::string &schedule) {
  KernelRunner runner(text, machine);
  ASSERT_TRUE(runner.ok());
  // Pairs are multiplied into a register of their own, which few registers leave none for.
  bool fused = !schedule.ends_with("2");
  bool spares = machine.vectorRegisters <= 16 && !fused;
  EXPECT_TRUE(
      runner.summary().starts_with(spares ? "contraction, tile 5x" : "contraction, tile 6x"))
      << runner.summary();
  EXPECT_EQ(runner.summary().substr(runner.summary().size() - schedule.size()), schedule);
  auto inputs = runner.operands({});
  for (HostTensor &input : inputs) {
    std::mt19937 random(7);
    int64_t bits = byteSize(input.type()) == 1 ? 256 : 511;
    int64_t low = input.type() == DataType::U8 ? 0 : -(bits / 2);
    for (int64_t i = 0; i < input.size(); ++i)
      input.setInt(i, low + int64_t(random() % bits));
  }
  auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
  for (int64_t i = 0; i < got[0].size(); ++i)
    ASSERT_EQ(got[0].getInt(i), wanted[0].getInt(i)) << "element " << i;
}

// Breaks if products that are added up at once are of different rows, or bytes have wrong signs.
TEST(ContractionKernel, ProductsByFourBytes) {
  Machine machine = hostKernelMachine();
  addPortable(machine, Number::U8, Number::I8, Number::I32);
  for (auto [rows, depth, columns] :
       {std::tuple{13, 16, 19}, {1, 64, 33}, {7, 13, 5}, {50, 30, 16}})
    expectSameIntegers(interleavedMatmul("ui8", "i8", rows, depth, columns, 4), machine,
                       "products by 4");
  machine.l2Bytes = 32 << 10;
  expectSameIntegers(interleavedMatmul("ui8", "i8", 20, 4399, 19, 4), machine, "products by 4");
}

// Breaks if a lane of a row is multiplied by another step's line, or a rest of the depth is left
// out, on a machine that does instructions in order.
TEST(ContractionKernel, BurstsOfSteps) {
  Machine machine = hostKernelMachine();
  machine.inOrder = true;
  for (int64_t depth : {1, 3, 4, 64, 65, 66, 67, 4399})
    for (auto [rows, columns] : {std::pair{13, 19}, {4, 64}, {1, 33}, {50, 130}})
      expectAgreement(matmul(rows, depth, columns), {}, "contraction, tile 4x", 1e-4, machine);
  machine.l2Bytes = 32 << 10; // the depth is cut
  expectAgreement(matmul(20, 4399, 19), {}, "contraction, tile 4x", 1e-4, machine);
}

// The same of machines that multiply signed bytes alone.
TEST(ContractionKernel, ProductsByFourSignedBytes) {
  Machine machine = hostKernelMachine();
  machine.intrinsics = {portableIntrinsic(Number::I8, Number::I8, Number::I32)};
  for (auto [rows, depth, columns] : {std::tuple{13, 16, 19}, {1, 64, 33}, {50, 30, 16}})
    expectSameIntegers(interleavedMatmul("i8", "i8", rows, depth, columns, 4), machine,
                       "products by 4");
}

TEST(ContractionKernel, ProductsByTwo) {
  Machine machine = hostKernelMachine();
  if (!machine.products(Number::I16, Number::I16, Number::I32))
    GTEST_SKIP() << "this machine adds up no pairs";
  for (auto [rows, depth, columns] :
       {std::tuple{13, 16, 19}, {1, 64, 33}, {7, 13, 5}, {50, 31, 16}})
    for (const char *weights : {"i16", "i8"})
      expectSameIntegers(interleavedMatmul("i16", weights, rows, depth, columns, 2), machine,
                         "products by 2");
}

// Breaks if sums of two rows at once are left tangled, a row without a second one is lost, or
// columns of a panel that is cut off are another's.
TEST(ContractionKernel, TwoRowsAtOnce) {
  Machine machine = hostKernelMachine();
  machine.intrinsics.clear();
  addPortable(machine, Number::I8, Number::I8, Number::I32, /*rows=*/2);
  addPortable(machine, Number::BF16, Number::BF16, Number::F32, /*rows=*/2);
  std::string tile = "contraction, tile 6x" + std::to_string(panelWidth(machine, 4)) + ", rows ";
  for (int64_t rows : {1, 3, 6, 13}) {
    for (auto [depth, columns] : {std::pair{8, 16}, {30, 33}})
      expectSameIntegers(interleavedMatmul("i8", "i8", rows, depth, columns, 8), machine,
                         "products by 8");
    for (bool liesTransposed : {false, true})
      expectAgreement(interleavedMatmul("bf16", "bf16", rows, 30, 19, 4, liesTransposed), {},
                      tile + (liesTransposed ? "turned" : "copied"), 1e-4, machine);
  }
  machine.l2Bytes = 32 << 10; // the depth is cut
  expectSameIntegers(interleavedMatmul("i8", "i8", 19, 4399, 19, 8), machine, "products by 8");
}

// Breaks if the halves of a pair change places, or a rest of one is multiplied by what lies behind.
TEST(ContractionKernel, ProductsByTwoHalves) {
  Machine machine = hostKernelMachine();
  addPortable(machine, Number::BF16, Number::BF16, Number::F32);
  for (auto [rows, depth, columns] :
       {std::tuple{13, 16, 19}, {1, 64, 33}, {7, 13, 5}, {50, 31, 16}, {20, 4399, 19}})
    expectAgreement(interleavedMatmul("bf16", "bf16", rows, depth, columns, 2), {},
                    "contraction, tile 6x", 1e-4, machine);
}

/// A convolution, channels-last, of bf16 or of i16, whose weights have two rows side by side.
std::string pairedConvolution(const std::string &left, const std::string &right, int64_t size,
                              int64_t channels, int64_t outputs, int64_t taps, int64_t pad) {
  bool floats = left == "bf16";
  int64_t width = panelWidth(hostKernelMachine(), 4), depth = taps * taps * channels;
  int64_t lines = (depth + 1) / 2, panels = (outputs + width - 1) / width;
  int64_t out = size + 2 * pad - taps + 1;
  auto tensor = [&](std::initializer_list<int64_t> dims, const std::string &element) {
    std::string text = "tensor<";
    for (int64_t dim : dims)
      text += std::to_string(dim) + "x";
    return text + element + ">";
  };
  auto stored = [&](std::initializer_list<int64_t> dims) { return tensor(dims, right); };
  std::string x = tensor({2, size, size, channels}, left),
              p = stored({1, panels, lines, width * 2}),
              wide = tensor({2, size, size, channels}, widened(left, left)),
              weights = tensor({outputs, channels, taps, taps}, widened(right, left)),
              y = tensor({2, out, out, outputs}, floats ? "f32" : "i32"), body, last = p,
              value = "%p";
  auto step = [&](const char *name, const std::string &operation, const std::string &attributes,
                  const std::string &to) {
    body += std::string("  ") + name + " = \"graph." + operation + "\"(" + value + ")" +
            (attributes.empty() ? "" : " <{" + attributes + "}>") + " : (" + last + ") -> " + to +
            "\n";
    value = name;
    last = to;
  };
  step("%l", "unpack", "columns = " + std::to_string(outputs * 2), stored({1, lines, outputs * 2}));
  step("%a", "reshape", "", stored({1, lines, outputs, 2}));
  step("%t", "transpose", "permutation = array<i64: 0, 1, 3, 2>", stored({1, lines, 2, outputs}));
  step("%m", "reshape", "", stored({1, lines * 2, outputs}));
  if (lines * 2 != depth)
    step("%s", "slice", "starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>",
         stored({1, depth, outputs}));
  step("%r", "reshape", "", stored({1, taps * taps, channels, outputs}));
  step("%u", "transpose", "permutation = array<i64: 0, 3, 2, 1>",
       stored({1, outputs, channels, taps * taps}));
  step("%w", "reshape", "", stored({outputs, channels, taps, taps}));
  if (last != weights)
    step("%f", "cast", "to = " + widened(right, left), weights);
  std::string pads = std::to_string(pad);
  std::string image = "%x";
  if (x != wide) {
    image = "%wx";
    body +=
        "  %wx = graph.cast %x {to = " + widened(left, left) + "} : (" + x + ") -> " + wide + "\n";
  }
  body += "  %n = graph.none : none\n  %y = \"graph.conv\"(" + image + ", " + value +
          ", %n) <{strides = array<i64: 1, 1>, pads = array<i64: " + pads + ", " + pads + ", " +
          pads + ", " + pads + ">, dilations = array<i64: 1, 1>, layout = \"channels_last\"" +
          (floats ? "" : ", accumulate_i32 = true") + "}> : (" + wide + ", " + weights +
          ", none) -> " + y + "\n  graph.yield %y : " + y + "\n}) : (" + x + ", " + p + ") -> " + y;
  return kernel("%i: " + x + ", %v: " + p, "%i, %v", y, "%x: " + x + ", %p: " + p + "):\n" + body);
}

struct PairedImage {
  int64_t size, channels, outputs, taps, pad;
  const char *rows; // of the product, as the kernel reads them
};
constexpr PairedImage kPairedImages[] = {
    {9, 24, 19, 3, 1, "in place"}, {7, 10, 33, 1, 0, "in place"},
    {8, 3, 17, 3, 1, "copied"},    {8, 3, 17, 3, 0, "copied"}, // in whole rows of the window
    {9, 7, 5, 5, 0, "copied"},     {6, 13, 5, 3, 1, "copied"}};

// Breaks if pixels are read as wider than they lie in memory, outside of the image above all, or in
// a copy.
TEST(ContractionKernel, ImagesOfHalves) {
  Machine machine = hostKernelMachine();
  addPortable(machine, Number::BF16, Number::BF16, Number::F32);
  for (const PairedImage &of : kPairedImages) {
    std::string text =
        pairedConvolution("bf16", "bf16", of.size, of.channels, of.outputs, of.taps, of.pad);
    EXPECT_NE(KernelRunner(text, machine).summary().find(of.rows), std::string::npos);
    expectAgreement(text, {}, "contraction, tile 6x", 1e-4, machine);
  }
}

// Breaks if weights that lie in memory as bytes are multiplied as if they were wider.
TEST(ContractionKernel, ImagesByTwo) {
  Machine machine = hostKernelMachine();
  if (!machine.products(Number::I16, Number::I16, Number::I32))
    GTEST_SKIP() << "this machine adds up no pairs";
  for (const PairedImage &of : kPairedImages)
    for (const char *weights : {"i16", "i8"}) {
      std::string text =
          pairedConvolution("i16", weights, of.size, of.channels, of.outputs, of.taps, of.pad);
      EXPECT_NE(KernelRunner(text, machine).summary().find(of.rows), std::string::npos);
      expectSameIntegers(text, machine, "products by 2");
    }
}

struct JoinedImage {
  std::vector<int64_t> parts; // channels
  int64_t outputs, stride;
  const char *gate; // what each channel, or that of each picture, is multiplied by
};

/// max(concat(parts) * gate, gate) before a pointwise convolution, channels-last.
std::string joinedConvolution(const JoinedImage &of) {
  constexpr int64_t kHeight = 5, kWidth = 7;
  int64_t width = panelWidth(hostKernelMachine(), 4), panels = (of.outputs + width - 1) / width;
  std::string arguments, inputs, inside, types, joined;
  auto add = [&](const std::string &name, const std::string &type) {
    arguments += "%i" + name + ": " + type + ", ";
    inputs += "%i" + name + ", ";
    inside += "%" + name + ": " + type + ", ";
    types += type + ", ";
  };
  int64_t channels = 0;
  for (int64_t part : of.parts) {
    add("p" + std::to_string(channels), "tensor<2x5x7x" + std::to_string(part) + "xf32>");
    joined += (joined.empty() ? "%p" : ", %p") + std::to_string(channels);
    channels += part;
  }
  std::string partTypes = types.substr(0, types.size() - 2);
  std::string text = R"(
      %j = graph.concat JOINED {axis = 3 : i64} : (PARTS) -> tensor<2x5x7xCxf32>
      %m = graph.mul %j, %g : (tensor<2x5x7xCxf32>, tensor<GxCxf32>) -> tensor<2x5x7xCxf32>
      %x = graph.max %m, %g : (tensor<2x5x7xCxf32>, tensor<GxCxf32>) -> tensor<2x5x7xCxf32>
      %l = "graph.unpack"(%v) <{columns = O}> : (PANELS) -> tensor<1xCxOxf32>
      %r = "graph.reshape"(%l) : (tensor<1xCxOxf32>) -> tensor<1x1xCxOxf32>
      %u = "graph.transpose"(%r) <{permutation = array<i64: 0, 3, 2, 1>}> : (tensor<1x1xCxOxf32>) -> tensor<1xOxCx1xf32>
      %w = "graph.reshape"(%u) : (tensor<1xOxCx1xf32>) -> tensor<OxCx1x1xf32>
      %n = graph.none : none
      %y = "graph.conv"(%x, %w, %n) <{strides = array<i64: S, S>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}> : (tensor<2x5x7xCxf32>, tensor<OxCx1x1xf32>, none) -> RESULT
      graph.yield %y : RESULT
    }) : (TYPES) -> RESULT)";
  auto text64 = [](int64_t number) { return std::to_string(number); };
  std::string result = "tensor<2x" + text64((kHeight - 1) / of.stride + 1) + "x" +
                       text64((kWidth - 1) / of.stride + 1) + "x" + text64(of.outputs) + "xf32>";
  std::string stored =
      "tensor<1x" + text64(panels) + "x" + text64(channels) + "x" + text64(width) + "xf32>";
  std::string gate = "tensor<" + std::string(of.gate) + "x" + text64(channels) + "xf32>";
  if (!*of.gate)
    gate = "tensor<" + text64(channels) + "xf32>";
  add("g", gate);
  for (auto [from, to] : {std::pair<std::string, std::string>{"tensor<GxCxf32>", gate},
                          {"JOINED", joined},
                          {"PARTS", partTypes},
                          {"PANELS", stored},
                          {"RESULT", result},
                          {"TYPES", types + stored},
                          {"7xCxf32", "7x" + text64(channels) + "xf32"},
                          {"xCx", "x" + text64(channels) + "x"},
                          {"xOxf32", "x" + text64(of.outputs) + "xf32"},
                          {"1xOx", "1x" + text64(of.outputs) + "x"},
                          {"<Ox", "<" + text64(of.outputs) + "x"},
                          {"columns = O", "columns = " + text64(of.outputs)},
                          {"S, S", text64(of.stride) + ", " + text64(of.stride)}})
    text = replaceAll(text, from, to);
  return kernel(arguments + "%iv: " + stored, inputs + "%iv", result,
                inside + "%v: " + stored + "):" + text);
}

// Breaks if a part's channels land beside their place in a row, a rest of them that makes no vector
// is left out or spoils the next part, or pixels of a stride are taken for neighbours.
TEST(ContractionKernel, ImagesJoinedIntoRows) {
  for (const JoinedImage &of : {JoinedImage{{24, 40}, 33, 1, ""},
                                {{5, 16, 35}, 19, 1, "2x1x1"},
                                {{1, 3}, 70, 1, ""},
                                {{7, 32, 9, 64}, 130, 2, "2x1x1"},
                                {{33}, 5, 3, "1x1x1"},
                                {{700, 430}, 21, 1, ""}})
    expectAgreement(joinedConvolution(of), {}, "contraction, tile 6x", 1e-4);
}

// The same of elements that are narrower in memory, and added up by two.
TEST(ContractionKernel, HalvesJoinedIntoRows) {
  Machine machine = hostKernelMachine();
  addPortable(machine, Number::BF16, Number::BF16, Number::F32);
  for (auto [first, second] : {std::pair{16, 24}, {5, 16}, {13, 34}, {1, 2}}) {
    auto image = [](int64_t channels) {
      return "tensor<2x7x7x" + std::to_string(channels) + "xbf16>";
    };
    std::string whole = image(first + second), a = image(first), b = image(second);
    std::string text = pairedConvolution("bf16", "bf16", 7, first + second, 33, 1, 0);
    for (auto [from, to] :
         {std::pair<std::string, std::string>{"%i: " + whole, "%i: " + a + ", %k2: " + b},
          {"(%i, ", "(%i, %k2, "},
          {"%x: " + whole, "%x1: " + a + ", %x2: " + b},
          {"):\n", "):\n  %x = graph.concat %x1, %x2 {axis = 3 : i64} : (" + a + ", " + b +
                       ") -> " + whole + "\n"},
          {"}) : (" + whole, "}) : (" + a + ", " + b}})
      text = replaceAll(text, from, to);
    expectAgreement(text, {}, "contraction, tile 6x", 1e-4, machine);
  }
}

// Breaks if an operand that is narrower in memory is read as f32.
TEST(ContractionKernel, WeightsOfHalves) {
  std::string product = R"(%a: tensor<13x40xf32>, %p: tensor<PANELSx40xWIDTHxbf16>):
      %b = "graph.unpack"(%p) <{columns = 19}> : (tensor<PANELSx40xWIDTHxbf16>) -> tensor<40x19xbf16>
      %w = graph.cast %b {to = f32} : (tensor<40x19xbf16>) -> tensor<40x19xf32>
      %c = graph.matmul %a, %w : (tensor<13x40xf32>, tensor<40x19xf32>) -> tensor<13x19xf32>
      graph.yield %c : tensor<13x19xf32>
    }) : (tensor<13x40xf32>, tensor<PANELSx40xWIDTHxbf16>) -> tensor<13x19xf32>)";
  std::string text = kernel("%x: tensor<13x40xf32>, %y: tensor<PANELSx40xWIDTHxbf16>", "%x, %y",
                            "tensor<13x19xf32>", product);
  int64_t width = panelWidth(hostKernelMachine(), 4);
  for (auto [name, value] : {std::pair{"PANELS", (19 + width - 1) / width}, {"WIDTH", width}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::strlen(name), std::to_string(value));
  expectAgreement(text, {}, "contraction, tile 6x");
}

const char *softmaxText = R"(%a: tensor<4x37xf32>, %m: tensor<37xf32>):
      %0 = graph.add %a, %m : (tensor<4x37xf32>, tensor<37xf32>) -> tensor<4x37xf32>
      %1 = "graph.softmax"(%0) <{axis = 1}> : (tensor<4x37xf32>) -> tensor<4x37xf32>
      graph.yield %1 : tensor<4x37xf32>
    }) : (tensor<4x37xf32>, tensor<37xf32>) -> tensor<4x37xf32>)";

// Breaks if the masked end of a row counts, or the buffered row is read stale.
TEST(RowKernel, SoftmaxOfASum) {
  expectAgreement(
      kernel("%x: tensor<4x37xf32>, %y: tensor<37xf32>", "%x, %y", "tensor<4x37xf32>", softmaxText),
      {}, "rows");
}

} // namespace
} // namespace tensmith::kernel
