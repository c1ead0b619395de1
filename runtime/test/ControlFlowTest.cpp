// If, Loop, routines, views, sequences, and sizes that only the run tells.
#include "TestModule.h"

#include "runtime/Session.h"

#include <atomic>
#include <cmath>
#include <gtest/gtest.h>
#include <thread>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

TensorRef boolean(bool value) {
  auto tensor = Tensor::create(DataType::Bool, {});
  *(*tensor)->data() = std::byte(value);
  return *tensor;
}

TensorRef integer(int64_t value) {
  auto tensor = Tensor::create(DataType::I64, {});
  std::memcpy((*tensor)->data(), &value, sizeof(value));
  return *tensor;
}

TensorRef runOne(Session &session, std::vector<TensorRef> inputs) {
  std::vector<TensorRef> outputs(1);
  Status status = session.run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? outputs[0] : Tensor::none();
}

/// if c: x + x else x, with the size handed over as a symbol.
Bytes ifModule() {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add");
  FunctionBuilder main("main"), twice("twice"), same("same");
  uint32_t n = main.symbol("n");
  uint32_t c = main.param("c", DataType::Bool, {}), x = main.param("x", DataType::F32, {n});
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::If, 0, {c, x}, {y}, {n}).functions = {1, 2};
  main.function.results = {y};
  module.add(std::move(main));
  for (FunctionBuilder *function : {&twice, &same}) {
    uint32_t m = function->symbol("m");
    function->function.given_symbols = 1;
    uint32_t a = function->param("a", DataType::F32, {m});
    uint32_t b = function->value("b", DataType::F32, {m}, plan::Storage::Heap);
    if (function == &twice)
      function->add(plan::Opcode::Kernel, add, {a, a}, {b}, {m});
    function->function.results = {function == &twice ? b : a};
    module.add(std::move(*function));
  }
  return module.finish();
}

TEST(ControlFlow, IfTakesEitherBranch) {
  Session session(load(ifModule()), 1);
  TensorRef x = floats({3}, {1, 2, 3});
  EXPECT_EQ(floatsOf(runOne(session, {boolean(true), x})), (std::vector<float>{2, 4, 6}));
  TensorRef same = runOne(session, {boolean(false), x});
  EXPECT_EQ(floatsOf(same), (std::vector<float>{1, 2, 3}));
  EXPECT_NE(same->data(), x->data()) << "an output must not share the input's memory";
}

/// if c: (if c: x + x), and x + x again, beside it.
Bytes nestedModule() {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add");
  std::vector<FunctionBuilder> functions = {FunctionBuilder("main"), FunctionBuilder("outer"),
                                            FunctionBuilder("inner"), FunctionBuilder("same")};
  for (uint32_t i = 0; i < 4; ++i) {
    FunctionBuilder &function = functions[i];
    uint32_t n = function.symbol("n");
    function.function.given_symbols = i > 0;
    uint32_t c = function.param("c", DataType::Bool, {}),
             x = function.param("x", DataType::F32, {n});
    auto storage = i == 0 ? plan::Storage::Result : plan::Storage::Heap;
    uint32_t y = function.value("y", DataType::F32, {n}, storage);
    if (i < 2) {
      function.add(plan::Opcode::If, 0, {c, c, x}, {y}, {n}).functions = {i + 1, 3};
      uint32_t z = function.value("z", DataType::F32, {n}, storage);
      function.add(plan::Opcode::Kernel, add, {y, x}, {z}, {n});
      y = z;
    } else if (i == 2) {
      function.add(plan::Opcode::Kernel, add, {x, x}, {y}, {n});
    }
    function.function.results = {i == 3 ? x : y};
    module.add(std::move(function));
  }
  return module.finish();
}

