// Panels of patches under a window, against the reference evaluation of the slices that they are.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"
#include "compiler/targets/cpu/templates/test/KernelText.h"

namespace tensmith::kernel {
namespace {

struct Window {
  int64_t images, height, width, channels, size, stride = 1, dilation = 1, groups = 1;
};

/// Each position's pixels as a stack of matrices [groups, positions, channels / groups], side by
/// side, packed.
std::string patches(const Window &w, int64_t panel) {
  Shape image{w.images, w.height, w.width, w.channels};
  int64_t span = (w.size - 1) * w.dilation, rows = (w.height - span - 1) / w.stride + 1,
          columns = (w.width - span - 1) / w.stride + 1, all = w.images * rows * columns;
  Shape cut{w.images, rows, columns, w.channels}, apart{all, w.groups, w.channels / w.groups},
      matrix{w.groups, all, w.channels / w.groups}, joined = matrix;
  joined[2] *= w.size * w.size;
  std::string body, operands, types;
  for (int64_t i = 0; i < w.size * w.size; ++i) {
    std::string n = std::to_string(i), comma = i ? ", " : "";
    std::vector<int64_t> starts{0, i / w.size * w.dilation, i % w.size * w.dilation, 0};
    body += "  %s" + n + " = \"graph.slice\"(%x) <{starts = " + integers(starts) +
            ", steps = " + integers({1, w.stride, w.stride, 1}) + "}> : (" + tensor(image) +
            ") -> " + tensor(cut) + "\n  %r" + n + " = \"graph.reshape\"(%s" + n + ") : (" +
            tensor(cut) + ") -> " + tensor(apart) + "\n  %t" + n + " = \"graph.transpose\"(%r" + n +
            ") <{permutation = array<i64: 1, 0, 2>}> : (" + tensor(apart) + ") -> " +
            tensor(matrix) + "\n";
    operands += comma + "%t" + n;
    types += comma + tensor(matrix);
  }
  Shape packed{w.groups, (joined[2] + panel - 1) / panel, all, panel};
  body += "  %c = \"graph.concat\"(" + operands + ") <{axis = 2 : i64}> : (" + types + ") -> " +
          tensor(joined) + "\n  %p = \"graph.pack\"(%c) <{width = " + std::to_string(panel) +
          " : i64}> : (" + tensor(joined) + ") -> " + tensor(packed) + "\n";
  return "func.func @main(%a: " + tensor(image) + ") -> " + tensor(packed) +
         " {\n  %k = \"graph.kernel\"(%a) <{label = \"k\", kind = \"\"}> ({\n  ^bb0(%x: " +
         tensor(image) + "):\n" + body + "  graph.yield %p : " + tensor(packed) + "\n  }) : (" +
         tensor(image) + ") -> " + tensor(packed) + "\n  return %k : " + tensor(packed) + "\n}";
}

void expectSame(const Window &window, bool inPieces = true) {
  int64_t panel = panelWidth(hostKernelMachine(), 4);
  KernelRunner runner(patches(window, panel));
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ(runner.summary() == "patches", inPieces) << runner.summary();
  auto inputs = runner.operands({});
  auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
  for (int64_t i = 0; i < wanted[0].size(); ++i)
    ASSERT_EQ(got[0].getDouble(i), wanted[0].getDouble(i)) << "element " << i;
}

// Breaks if a lane comes from another piece of memory, or a panel from another place of the window:
// channels that fill vectors, that don't, and of which several pixels are in one.
TEST(PatchKernel, Windows) {
  expectSame({2, 9, 7, 64, 3});
  expectSame({2, 12, 11, 20, 5});
  expectSame({1, 9, 10, 3, 7, 2});
  expectSame({3, 13, 8, 1, 5});
  expectSame({1, 10, 9, 17, 3, 1, 2});
}

// Breaks if the matrices of a stack are taken for one another.
TEST(PatchKernel, Groups) {
  expectSame({2, 6, 7, 32, 3, 1, 1, 2});
  expectSame({2, 9, 9, 12, 3, 2, 1, 3});
}

// Breaks if columns behind the last are read, or are no zeros.
TEST(PatchKernel, LastPanelIsCutOff) {
  for (auto [rows, columns] : {std::pair{37, 150}, {5, 3}, {16, 65}, {1, 1000}}) {
    std::string x = tensor({2, rows, columns}), y = tensor({2, (columns + 31) / 32, rows, 32});
    KernelRunner runner("func.func @main(%a: " + x + ") -> " + y +
                        " {\n  %k = \"graph.kernel\"(%a) <{label = \"k\", kind = \"\"}> ({\n"
                        "  ^bb0(%x: " +
                        x + "):\n  %t = graph.tanh %x : (" + x + ") -> " + x +
                        "\n  %p = \"graph.pack\"(%t) <{width = 32 : i64}> : (" + x + ") -> " + y +
                        "\n  graph.yield %p : " + y + "\n  }) : (" + x + ") -> " + y +
                        "\n  return %k : " + y + "\n}");
    ASSERT_TRUE(runner.ok());
    EXPECT_EQ(runner.summary(), "patches");
    auto inputs = runner.operands({});
    auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
    for (int64_t i = 0; i < wanted[0].size(); ++i)
      ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i), 1e-6) << "element " << i;
  }
}

// Breaks if pixels that lie apart one by one are taken in pieces.
TEST(PatchKernel, ScatteredPixels) { expectSame({1, 12, 12, 1, 3, 1, 3}, false); }

} // namespace
} // namespace tensmith::kernel
