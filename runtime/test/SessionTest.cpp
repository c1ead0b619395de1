// A static and a symbolic module, run: results, the caller's buffers, messages, threads.
#include "TestModule.h"

#include "runtime/Describe.h"
#include "runtime/Session.h"

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

std::vector<float> iota(size_t size, float first = 0) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string messageOf(Session &session, std::vector<TensorRef> inputs) {
  std::vector<TensorRef> outputs(2);
  Status status = session.run(inputs, outputs);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_FALSE(outputs[0]) << "a failed run must leave the outputs as they were";
  return status.message();
}

// Breaks when operands, constants or the arena get wrong addresses.
TEST(Session, RunsAStaticPlan) {
  std::vector<float> weights = iota(100, 1000);
  Session session(load(addModule(100, weights)), 2);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<TensorRef> inputs = {floats({100}, iota(100, float(repeat)))}, outputs(2);
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    auto y = floatsOf(outputs[0]);
    float sum = 0;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(y[i], 2 * float(i + repeat) + weights[i]);
      sum += float(i + repeat) + weights[i];
    }
    EXPECT_EQ(floatsOf(outputs[1])[0], sum);
  }
}

/// x + x and x + x, of 16 elements each, where they lie in one value, which is summed up.
Bytes joinModule(const std::function<void(plan::FunctionT &)> &change) {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add"), sum = module.kernel("test_sum");
  FunctionBuilder main("main");
  uint32_t half = main.constant(16), all = main.constant(32), one = main.constant(1);
  uint32_t zero = main.constant(0), line = main.constant(64);
  main.function.arena_bytes = main.constant(192);
  uint32_t x = main.param("x", DataType::F32, {half});
  uint32_t a = main.value("a", DataType::F32, {half}, plan::Storage::Arena, zero);
  uint32_t b = main.value("b", DataType::F32, {half}, plan::Storage::Arena, line);
  uint32_t whole = main.value("whole", DataType::F32, {all}, plan::Storage::Arena, zero);
  uint32_t y = main.value("y", DataType::F32, {one}, plan::Storage::Result);
  main.add(plan::Opcode::Kernel, add, {x, x}, {a}, {half});
  main.add(plan::Opcode::Kernel, add, {x, x}, {b}, {half});
  main.add(plan::Opcode::Join, 0, {a, b}, {whole}, {});
  main.add(plan::Opcode::Kernel, sum, {whole}, {y}, {all});
  main.function.results = {y, y};
  change(main.function);
  module.add(std::move(main));
  return module.finish({});
}

// Breaks when what is joined may lie elsewhere, be less than the whole, or be read by other rows.
TEST(Session, JoinsWhatLiesInIt) {
  std::vector<TensorRef> inputs = {floats({16}, std::vector<float>(16, 1))}, outputs(2);
  Session session(load(joinModule([](plan::FunctionT &) {})), 1);
  ASSERT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_EQ(floatsOf(outputs[0])[0], 64);
  auto constant = [](plan::FunctionT &main, int64_t value) {
    main.exprs.push_back(plan::Expr(value, 0, plan::ExprKind::Constant));
    return uint32_t(main.exprs.size() - 1);
  };
  struct {
    std::function<void(plan::FunctionT &)> change;
    const char *message;
  } const lies[] = {
      {[&](auto &main) { main.values[2]->offset = constant(main, 128); }, "not what is joined"},
      {[&](auto &main) { main.values[2]->dims = {constant(main, 8)}; }, "not what is joined"},
      {[&](auto &main) { main.values[2]->offset = constant(main, 66); }, "no place"},
      {[&](auto &main) { main.values[3]->offset = constant(main, 4); }, "no place"},
      {[&](auto &main) {
         main.values[2]->dims = {constant(main, 4), constant(main, 4)};
         main.values[2]->pitch = 64;
       },
       "no place"},
      {[&](auto &main) {
         uint32_t four = constant(main, 4), two = constant(main, 2), eight = constant(main, 8);
         main.values[2]->dims = {four, four};
         main.values[2]->offset = constant(main, 0);
         main.values[2]->pitch = 32;
         auto seen = std::make_unique<plan::ValueT>(*main.values[2]);
         seen->dims = {two, eight};
         main.values.push_back(std::move(seen));
         auto view = std::make_unique<plan::InstructionT>();
         view->opcode = plan::Opcode::View;
         view->location = main.instructions[0]->location;
         view->operands = {2};
         view->results = {uint32_t(main.values.size() - 1)};
         main.instructions.insert(main.instructions.begin() + 2, std::move(view));
       },
       "can't be seen as"}};
  for (const auto &lie : lies) {
    SCOPED_TRACE(lie.message);
    auto module = load(joinModule(lie.change));
    ASSERT_TRUE(module);
    Session lying(module, 1);
    std::string message = messageOf(lying, inputs);
    EXPECT_NE(message.find(lie.message), std::string::npos) << message;
  }
}