// What a step executes is measured too, and so no part of its own time: times of all steps can be
// added up.
TEST(ControlFlow, AStepsOwnTimeIsWithoutThatOfTheStepsInIt) {
  Session session(load(nestedModule()), 1);
  Profile profile;
  for (const FunctionCode &function : session.module().program().functions)
    profile.functions.emplace_back(function.steps.size());
  constexpr int64_t kSize = 100000, kRuns = 3;
  std::vector<TensorRef> inputs = {boolean(true), floats({kSize}, std::vector<float>(kSize, 2))};
  for (int i = 0; i < kRuns; ++i) {
    std::vector<TensorRef> outputs(1);
    ASSERT_TRUE(session.run(inputs, outputs, &profile).ok());
    EXPECT_EQ(floatsOf(outputs[0])[0], 8);
  }
  auto whole = [&](size_t function) {
    int64_t sum = 0;
    for (const Profile::Entry &entry : profile.functions[function]) {
      EXPECT_EQ(entry.count, kRuns);
      sum += entry.nanoseconds;
    }
    return sum;
  };
  for (size_t i : {0, 1}) {
    const Profile::Entry &branch = profile.functions[i][0], &kernel = profile.functions[i][1];
    EXPECT_EQ(branch.ownNanoseconds, branch.nanoseconds - whole(i + 1));
    EXPECT_GE(branch.ownNanoseconds, 0);
    EXPECT_EQ(kernel.ownNanoseconds, kernel.nanoseconds);
  }
}

/// Carries x += w while iteration + 1 < limit, at most `trips` times; scans x.
Bytes loopModule() {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add"), less = module.kernel("test_less");
  FunctionBuilder main("main"), body("body");
  uint32_t n = main.symbol("n"), trips = main.symbol("trips"), one = main.constant(1);
  uint32_t count = main.param("count", DataType::I64, {});
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t limit = main.param("limit", DataType::F32, {one});
  uint32_t last = main.value("last", DataType::F32, {n}, plan::Storage::Result);
  uint32_t all = main.value("all", DataType::F32, {trips, n}, plan::Storage::Result);
  auto &loop = main.add(plan::Opcode::Loop, 0, {count, kAbsent, x, x, limit}, {last, all}, {});
  loop.functions = {1};
  loop.carried = 1;
  main.function.results = {last, all};
  module.add(std::move(main));

  uint32_t m = body.symbol("m"), zero = body.constant(0), unit = body.constant(1);
  body.function.arena_bytes = body.constant(64);
  uint32_t iteration = body.param("iteration", DataType::I64, {});
  body.param("condition", DataType::Bool, {});
  uint32_t carried = body.param("carried", DataType::F32, {m});
  uint32_t w = body.param("w", DataType::F32, {m});
  uint32_t bound = body.param("limit", DataType::F32, {unit});
  uint32_t goesOn = body.value("goes_on", DataType::Bool, {}, plan::Storage::Arena, zero);
  uint32_t next = body.value("next", DataType::F32, {m}, plan::Storage::Heap);
  body.add(plan::Opcode::Kernel, less, {iteration, bound}, {goesOn});
  body.add(plan::Opcode::Kernel, add, {carried, w}, {next}, {m});
  body.function.results = {goesOn, next, next};
  module.add(std::move(body));
  return module.finish();
}

