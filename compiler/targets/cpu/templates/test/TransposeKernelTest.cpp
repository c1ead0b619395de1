// What is read along one dimension and written along another, against the reference evaluation of
// the same region, on shapes that leave rests of vectors everywhere; and the same with open sizes,
// of which one kernel serves all.
#include "compiler/targets/cpu/templates/test/KernelRunner.h"
#include "compiler/targets/cpu/templates/test/KernelText.h"

namespace tensmith::kernel {
namespace {

/// A kernel of one operator after the other on %a, its first operand.
class Chain {
public:
  explicit Chain(const Shape &shape) : shape_(shape), inputs_{shape} {}

  Chain &transpose(const std::vector<int64_t> &permutation) {
    Shape to;
    for (int64_t dim : permutation)
      to.push_back(shape_[size_t(dim)]);
    return step("transpose", "permutation = " + integers(permutation), to);
  }
  /// Sizes that are these numbers are open: expressions over the symbols s0 and s1.
  Chain &open(std::map<int64_t, std::string> sizes) {
    open_ = std::move(sizes);
    return *this;
  }
  Chain &reshape(const Shape &to) { return step("reshape", "", to); }
  Chain &reverse(const std::vector<int64_t> &axes) {
    return step("reverse", "axes = " + integers(axes), shape_);
  }
  Chain &slice(const std::vector<int64_t> &starts, const std::vector<int64_t> &steps,
               const Shape &to) {
    return step("slice", "starts = " + integers(starts) + ", steps = " + integers(steps), to);
  }
  Chain &pack(int64_t width, bool transposed = false) {
    size_t rank = shape_.size();
    Shape to = shape_;
    if (transposed)
      std::swap(to[rank - 2], to[rank - 1]);
    int64_t columns = to[rank - 1];
    to[rank - 1] = width;
    to.insert(to.begin() + int64_t(rank) - 2, (columns + width - 1) / width);
    return step("pack",
                "width = " + std::to_string(width) +
                    " : i64, transposed = " + (transposed ? "true" : "false"),
                to);
  }
  Chain &tanh() { return step("tanh", "", shape_); }
  Chain &round() { return step("round", "", shape_); }
  Chain &subtractFrom() {
    inputs_.push_back(shape_);
    std::string name = "%in" + std::to_string(inputs_.size() - 1), type = tensor(shape_);
    body_ += "  " + next() + " = graph.sub " + name + ", " + last() + " : (" + type + ", " + type +
             ") -> " + type + "\n";
    ++count_;
    return *this;
  }

  std::string text() const {
    std::string parameters, names, types, arguments;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::string comma = i ? ", " : "", number = std::to_string(i), type = tensor(inputs_[i]);
      parameters += comma + "%x" + number + ": " + type;
      names += comma + "%x" + number;
      types += comma + type;
      arguments += comma + "%in" + number + ": " + type;
    }
    std::string result = tensor(shape_);
    return "func.func @main(" + parameters + ") -> " + result + " {\n  %k = \"graph.kernel\"(" +
           names + ") <{label = \"k\", kind = \"\"}> ({\n  ^bb0(" + arguments + "):\n" + body_ +
           "  graph.yield " + last() + " : " + result + "\n  }) : (" + types + ") -> " + result +
           "\n  return %k : " + result + "\n}";
  }

private:
  std::string tensor(const Shape &shape) const {
    std::string dims, sizes;
    for (int64_t size : shape) {
      auto open = open_.find(size);
      std::string number = std::to_string(size);
      dims += (open == open_.end() ? number : "?") + "x";
      sizes += (sizes.empty() ? "" : ", ") + (open == open_.end() ? number : open->second);
    }
    if (dims.find('?') == std::string::npos)
      return "tensor<" + dims + "f32>";
    return "tensor<" + dims + "f32, #graph.dims<[\"s0\", \"s1\"], ()[s0, s1] -> (" + sizes + ")>>";
  }

  Chain &step(const std::string &name, const std::string &attributes, const Shape &to) {
    std::string given = attributes.empty() ? "" : " <{" + attributes + "}>";
    body_ += "  " + next() + " = \"graph." + name + "\"(" + last() + ")" + given + " : (" +
             tensor(shape_) + ") -> " + tensor(to) + "\n";
    shape_ = to;
    ++count_;
    return *this;
  }
  std::string last() const { return count_ ? "%v" + std::to_string(count_ - 1) : "%in0"; }
  std::string next() const { return "%v" + std::to_string(count_); }