// Breaks when a frame keeps sizes or addresses of other shapes.
TEST(Session, TakesEverySizeOfASymbol) {
  Session session(load(addModule(0, {})), 2);
  for (int64_t n : {1, 7, 0, 1000, 7, 100000, 3}) {
    std::vector<TensorRef> inputs = {floats({n}, iota(size_t(n)))}, outputs(2);
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    auto y = floatsOf(outputs[0]);
    ASSERT_EQ(int64_t(y.size()), n);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(y[i], 3 * float(i));
  }
}

// Whoever is told of an output may take it away while the rest runs: it must be there, and stay.
TEST(Session, TellsOfOutputsWhenTheyAreWritten) {
  Session session(load(addModule(0, {})), 1);
  TensorRef x = floats({4}, {1, 2, 3, 4}), y = floats({4}, {0, 0, 0, 0}), s = floats({1}, {0});
  std::vector<TensorRef> inputs = {x}, outputs = {y, s};
  std::map<size_t, std::vector<float>> seen;
  std::function<void(size_t)> written = [&](size_t output) {
    EXPECT_FALSE(seen.contains(output)) << "told twice";
    seen[output] = floatsOf(output ? s : y);
    (output ? s : y)->data()[0] = std::byte(7);
  };
  Watch watch;
  watch.written = &written;
  ASSERT_TRUE(session.run(inputs, outputs, nullptr, watch).ok());
  EXPECT_EQ(seen[0], (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(seen[1], std::vector<float>{20}) << "an arena's value is copied when it is computed";
  EXPECT_EQ(y->data()[0], std::byte(7)) << "written once more after it was told of";
  EXPECT_EQ(s->data()[0], std::byte(7)) << "written once more after it was told of";

  seen.clear();
  outputs = {TensorRef(), s}; // nobody's tensor is nothing to tell of
  ASSERT_TRUE(session.run(inputs, outputs, nullptr, watch).ok());
  EXPECT_FALSE(seen.contains(0));
  EXPECT_EQ(seen[1], std::vector<float>{20});

  seen.clear();
  s = floats({1}, {2});
  inputs = {s}, outputs = {TensorRef(), s}; // an input too: written, and told of, in the end
  ASSERT_TRUE(session.run(inputs, outputs, nullptr, watch).ok());
  EXPECT_EQ(seen[1], std::vector<float>{4});
}

TEST(Session, WritesIntoTheCallersBuffers) {
  Session session(load(addModule(0, {})), 1);
  TensorRef x = floats({4}, {1, 2, 3, 4}), y = floats({4}, {0, 0, 0, 0}), s = floats({1}, {0});
  std::vector<TensorRef> inputs = {x}, outputs = {y, s};
  ASSERT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_EQ(outputs[0].get(), y.get());
  EXPECT_EQ(floatsOf(y), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(floatsOf(s), std::vector<float>{20}) << "an arena's value is copied out";

  outputs = {x, TensorRef()}; // the output is the input's own memory
  ASSERT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_EQ(floatsOf(x), (std::vector<float>{3, 6, 9, 12}));

  outputs = {floats({5}, {0, 0, 0, 0, 0}), TensorRef()};
  Status status = session.run(inputs, outputs);
  EXPECT_EQ(status.message(), "output 'y': it is f32[4] and can't be written into f32[5]");
}

// Breaks when an output shares memory with an arena that the next run uses.
TEST(Session, OutputsOutliveTheNextRunAndTheSession) {
  std::vector<TensorRef> first(2), second(2);
  {
    Session session(load(addModule(3, iota(3))), 1);
    std::vector<TensorRef> a = {floats({3}, {1, 1, 1})}, b = {floats({3}, {9, 9, 9})};
    ASSERT_TRUE(session.run(a, first).ok());
    ASSERT_TRUE(session.run(b, second).ok());
  }
  EXPECT_EQ(floatsOf(first[1]), std::vector<float>{6});
  EXPECT_EQ(floatsOf(second[1]), std::vector<float>{30});
}

TEST(Session, SaysWhatIsWrongWithAnInput) {
  Session session(load(addModule(4, {})), 1);
  auto wrongType = Tensor::create(DataType::I64, std::vector<int64_t>{4});
  EXPECT_EQ(messageOf(session, {floats({5}, iota(5))}),
            "input 'x': expected f32[4], got f32[5]: dimension 0 must be 4, but is 5");
  EXPECT_EQ(messageOf(session, {floats({2, 2}, iota(4))}),
            "input 'x': expected f32[4], got f32[2,2]: it must have 1 dimensions");
  EXPECT_EQ(messageOf(session, {*wrongType}),
            "input 'x': expected f32[4], got i64[4]: the element type differs; convert it to f32");
  EXPECT_EQ(messageOf(session, {Tensor::none()}),
            "input 'x': expected f32[4], got none: it must be a tensor");
  EXPECT_EQ(messageOf(session, {TensorRef()}), "input 'x': no tensor was given");
  EXPECT_EQ(messageOf(session, {}),
            "the module takes 1 inputs and gives 2 outputs; the call has 0 and 2");
  std::vector<TensorRef> inputs = {floats({4}, iota(4))}, outputs(2);
  EXPECT_TRUE(session.run(inputs, outputs).ok()) << "a failed run must not spoil the next";
}

TEST(Session, SymbolsMustAgreeAcrossInputs) {
  ModuleBuilder module;
  FunctionBuilder main("main");
  uint32_t n = main.symbol("batch"), two = main.constant(2);
  main.param("a", DataType::F32, {main.binary(plan::ExprKind::Mul, n, two)}); // before its symbol
  main.param("b", DataType::F32, {n});
  main.function.results = {0};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  std::vector<TensorRef> inputs = {floats({6}, iota(6)), floats({3}, iota(3))}, outputs(1);
  EXPECT_TRUE(session.run(inputs, outputs).ok());
  EXPECT_NE(outputs[0]->data(), inputs[0]->data()) << "an output must not be an input's memory";
  outputs = {TensorRef()};
  inputs[1] = floats({4}, iota(4));
  EXPECT_EQ(
      session.run(inputs, outputs).message(),
      "input 'a': expected f32[2*batch], got f32[6]: dimension 0 must be 2*batch = 8, but is 6");
}

TEST(Session, AnOverflowingSizeIsAnError) {
  ModuleBuilder module;
  uint32_t nothing = module.kernel("test_nothing");
  FunctionBuilder main("main");
  uint32_t n = main.symbol("n"), big = main.constant(INT64_MAX / 2);
  uint32_t x = main.param("x", DataType::F32, {n});
  main.add(plan::Opcode::Kernel, nothing, {x}, {}, {main.binary(plan::ExprKind::Mul, n, big)});
  main.function.results = {};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  std::vector<TensorRef> one = {floats({1}, {1})}, four = {floats({4}, iota(4))};
  EXPECT_TRUE(session.run(one, {}).ok());
  EXPECT_NE(session.run(four, {}).message().find("overflows"), std::string::npos);
}

// The arena's size is the plan's to say: what does not lie inside must not be touched.
TEST(Session, RefusesPlacesOutsideOfTheArena) {
  ModuleBuilder module;
  uint32_t nothing = module.kernel("test_nothing");
  FunctionBuilder main("main");
  uint32_t n = main.symbol("n"), zero = main.constant(0);
  main.function.arena_bytes = main.constant(128);
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t t = main.value("t", DataType::F32, {n}, plan::Storage::Arena, zero);
  main.add(plan::Opcode::Kernel, nothing, {x}, {t});
  main.function.results = {};
  module.add(std::move(main));
  Session session(load(module.finish()), 1);
  std::vector<TensorRef> fits = {floats({32}, iota(32))}, exceeds = {floats({33}, iota(33))};
  EXPECT_TRUE(session.run(fits, {}).ok());
  EXPECT_NE(session.run(exceeds, {}).message().find("no place"), std::string::npos);
}

/// A kernel that refuses what is negative, by that message.
Bytes checkModule(const std::string &message) {
  ModuleBuilder module;
  uint32_t check = module.kernel("test_check", {message});
  FunctionBuilder main("main");
  uint32_t n = main.symbol("n");
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::Kernel, check, {x}, {y}, {n}).location =
      module.location("test.onnx: node 'sqrt' (Sqrt)");
  main.function.results = {y};
  module.add(std::move(main));
  return module.finish();
}

TEST(Session, AKernelsFailureNamesTheNodeAndTheDetail) {
  Session session(load(checkModule("element {} is negative")), 1);
  std::vector<TensorRef> bad = {floats({3}, {1, 2, -3})}, good = {floats({3}, {1, 2, 3})},
                         outputs(1);
  EXPECT_EQ(session.run(bad, outputs).message(),
            "test.onnx: node 'sqrt' (Sqrt): element 2 is negative");
  EXPECT_TRUE(session.run(good, outputs).ok()) << "the failure must not outlive its run";
}

// Breaks if a number that the message doesn't speak of comes behind it.
TEST(Session, AMessageWithoutAPlaceForTheDetailIsAllThatIsSaid) {
  Session session(load(checkModule("an element is negative")), 1);
  std::vector<TensorRef> bad = {floats({3}, {1, 2, -3})}, outputs(1);
  EXPECT_EQ(session.run(bad, outputs).message(),
            "test.onnx: node 'sqrt' (Sqrt): an element is negative");
}

// Many threads on one session, each with sizes of its own: breaks when frames are shared.
TEST(Session, RunsOnManyThreadsAtOnce) {
  Session session(load(addModule(0, {})), 2);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        size_t n = size_t(1 + (t * 37 + repeat * 11) % 300);
        std::vector<TensorRef> inputs = {floats({int64_t(n)}, iota(n, float(t)))}, outputs(2);
        if (!session.run(inputs, outputs).ok()) {
          ++wrong;
          continue;
        }
        auto y = floatsOf(outputs[0]);
        for (size_t i = 0; i < n; ++i)
          wrong += y[i] != 3 * float(i + size_t(t));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

// Breaks where a frame that gave its arena back is run on the addresses that it had there.
TEST(Session, KeepsNoMoreThanItMay) {
  auto run = [&](Session &session) {
    std::vector<TensorRef> inputs = {floats({1000}, iota(1000, 1))}, outputs(2);
    EXPECT_TRUE(session.run(inputs, outputs).ok());
    EXPECT_EQ(floatsOf(outputs[0])[10], 33);
  };
  Session keeping(load(addModule(0, {})), 1), giving(load(addModule(0, {})), 1, {.keepBytes = 100});
  for (int i = 0; i < 3; ++i) {
    run(keeping);
    EXPECT_GE(keeping.keptBytes(), 4000);
    run(giving);
    EXPECT_EQ(giving.keptBytes(), 0);
  }
}

TEST(Session, DescribesItselfAndItsRuns) {
  auto module = load(addModule(0, {}));
  auto json = nlohmann::json::parse(describeModule(*module));
  EXPECT_EQ(json["inputs"][0]["name"], "x");
  EXPECT_EQ(json["inputs"][0]["dims"][0], "n");
  EXPECT_EQ(json["kernels"][0]["symbol"], "test_add");
  EXPECT_EQ(json["kernels"][0]["uses"], 2);
  EXPECT_EQ(json["functions"][0]["planned_allocations"], 2);
  EXPECT_EQ(json["functions"][0]["arena_bytes"], "64*ceil(4*n/64)+64");
  EXPECT_EQ(json["functions"][0]["instructions"][0]["location"], "test.onnx: node 'first' (Add)");

  auto fixed = nlohmann::json::parse(describeModule(*load(addModule(100, {}))));
  EXPECT_EQ(fixed["functions"][0]["arena_bytes"], 448 + 64);

  Session session(module, 1);
  Profile profile;
  profile.functions.emplace_back(3);
  std::vector<TensorRef> inputs = {floats({8}, iota(8))}, outputs(2);
  ASSERT_TRUE(session.run(inputs, outputs, &profile).ok());
  auto entries = nlohmann::json::parse(describeProfile(*module, profile));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0]["label"], "test_add_label");
  EXPECT_EQ(entries[0]["count"], 1);
  EXPECT_EQ(entries[0]["bytes"], 3 * 32);
}

// Breaks if a part of a loop is lost or counted for another step.
TEST(Session, TracesTheStepsAndTheirParts) {
  auto module = load(addModule(0, {}));
  for (int threads : {1, 4}) {
    Session session(module, threads);
    Profile profile;
    profile.functions.emplace_back(3);
    Trace trace;
    profile.trace = &trace;
    std::vector<TensorRef> inputs = {floats({2000}, iota(2000))}, outputs(2);
    ASSERT_TRUE(session.run(inputs, outputs, &profile).ok());
    auto spans = nlohmann::json::parse(describeTrace(*module, trace));
    std::map<int, nlohmann::json> steps;
    std::map<int, int64_t> items;
    for (const auto &span : spans)
      if (!span.contains("items"))
        steps[span["instruction"]] = span;
    EXPECT_EQ(steps.size(), 3u);
    for (const auto &span : spans) {
      EXPECT_LE(int64_t(span["begin"]), int64_t(span["end"]));
      EXPECT_LT(int(span["thread"]), threads);
      if (!span.contains("items"))
        continue;
      const auto &step = steps[span["instruction"]];
      EXPECT_LE(int64_t(step["begin"]), int64_t(span["begin"]));
      EXPECT_GE(int64_t(step["end"]), int64_t(span["end"]));
      items[span["instruction"]] += int64_t(span["items"][1]) - int64_t(span["items"][0]);
    }
    EXPECT_EQ(items.size(), 2u); // two kernels with a loop each, and a view
    for (auto [step, count] : items)
      EXPECT_EQ(count, 2000) << step;
    // A later run, which is not traced, adds nothing.
    std::vector<TensorRef> others(2);
    ASSERT_TRUE(session.run(inputs, others).ok());
    EXPECT_EQ(trace.spans().size(), spans.size());
  }
}

} // namespace
