// Calls that run side by side: that they do, and that nothing else shows it. Results, limits, and
// which error is told first are the same for any number of threads.
#include "TestModule.h"

#include "runtime/ModuleFormat.h"
#include "runtime/Scalars.h"
#include "runtime/Session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

using plan::Code;
using plan::ScalarOperator;
using plan::ScalarType;
using Words = std::vector<uint32_t>;

uint32_t op(Code code, uint32_t count = 0) { return uint32_t(code) | count << 8; }
uint32_t last(uint32_t reg) { return reg | kTake; }
constexpr uint32_t kAdd = uint32_t(ScalarOperator::Add) | uint32_t(ScalarType::I64) << 8;
constexpr uint32_t kMul = uint32_t(ScalarOperator::Mul) | uint32_t(ScalarType::I64) << 8;

/// Main gives its value to the procedure and returns the result: i64[], or f32[1] where `real`.
Bytes moduleOf(std::vector<Words> procedures, uint32_t registers, bool real = false) {
  ModuleBuilder module;
  uint32_t meet = module.kernel("test_meet");
  FunctionBuilder main("main"), segment("segment");
  std::vector<uint32_t> dims, one;
  if (real)
    dims = {main.constant(1)};
  uint32_t value =
      main.valueOfKind("v", plan::ValueKind::Object, DataType::Undefined, plan::Storage::Parameter);
  main.function.params = {value};
  uint32_t y = main.value("y", real ? DataType::F32 : DataType::I64, dims, plan::Storage::Result);
  main.add(plan::Opcode::Procedure, 0, {value}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  one = {segment.constant(1)};
  uint32_t a = segment.param("a", DataType::F32, one);
  uint32_t b = segment.value("b", DataType::F32, one, plan::Storage::Result);
  segment.add(plan::Opcode::Kernel, meet, {a}, {b}, {});
  segment.function.results = {b};
  module.add(std::move(segment));
  uint32_t number = 0;
  for (Words &code : procedures) {
    auto procedure = std::make_unique<plan::ProcedureT>();
    procedure->params = 1;
    procedure->registers = registers;
    procedure->places = {0, module.location("line " + std::to_string(++number))};
    procedure->code = std::move(code);
    module.module.procedures.push_back(std::move(procedure));
  }
  return module.finish();
}

/// f(Leaf x) = x; f(Node l r) = 3 f(l) + f(r), which tells left from right.
Bytes foldTree() {
  return moduleOf({{op(Code::Switch, 2),
                    0,
                    4,
                    10, // 0
                    op(Code::Field),
                    1,
                    last(0),
                    0, // 4
                    op(Code::Return),
                    last(1), // 8
                    op(Code::Field),
                    1,
                    0,
                    0, // 10
                    op(Code::Field),
                    2,
                    last(0),
                    1, // 14
                    op(Code::Fork, 2),
                    op(Code::Call, 1),
                    0,
                    3,
                    last(1), // 18
                    op(Code::Call, 1),
                    0,
                    4,
                    last(2), // 23
                    op(Code::Immediate),
                    1,
                    uint32_t(ScalarType::I64),
                    3,
                    0, // 27
                    op(Code::Scalar, 2),
                    kMul,
                    3,
                    last(3),
                    last(1), // 32
                    op(Code::Scalar, 2),
                    kAdd,
                    3,
                    last(3),
                    last(4), // 37
                    op(Code::Return),
                    last(3)}},
                  5);
}

TensorRef integer(int64_t value) { return *Tensor::scalar(DataType::I64, &value); }
TensorRef leaf(TensorRef value) { return Tensor::data(0, {std::move(value)}); }
TensorRef node(TensorRef left, TensorRef right) {
  return Tensor::data(1, {std::move(left), std::move(right)});
}

/// A random tree; leaf `bad` (if there is one) holds no number.
TensorRef randomTree(std::mt19937 &random, int64_t leaves, int64_t first = 0, int64_t bad = -1) {
  if (leaves == 1)
    return leaf(first == bad ? node({}, {}) : integer(first));
  int64_t left = 1 + int64_t(random() % uint64_t(leaves - 1));
  TensorRef below = randomTree(random, left, first, bad);
  return node(std::move(below), randomTree(random, leaves - left, first + left, bad));
}
TensorRef balancedTree(int64_t leaves, const std::vector<int64_t> &bad = {}, int64_t first = 0) {
  if (leaves > 1)
    return node(balancedTree(leaves / 2, bad, first),
                balancedTree(leaves - leaves / 2, bad, first + leaves / 2));
  bool isBad = std::find(bad.begin(), bad.end(), first) != bad.end();
  return leaf(isBad ? floats({1}, {float(first)}) : integer(first));
}
TensorRef chain(int64_t length, bool toTheLeft) {
  TensorRef tree = leaf(integer(1));
  for (int64_t i = 0; i < length; ++i)
    tree = toTheLeft ? node(tree, leaf(integer(i))) : node(leaf(integer(i)), tree);
  return tree;
}

/// The result or the message.
std::string outcome(Session &session, const TensorRef &tree) {
  std::vector<TensorRef> inputs = {tree}, outputs(1);
  Status status = session.run(inputs, outputs);
  if (!status.ok())
    return status.message();
  int64_t value;
  std::memcpy(&value, outputs[0]->data(), sizeof(value));
  return std::to_string(value);
}

TEST(Forks, CallsRunAtTheSameTime) {
  // f(Leaf x) = meet(x); f(Node l r) = f(l), f(r) and then the latter
  std::vector<Words> code = {{op(Code::Switch, 2),
                              0,
                              4,
                              15,
                              op(Code::Field),
                              1,
                              last(0),
                              0,
                              op(Code::Invoke, 1),
                              1,
                              1,
                              1,
                              last(1),
                              op(Code::Return),
                              last(1),
                              op(Code::Field),
                              1,
                              0,
                              0,
                              op(Code::Field),
                              2,
                              last(0),
                              1,
                              op(Code::Fork, 2),
                              op(Code::Call, 1),
                              0,
                              3,
                              last(1),
                              op(Code::Call, 1),
                              0,
                              1,
                              last(2),
                              op(Code::Return),
                              last(1)}};
  Session session(load(moduleOf(code, 4, true)), 2);
  auto tree = [](auto self, int depth) -> TensorRef {
    return depth == 0 ? leaf(floats({1}, {0})) : node(self(self, depth - 1), self(self, depth - 1));
  };
  bool met = false;
  // On a busy machine a worker may take its time to come.
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!met && std::chrono::steady_clock::now() < until) {
    std::vector<TensorRef> inputs = {tree(tree, 7)}, outputs(1);
    Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    met = floatsOf(outputs[0])[0] == 1;
  }
  EXPECT_TRUE(met);
}