  Shape shape_;
  std::map<int64_t, std::string> open_;
  std::vector<Shape> inputs_;
  std::string body_;
  int count_ = 0;
};

Machine withVectors(int64_t bytes) {
  Machine machine = hostKernelMachine();
  machine.vectorBytes = bytes;
  return machine;
}

/// By this machine's vectors, and by short ones; `squares`: whether the template takes it.
void expectSame(const Chain &chain, bool squares = true) {
  for (const Machine &machine : {hostKernelMachine(), withVectors(16)}) {
    KernelRunner runner(chain.text(), machine);
    ASSERT_TRUE(runner.ok()) << chain.text();
    EXPECT_EQ(runner.summary().substr(0, 7) == "squares", squares) << chain.text();
    auto inputs = runner.operands({});
    auto got = runner.compiled(inputs), wanted = runner.byReference(inputs);
    ASSERT_EQ(got.size(), wanted.size());
    for (int64_t i = 0; i < wanted[0].size(); ++i)
      ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i), 1e-6) << "element " << i << " of\n"
                                                                     << chain.text();
  }
}

// Breaks if a rest of vectors is read, turned or written by another's number.
TEST(TransposeKernel, Matrices) {
  for (auto [rows, columns] : {std::pair{16, 16}, {37, 53}, {16, 300}, {300, 16}, {64, 9}, {9, 64}})
    expectSame(Chain({2, rows, columns}).transpose({0, 2, 1}));
}

// Breaks if a run of several dimensions, of memory or of the result, goes to one place for another.
TEST(TransposeKernel, ImagesBetweenLayouts) {
  expectSame(Chain({2, 19, 5, 7}).transpose({0, 2, 3, 1}));
  expectSame(Chain({2, 5, 7, 19}).transpose({0, 3, 1, 2}));
  expectSame(Chain({3, 7, 40}).transpose({2, 1, 0}));
  expectSame(Chain({9, 33, 20}).transpose({1, 2, 0}).reshape({33, 20, 3, 3}).subtractFrom());
}

// Breaks if panels of a convolution's weights are not those of the operators, where the last panel
// is cut off, too.
TEST(TransposeKernel, WeightsInPanels) {
  int64_t width = panelWidth(hostKernelMachine(), 4);
  for (auto [outputs, inputs, window] :
       {std::tuple{2 * width, 20, 3}, {20, 7, 5}, {width + 3, 3, 7}, {3 * width, 64, 1}}) {
    int64_t taps = window * window;
    expectSame(Chain({1, outputs, inputs, taps})
                   .transpose({0, 3, 2, 1})
                   .reshape({1, taps * inputs, outputs})
                   .pack(width));
    if (taps > 1)
      expectSame(Chain({1, inputs, outputs, window, window})
                     .transpose({0, 2, 1, 3, 4})
                     .reshape({outputs, inputs, window, window})
                     .reverse({2, 3})
                     .reshape({1, outputs, inputs, taps})
                     .transpose({0, 3, 2, 1})
                     .reshape({1, taps * inputs, outputs})
                     .pack(width));
  }
  expectSame(Chain({2, 37, 45}).pack(width, /*transposed=*/true));
}

// Breaks if what is computed before or after the movement is computed at another place.
TEST(TransposeKernel, ArithmeticOnBothSides) {
  expectSame(Chain({33, 45}).tanh().transpose({1, 0}).tanh().subtractFrom());
  expectSame(Chain({24, 8, 10}).tanh().reshape({24, 80}).transpose({1, 0}).pack(32));
}

// Breaks if parts of dimensions are taken for whole ones.
TEST(TransposeKernel, Slices) {
  expectSame(Chain({20, 50, 30}).slice({3, 1, 2}, {1, 2, 1}, {16, 20, 25}).transpose({0, 2, 1}));
  expectSame(Chain({40, 33}).slice({39, 0}, {-2, 1}, {20, 33}).transpose({1, 0}));
}

constexpr int64_t kPanel = 16; // columns: three panels of the first size, which no other size is