// Ten thousand runs, each with a trip count and a size of its own: breaks where the frames of a
// loop's body are shared, and ThreadSanitizer tells of it where the results happen to be right.
TEST(ControlFlow, FourThreadsShareASession) {
  Session session(load(loopModule()), 2);
  std::atomic<int> wrong{0};
  auto work = [&](int thread) {
    for (int i = 0; i < 2500; ++i) {
      int64_t trips = (thread + i) % 5, n = 1 + (thread * 37 + i * 11) % 60;
      std::vector<float> x(size_t(n), float(i % 9));
      std::vector<TensorRef> inputs = {integer(trips), floats({n}, x), floats({1}, {100})};
      std::vector<TensorRef> outputs(2);
      if (!session.run(inputs, outputs).ok()) {
        ++wrong;
        continue;
      }
      for (float last : floatsOf(outputs[0]))
        wrong += last != float(i % 9) * float(1 + trips);
      wrong += outputs[1]->shape() != Shape{trips, n};
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back(work, thread);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ControlFlow, LoopCarriesAndScans) {
  Session session(load(loopModule()), 1);
  auto run = [&](int64_t count, float limit) {
    std::vector<TensorRef> inputs = {integer(count), floats({2}, {1, 10}), floats({1}, {limit})};
    std::vector<TensorRef> outputs(2);
    Status status = session.run(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return outputs;
  };
  auto three = run(3, 100);
  EXPECT_EQ(floatsOf(three[0]), (std::vector<float>{4, 40}));
  EXPECT_EQ(three[1]->shape(), (Shape{3, 2}));
  EXPECT_EQ(floatsOf(three[1]), (std::vector<float>{2, 20, 3, 30, 4, 40}));
  auto stopped = run(1000, 2);
  EXPECT_EQ(floatsOf(stopped[0]), (std::vector<float>{3, 30}));
  EXPECT_EQ(stopped[1]->shape(), (Shape{2, 2}));
  auto never = run(0, 100);
  EXPECT_EQ(floatsOf(never[0]), (std::vector<float>{1, 10}));
  EXPECT_EQ(never[1]->shape(), (Shape{0, 2})) << "known sizes hold also where nothing was scanned";
}

/// Fibonacci's numbers: carries (a, b) as (b, a + b) while iteration + 1 < limit, and scans a + b,
/// its double and a. What is carried comes from a kernel, from another carried value, and changes
/// places with it; what is scanned, from a kernel that carries it too, one of its own, and a
/// parameter.
Bytes fibonacciModule() {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add"), less = module.kernel("test_less");
  FunctionBuilder main("main"), body("body");
  uint32_t n = main.symbol("n"), trips = main.symbol("trips"), one = main.constant(1);
  std::vector<uint32_t> inputs = {main.param("count", DataType::I64, {}), kAbsent,
                                  main.param("a", DataType::F32, {n}),
                                  main.param("b", DataType::F32, {n})},
                        outputs;
  inputs.push_back(main.param("limit", DataType::F32, {one}));
  for (const char *name : {"last", "next"})
    outputs.push_back(main.value(name, DataType::F32, {n}, plan::Storage::Result));
  for (const char *name : {"sums", "doubles", "firsts"})
    outputs.push_back(main.value(name, DataType::F32, {trips, n}, plan::Storage::Result));
  auto &loop = main.add(plan::Opcode::Loop, 0, inputs, outputs, {});
  loop.functions = {1};
  loop.carried = 2;
  main.function.results = outputs;
  module.add(std::move(main));

  uint32_t m = body.symbol("m"), zero = body.constant(0), unit = body.constant(1);
  body.function.arena_bytes = body.constant(64);
  uint32_t iteration = body.param("iteration", DataType::I64, {});
  body.param("condition", DataType::Bool, {});
  uint32_t a = body.param("a", DataType::F32, {m}), b = body.param("b", DataType::F32, {m});
  uint32_t limit = body.param("limit", DataType::F32, {unit});
  uint32_t goesOn = body.value("goes_on", DataType::Bool, {}, plan::Storage::Arena, zero);
  uint32_t sum = body.value("sum", DataType::F32, {m}, plan::Storage::Heap);
  uint32_t twice = body.value("twice", DataType::F32, {m}, plan::Storage::Heap);
  body.add(plan::Opcode::Kernel, less, {iteration, limit}, {goesOn});
  body.add(plan::Opcode::Kernel, add, {a, b}, {sum}, {m});
  body.add(plan::Opcode::Kernel, add, {sum, sum}, {twice}, {m});
  body.function.results = {goesOn, b, sum, sum, twice, a};
  module.add(std::move(body));
  return module.finish();
}

// Rows of 64 bytes are written where they belong, others copied; a run that is measured goes the
// general way.
TEST(ControlFlow, IterationsThatAreAllTheSame) {
  Session session(load(fibonacciModule()), 1);
  for (int64_t size : {3, 16})
    for (auto [count, limit] :
         {std::pair(int64_t(1), 100), {2, 100}, {3, 100}, {21, 100}, {90, 34}, {5, 1}}) {
      std::vector<float> zeros(size_t(size), 0), ones(size_t(size), 1), sums, doubles, firsts;
      float a = 0, b = 1;
      for (int64_t i = 0; i < std::min<int64_t>(count, limit); ++i) {
        sums.insert(sums.end(), size_t(size), a + b);
        doubles.insert(doubles.end(), size_t(size), 2 * (a + b));
        firsts.insert(firsts.end(), size_t(size), a);
        a = std::exchange(b, a + b);
      }
      std::vector<TensorRef> inputs = {integer(count), floats({size}, zeros), floats({size}, ones),
                                       floats({1}, {float(limit)})};
      for (bool measured : {false, true}) {
        Profile profile;
        for (size_t steps : {1, 3})
          profile.functions.emplace_back(steps);
        std::vector<TensorRef> outputs(5);
        Status status = session.run(inputs, outputs, measured ? &profile : nullptr);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(floatsOf(outputs[0]), std::vector<float>(size_t(size), a));
        EXPECT_EQ(floatsOf(outputs[1]), std::vector<float>(size_t(size), b));
        EXPECT_EQ(outputs[2]->shape(), (Shape{std::min<int64_t>(count, limit), size}));
        EXPECT_EQ(floatsOf(outputs[2]), sums);
        EXPECT_EQ(floatsOf(outputs[3]), doubles);
        EXPECT_EQ(floatsOf(outputs[4]), firsts);
      }
    }
}

// Fails if iterations after the first go the general way, which gives what is scanned a tensor of
// its own.
TEST(ControlFlow, ScannedRowsAreWrittenWhereTheyBelong) {
  ModuleBuilder module;
  uint32_t address = module.kernel("test_address");
  FunctionBuilder main("main"), body("body");
  uint32_t trips = main.symbol("trips"), eight = main.constant(8);
  uint32_t count = main.param("count", DataType::I64, {});
  uint32_t all = main.value("all", DataType::I64, {trips, eight}, plan::Storage::Result);
  main.add(plan::Opcode::Loop, 0, {count, kAbsent}, {all}, {}).functions = {1};
  main.function.results = {all};
  module.add(std::move(main));
  uint32_t width = body.constant(8);
  body.param("iteration", DataType::I64, {});
  uint32_t condition = body.param("condition", DataType::Bool, {});
  uint32_t row = body.value("row", DataType::I64, {width}, plan::Storage::Heap);
  body.add(plan::Opcode::Kernel, address, {}, {row}, {width});
  body.function.results = {condition, row};
  module.add(std::move(body));
  Session session(load(module.finish()), 1);
  TensorRef rows = runOne(session, {integer(5)});
  ASSERT_EQ(rows->shape(), (Shape{5, 8}));
  auto *places = reinterpret_cast<const int64_t *>(rows->data());
  for (int64_t i = 1; i < 5; ++i)
    EXPECT_EQ(places[8 * i], reinterpret_cast<int64_t>(places + 8 * i));
}

/// A routine on an arena's value, and a view of its result.
TEST(ControlFlow, RoutinesEvaluateByReference) {
  ModuleBuilder module;
  uint32_t softmax = module.routine("softmax"), add = module.kernel("test_add");
  module.setAttribute(softmax, "axis", 1);
  FunctionBuilder main("main");
  uint32_t n = main.symbol("n"), two = main.constant(2), zero = main.constant(0);
  uint32_t flat = main.binary(plan::ExprKind::Mul, n, two);
  main.function.arena_bytes = main.constant(256);
  uint32_t offset = main.constant(128);
  uint32_t x = main.param("x", DataType::F32, {n, two});
  uint32_t t = main.value("t", DataType::F32, {n, two}, plan::Storage::Arena, zero);
  uint32_t s = main.value("s", DataType::F32, {n, two}, plan::Storage::Arena, offset);
  uint32_t v = main.value("v", DataType::F32, {flat}, plan::Storage::Arena, offset);
  main.add(plan::Opcode::Kernel, add, {x, x}, {t}, {flat});
  main.add(plan::Opcode::Routine, softmax, {t}, {s});
  main.add(plan::Opcode::View, 0, {s}, {v});
  main.function.results = {v};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  TensorRef y = runOne(session, {floats({2, 2}, {0, 0, 0, 0.5f})});
  EXPECT_EQ(y->shape(), Shape{4});
  auto values = floatsOf(y);
  EXPECT_FLOAT_EQ(values[0], 0.5f);
  EXPECT_FLOAT_EQ(values[2], float(1 / (1 + std::exp(1.0))));
}

/// split, then join: the joined size is a symbol that the run tells; a kernel uses it after.
TEST(ControlFlow, SequencesAndSizesThatTheRunTells) {
  ModuleBuilder module;
  uint32_t split = module.routine("split_to_sequence"), at = module.routine("sequence_erase");
  uint32_t join = module.routine("concat_from_sequence"), add = module.kernel("test_add");
  module.setAttribute(split, "axis", 0);
  module.setAttribute(join, "axis", 0);
  FunctionBuilder main("main");
  uint32_t n = main.symbol("n"), m = main.symbol("m"), three = main.constant(3);
  uint32_t twice = main.binary(plan::ExprKind::Mul, m, three);
  uint32_t x = main.param("x", DataType::F32, {n, three});
  uint32_t rows =
      main.valueOfKind("rows", plan::ValueKind::Sequence, DataType::F32, plan::Storage::Heap);
  uint32_t fewer =
      main.valueOfKind("fewer", plan::ValueKind::Sequence, DataType::F32, plan::Storage::Heap);
  uint32_t joined = main.value("joined", DataType::F32, {m, three}, plan::Storage::Heap);
  uint32_t y = main.value("y", DataType::F32, {m, three}, plan::Storage::Result);
  main.add(plan::Opcode::Routine, split, {x}, {rows});
  main.add(plan::Opcode::Routine, at, {rows}, {fewer}).releases = {rows};
  main.add(plan::Opcode::Routine, join, {fewer}, {joined}).releases = {fewer};
  main.add(plan::Opcode::Kernel, add, {joined, joined}, {y}, {twice}).releases = {joined};
  main.function.results = {y};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  for (int64_t n : {2, 5, 3}) {
    std::vector<float> values(size_t(n * 3), 1.5f);
    TensorRef y = runOne(session, {floats({n, 3}, values)});
    EXPECT_EQ(y->shape(), (Shape{n - 1, 3}));
    EXPECT_EQ(floatsOf(y), std::vector<float>(size_t((n - 1) * 3), 3.0f));
  }
  std::vector<TensorRef> inputs = {floats({1, 3}, {1, 2, 3})}, outputs(1);
  EXPECT_EQ(session.run(inputs, outputs).message(), "concat_from_sequence: the sequence is empty");
}

// A routine whose result is not what the plan promises must not reach kernels that believe it.
TEST(ControlFlow, AResultOfAnotherShapeIsAnError) {
  ModuleBuilder module;
  uint32_t softmax = module.routine("softmax");
  module.setAttribute(softmax, "axis", 0);
  FunctionBuilder main("main");
  uint32_t four = main.constant(4), five = main.constant(5);
  uint32_t x = main.param("x", DataType::F32, {four});
  uint32_t y = main.value("y", DataType::F32, {five}, plan::Storage::Result);
  main.add(plan::Opcode::Routine, softmax, {x}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  std::vector<TensorRef> inputs = {floats({4}, {1, 2, 3, 4})}, outputs(1);
  EXPECT_FALSE(session.run(inputs, outputs).ok());
}

TEST(ControlFlow, OptionalValues) {
  ModuleBuilder module;
  uint32_t has = module.routine("optional_has_element");
  FunctionBuilder main("main");
  uint32_t x =
      main.valueOfKind("x", plan::ValueKind::Optional, DataType::F32, plan::Storage::Parameter);
  main.function.params = {x};
  uint32_t y = main.value("y", DataType::Bool, {}, plan::Storage::Result);
  main.add(plan::Opcode::Routine, has, {x}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  EXPECT_EQ(*runOne(session, {Tensor::none()})->data(), std::byte(0));
  EXPECT_EQ(*runOne(session, {floats({1}, {1})})->data(), std::byte(1));
}

} // namespace