TEST(Forks, ResultsAreTheSameForAnyNumberOfThreads) {
  auto module = load(foldTree());
  Session alone(module, 1);
  std::mt19937 random(7);
  for (int threads = 2; threads <= 4; ++threads) {
    Session session(module, threads);
    for (int64_t leaves : {1, 2, 3, 100, 1000, 20'000})
      for (int turn = 0; turn < 5; ++turn) {
        TensorRef tree = randomTree(random, leaves);
        EXPECT_EQ(outcome(session, tree), outcome(alone, tree));
      }
  }
}

TEST(Forks, ChainsOfAnyDepth) {
  auto module = load(foldTree());
  Session alone(module, 1), session(module, 3);
  for (bool toTheLeft : {false, true}) {
    TensorRef tree = chain(200'000, toTheLeft);
    EXPECT_EQ(outcome(session, tree), outcome(alone, tree));
  }
}

TEST(Forks, TheFirstErrorIsToldWhoeverComesUponAnother) {
  auto module = load(foldTree());
  Session alone(module, 1), session(module, 4);
  for (std::vector<int64_t> bad : {std::vector<int64_t>{8191}, {0}, {4095, 4096}, {5000, 8000}}) {
    TensorRef tree = balancedTree(8192, bad);
    std::string expected = outcome(alone, tree);
    EXPECT_NE(expected.find("line 1"), std::string::npos) << expected;
    for (int turn = 0; turn < 10; ++turn)
      EXPECT_EQ(outcome(session, tree), expected);
  }
}

/// The least limit that lets the tree through; `limitsOf` makes the limits.
template <typename MakeLimits>
int64_t leastLimit(const std::shared_ptr<const Module> &module, const TensorRef &tree,
                   MakeLimits limitsOf) {
  int64_t low = 0, high = 1 << 20;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    Session session(module, 1, limitsOf(middle));
    (outcome(session, tree).find("limit") == std::string::npos ? high : low) = middle;
  }
  return high;
}

TEST(Forks, LimitsAreExact) {
  auto module = load(foldTree());
  TensorRef tree = balancedTree(5000);
  auto instructions = [](int64_t limit) { return Limits{.instructions = limit}; };
  auto depth = [](int64_t limit) { return Limits{.depth = limit}; };
  auto check = [&](int64_t least, auto limitsOf) {
    Session alone(module, 1, limitsOf(least - 1)), under(module, 3, limitsOf(least - 1)),
        enough(module, 3, limitsOf(least));
    for (int turn = 0; turn < 10; ++turn) {
      EXPECT_EQ(outcome(under, tree), outcome(alone, tree));
      EXPECT_EQ(outcome(enough, tree).find("limit"), std::string::npos);
    }
  };
  int64_t least = leastLimit(module, tree, instructions);
  EXPECT_EQ(least, 5000 * 3 + 4999 * 10);
  check(least, instructions);
  check(leastLimit(module, tree, depth), depth);
}

TEST(Forks, AnEndlessCallDoesNotKeepAFailedRun) {
  // f(Node l r) = f(l) + g(r), where g has no end; f fails at the deepest node.
  Words walk = {op(Code::Switch, 2),
                0,
                4,
                10, // 0
                op(Code::Field),
                1,
                last(0),
                0, // 4
                op(Code::Return),
                last(1), // 8
                op(Code::Field),
                1,
                0,
                0, // 10
                op(Code::Field),
                2,
                last(0),
                1, // 14
                op(Code::Fork, 2),
                op(Code::Call, 1),
                0,
                3,
                last(1), // 18
                op(Code::Call, 1),
                1,
                4,
                last(2), // 23
                op(Code::Scalar, 2),
                kAdd,
                3,
                last(3),
                last(4), // 27
                op(Code::Return),
                last(3)};
  Words endless = {op(Code::TailCall, 1), 1, last(0)};
  auto module = load(moduleOf({walk, endless}, 5));
  Session session(module, 3);
  TensorRef broken = Tensor::data(7, {});
  for (int i = 0; i < 20'000; ++i)
    broken = node(broken, leaf(integer(i)));
  for (int turn = 0; turn < 5; ++turn)
    EXPECT_NE(outcome(session, broken).find("constructor 7"), std::string::npos);
}

TEST(Forks, SeveralRunsOfOneSession) {
  auto module = load(foldTree());
  Session alone(module, 1), session(module, 3);
  std::mt19937 random(3);
  std::vector<TensorRef> trees;
  std::vector<std::string> expected;
  for (int i = 0; i < 4; ++i) {
    trees.push_back(randomTree(random, 5000, 0, i == 2 ? 3000 : -1));
    expected.push_back(outcome(alone, trees.back()));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < trees.size(); ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn)
        EXPECT_EQ(outcome(session, trees[i]), expected[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
