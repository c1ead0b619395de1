// Calls of one function done together: that they are, and that results, errors and limits are those
// of calls one by one.
#include "TestModule.h"

#include "runtime/ModuleFormat.h"
#include "runtime/Session.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

using plan::Code;
using Words = std::vector<uint32_t>;

uint32_t op(Code code, uint32_t count = 0) { return uint32_t(code) | count << 8; }
uint32_t last(uint32_t reg) { return reg | kTake; }

/// A function of two f32[1], or of two f32[calls, 1].
FunctionBuilder adder(uint32_t kernel, bool several) {
  FunctionBuilder sum(several ? "sum.batched" : "sum");
  uint32_t one = sum.constant(1), count = several ? sum.symbol("calls") : one;
  std::vector<uint32_t> dims = several ? std::vector{count, one} : std::vector{one};
  uint32_t a = sum.param("a", DataType::F32, dims), b = sum.param("b", DataType::F32, dims);
  uint32_t c = sum.value("c", DataType::F32, dims, plan::Storage::Result);
  sum.add(plan::Opcode::Kernel, kernel, {a, b}, {c}, {count});
  sum.function.results = {c};
  return sum;
}

/// f(Leaf x) = x; f(Node l r) = sum(f(l), f(r)). `batched`: of the function sum.
plan::ModuleT &build(ModuleBuilder &module, uint32_t batched) {
  uint32_t add = module.kernel("test_add");
  FunctionBuilder main("main");
  uint32_t one = main.constant(1);
  uint32_t value =
      main.valueOfKind("v", plan::ValueKind::Object, DataType::Undefined, plan::Storage::Parameter);
  main.function.params = {value};
  uint32_t y = main.value("y", DataType::F32, {one}, plan::Storage::Result);
  main.add(plan::Opcode::Procedure, 0, {value}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  FunctionBuilder sum = adder(add, false);
  sum.function.batched = batched;
  module.add(std::move(sum));
  module.add(adder(add, true));
  auto procedure = std::make_unique<plan::ProcedureT>();
  procedure->params = 1;
  procedure->registers = 5;
  procedure->places = {0, module.location("line 1")};
  procedure->code = {op(Code::Switch, 2), 0,       4,       10,                  //
                     op(Code::Field),     1,       last(0), 0,                   // 4
                     op(Code::Return),    last(1),                               // 8
                     op(Code::Field),     1,       0,       0,                   // 10
                     op(Code::Field),     2,       last(0), 1,                   // 14
                     op(Code::Fork, 2),                                          // 18
                     op(Code::Call, 1),   0,       3,       last(1),             // 19
                     op(Code::Call, 1),   0,       4,       last(2),             // 23
                     op(Code::Invoke, 2), 1,       1,       3,       3, last(4), // 27
                     op(Code::Return),    last(3)};
  module.module.procedures.push_back(std::move(procedure));
  return module.module;
}

Bytes folding(uint32_t batched) {
  ModuleBuilder module;
  build(module, batched);
  return module.finish();
}

TensorRef leaf(TensorRef value) { return Tensor::data(0, {std::move(value)}); }
TensorRef randomTree(std::mt19937 &random, int64_t leaves, int64_t first = 0, int64_t bad = -1) {
  if (leaves == 1)
    return leaf(first == bad ? floats({2}, {1, 2}) : floats({1}, {float(first % 100)}));
  int64_t left = 1 + int64_t(random() % uint64_t(leaves - 1));
  TensorRef below = randomTree(random, left, first, bad);
  return Tensor::data(1, {below, randomTree(random, leaves - left, first + left, bad)});
}

std::string outcome(Session &session, const TensorRef &tree, Profile *profile = nullptr) {
  std::vector<TensorRef> inputs = {tree}, outputs(1);
  Status status = session.run(inputs, outputs, profile);
  return status.ok() ? std::to_string(floatsOf(outputs[0])[0]) : status.message();
}

TEST(Batches, CallsAreDoneTogether) {
  auto module = load(folding(2));
  Session session(module, 1);
  Profile profile;
  for (const FunctionCode &function : module->program().functions)
    profile.functions.emplace_back(function.steps.size());
  std::mt19937 random(1);
  TensorRef tree = Tensor::data(1, {randomTree(random, 1), randomTree(random, 1)});
  for (int i = 0; i < 5; ++i)
    tree = Tensor::data(1, {tree, tree});
  EXPECT_EQ(outcome(session, tree, &profile), "0.000000");
  // 63 sums: of five levels together, and the root alone.
  EXPECT_EQ(profile.functions[2][0].count, 5);
  EXPECT_EQ(profile.functions[1][0].count, 1);
}

TEST(Batches, ResultsErrorsAndLimitsAreThoseOfCallsOneByOne) {
  auto module = load(folding(2)), plain = load(folding(0));
  Session alone(plain, 1);
  std::mt19937 random(2);
  for (int threads = 1; threads <= 3; ++threads) {
    Session session(module, threads);
    for (int64_t leaves : {1, 2, 3, 10, 1000, 10'000}) {
      TensorRef tree = randomTree(random, leaves), bad = randomTree(random, leaves, 0, leaves / 2);
      EXPECT_EQ(outcome(session, tree), outcome(alone, tree));
      if (leaves > 1) {
        EXPECT_EQ(outcome(session, bad), outcome(alone, bad));
        EXPECT_NE(outcome(session, bad).find("line 1"), std::string::npos) << outcome(session, bad);
      }
    }
  }
  TensorRef tree = randomTree(random, 500);
  for (bool depth : {false, true})
    for (int64_t limit = 1; limit < 6000; limit += depth ? 1 : 499) {
      if (depth && limit > 60)
        break;
      Limits limits = depth ? Limits{.depth = limit} : Limits{.instructions = limit};
      Session one(plain, 1, limits), together(module, 2, limits);
      EXPECT_EQ(outcome(together, tree), outcome(one, tree)) << limit;
    }
  constexpr int64_t kInstructions = 500 * 3 + 499 * 8; // of all its leaves and nodes
  for (int64_t limit : {kInstructions - 1, kInstructions}) {
    Session together(module, 1, Limits{.instructions = limit});
    EXPECT_EQ(outcome(together, tree).find("limit") == std::string::npos, limit == kInstructions);
  }
}

TEST(Batches, PartsAreNotBegunAfterABatchHasFailed) {
  auto module = load(folding(2));
  auto balanced = [](auto self, int depth, const TensorRef &below) -> TensorRef {
    return depth == 0
               ? below
               : Tensor::data(1, {self(self, depth - 1, below), self(self, depth - 1, below)});
  };
  TensorRef bad = leaf(floats({2}, {1, 2}));
  TensorRef tree =
      Tensor::data(1, {balanced(balanced, 7, leaf(floats({1}, {1}))), balanced(balanced, 7, bad)});
  Session session(module, 1), alone(load(folding(0)), 1);
  Profile profile;
  for (const FunctionCode &function : module->program().functions)
    profile.functions.emplace_back(function.steps.size());
  EXPECT_EQ(outcome(session, tree, &profile), outcome(alone, tree));
  EXPECT_LE(profile.functions[2][0].count, 1); // of the batch that failed
}

TEST(Batches, TensorsInOneBlockAreLetGoOfOneByOne) {
  for (const Shape &shape : {Shape{1, 3}, Shape{500}, Shape{0}}) {
    std::vector<TensorRef> tensors(8);
    ASSERT_TRUE(Tensor::createTogether(DataType::F32, shape, tensors).ok());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i]->shape(), shape);
      EXPECT_EQ(uintptr_t(tensors[i]->data()) % kAlignment, 0u);
      EXPECT_TRUE(tensors[i]->ownsMemory());
      std::memset(tensors[i]->data(), int(i), size_t(tensors[i]->bytes()));
    }
    TensorRef last = tensors[6], view = *tensors[7]->reshaped(shape);
    tensors.clear();
    EXPECT_EQ(last->size(), view->size());
    for (int64_t k = 0; k < last->bytes(); ++k)
      EXPECT_TRUE(last->data()[k] == std::byte(6) && view->data()[k] == std::byte(7));
  }
  // The block counts as a whole, until its last tensor goes.
  ResourceScope scope({std::make_shared<Budget>(4096)});
  for (int i = 0; i < 10; ++i) {
    std::vector<TensorRef> tensors(8), more(8);
    EXPECT_TRUE(Tensor::createTogether(DataType::F32, Shape{16}, tensors).ok());
    tensors.erase(tensors.begin() + 1, tensors.end());
    EXPECT_FALSE(Tensor::createTogether(DataType::F32, Shape{16}, more).ok());
  }
}