/// The same kernel for all sizes against the reference evaluation of the chain for each.
void expectSameOpen(llvm::function_ref<Chain(Chain, int64_t, int64_t)> steps,
                    llvm::function_ref<Shape(int64_t, int64_t)> shape) {
  constexpr int64_t kA = 37, kB = 53;
  Chain open(shape(kA, kB));
  int64_t panels = (kA + kPanel - 1) / kPanel;
  open.open(
      {{kA, "s0"},
       {kB, "s1"},
       {kA * kB, "s0 * s1"},
       {panels, "(s0 + " + std::to_string(kPanel - 1) + ") floordiv " + std::to_string(kPanel)}});
  for (const Machine &machine : {hostKernelMachine(), withVectors(16)}) {
    KernelRunner runner(steps(open, kA, kB).text(), machine);
    ASSERT_TRUE(runner.ok());
    EXPECT_EQ(runner.summary().substr(0, 7), "squares");
    for (auto [a, b] : {std::pair<int64_t, int64_t>{37, 53},
                        {16, 32},
                        {1, 1},
                        {1, 40},
                        {300, 7},
                        {0, 5},
                        {5, 0},
                        {17, 31}}) {
      auto inputs = runner.operands({{"s0", a}, {"s1", b}});
      auto got = runner.compiled(inputs);
      ASSERT_EQ(got.size(), 1U);
      if (got[0].size() == 0) {
        EXPECT_TRUE(a == 0 || b == 0) << a << ", " << b;
        continue;
      }
      KernelRunner known(steps(Chain(shape(a, b)), a, b).text(), machine);
      auto wanted = known.byReference(inputs);
      ASSERT_EQ(got.size(), wanted.size());
      ASSERT_EQ(got[0].shape(), wanted[0].shape());
      for (int64_t i = 0; i < wanted[0].size(); ++i)
        ASSERT_NEAR(got[0].getDouble(i), wanted[0].getDouble(i), 1e-6)
            << "element " << i << " of " << a << ", " << b;
    }
  }
}

// Breaks if squares need sizes that are known, or a rest of an open size is taken for another.
TEST(TransposeKernel, OpenSizes) {
  expectSameOpen([](Chain x, int64_t, int64_t) { return x.transpose({1, 0}); },
                 [](int64_t a, int64_t b) { return Shape{a, b}; });
  expectSameOpen(
      [](Chain x, int64_t, int64_t) { return x.transpose({2, 1, 0}).tanh().subtractFrom(); },
      [](int64_t a, int64_t b) { return Shape{a, 5, b}; });
  expectSameOpen(
      [](Chain x, int64_t, int64_t) { return x.reverse({0}).transpose({1, 0}).reverse({0}); },
      [](int64_t a, int64_t b) { return Shape{a, b}; });
}

// Breaks if a reshape of open sizes ends the view, or merges other dimensions than those that are
// one.
TEST(TransposeKernel, OpenImagesBetweenLayouts) {
  expectSameOpen([](Chain x, int64_t a,
                    int64_t b) { return x.reshape({2, a, b, 21}).transpose({0, 3, 1, 2}); },
                 [](int64_t a, int64_t b) { return Shape{2, a * b, 21}; });
  expectSameOpen([](Chain x, int64_t a,
                    int64_t b) { return x.transpose({0, 2, 3, 1}).reshape({2, a * b, 21}); },
                 [](int64_t a, int64_t b) { return Shape{2, 21, a, b}; });
}

// Breaks if a part of a dimension beside an open one is taken for the whole.
TEST(TransposeKernel, SlicesBesideOpenSizes) {
  expectSameOpen([](Chain x, int64_t a,
                    int64_t) { return x.slice({0, 3}, {1, 1}, {a, 17}).transpose({1, 0}); },
                 [](int64_t a, int64_t) { return Shape{a, 40}; });
}

// Breaks if a column behind the last one is read, or isn't zero, where only the run tells which it
// is.
TEST(TransposeKernel, OpenPanels) {
  expectSameOpen([](Chain x, int64_t, int64_t) { return x.transpose({1, 0}).pack(kPanel); },
                 [](int64_t a, int64_t b) { return Shape{a, b}; });
  expectSameOpen([](Chain x, int64_t, int64_t) { return x.transpose({1, 2, 0}).pack(kPanel); },
                 [](int64_t a, int64_t b) { return Shape{a, 4, b}; });
}

// Breaks if what lies together anyway goes through squares.
TEST(TransposeKernel, RowsAreNoSquares) {
  expectSame(Chain({8, 9, 64}).transpose({1, 0, 2}), false);
  expectSame(Chain({64, 100}).pack(32), false);
  expectSame(Chain({3, 5}).transpose({1, 0}), false);
}

// Breaks if long code is made again for each line of a square.
TEST(TransposeKernel, MuchCodeIsNoSquares) {
  expectSame(Chain({37, 53}).transpose({1, 0}).tanh().tanh().tanh(), false);
}

// Breaks if a rounding, which is one instruction, is counted as more.
TEST(TransposeKernel, RoundingsAreLittleCode) {
  expectSame(Chain({37, 53}).transpose({1, 0}).round().round().round());
}

} // namespace
} // namespace tensmith::kernel