TEST(Batches, PartsAreTheSameForAnyNumberOfThreads) {
  auto module = load(folding(2));
  auto balanced = [](auto self, int depth) -> TensorRef {
    return depth == 0 ? leaf(floats({1}, {1}))
                      : Tensor::data(1, {self(self, depth - 1), self(self, depth - 1)});
  };
  auto chain = [](int64_t length, bool toTheLeft) {
    TensorRef tree = leaf(floats({1}, {1}));
    for (int64_t i = 0; i < length; ++i)
      tree = toTheLeft ? Tensor::data(1, {tree, leaf(floats({1}, {1}))})
                       : Tensor::data(1, {leaf(floats({1}, {1})), tree});
    return tree;
  };
  auto callsOf = [&](int threads, const TensorRef &tree, const char *expected) {
    Session session(module, threads);
    Profile profile;
    for (const FunctionCode &function : module->program().functions)
      profile.functions.emplace_back(function.steps.size());
    EXPECT_EQ(outcome(session, tree), expected);
    EXPECT_EQ(outcome(session, tree, &profile), expected);
    return std::pair(profile.functions[1][0].count, profile.functions[2][0].count);
  };
  // One half is given away: both do five levels together, and three nodes alone with the root.
  for (int threads = 1; threads <= 3; ++threads) {
    EXPECT_EQ(callsOf(threads, balanced(balanced, 7), "128.000000"),
              std::pair(int64_t(3), int64_t(10)));
    callsOf(threads, chain(100'000, true), "100001.000000");
    callsOf(threads, chain(100'000, false), "100001.000000");
  }
}

TEST(Batches, SeveralRunsOfOneSession) {
  Session alone(load(folding(0)), 1), session(load(folding(2)), 3);
  std::mt19937 random(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    TensorRef tree = randomTree(random, 2000, 0, i == 2 ? 1500 : -1);
    threads.emplace_back([&session, tree, expected = outcome(alone, tree)] {
      for (int turn = 0; turn < 10; ++turn)
        EXPECT_EQ(outcome(session, tree), expected);
    });
  }
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Batches, VersionsThatDoNotFitAreRefusedWhenLoaded) {
  auto refused = [](auto change) {
    ModuleBuilder module;
    change(build(module, 2));
    auto loaded = Module::loadBytes(module.finish(), {});
    return !loaded.ok() &&
           loaded.status().message().find("batched version does not fit") != std::string::npos;
  };
  EXPECT_FALSE(refused([](plan::ModuleT &) {}));
  EXPECT_TRUE(refused([](plan::ModuleT &module) { module.functions[1]->batched = 9; }));
  EXPECT_TRUE(refused([](plan::ModuleT &module) { module.functions[1]->batched = 0x80000000; }));
  EXPECT_TRUE(refused([](plan::ModuleT &module) { // another type
    module.functions[2]->values[module.functions[2]->params[1]]->type = uint8_t(DataType::F64);
  }));
  EXPECT_TRUE(refused([](plan::ModuleT &module) { // too many dimensions
    auto &dims = module.functions[2]->values[module.functions[2]->params[0]]->dims;
    dims.push_back(dims.back());
  }));
  EXPECT_TRUE(refused([](plan::ModuleT &module) { // a result more
    module.functions[2]->results.push_back(module.functions[2]->results[0]);
  }));
}

} // namespace
