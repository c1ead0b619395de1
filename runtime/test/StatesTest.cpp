// States: their first values, updates in place and apart, and plans that lie about them.
#include "TestModule.h"

#include "runtime/Session.h"
#include "runtime/States.h"

#include <functional>
#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

using Change = std::function<void(plan::ModuleT &)>;

/// main(w, v, g) -> (w + g, v + w), four numbers each, where w begins as `weights` and v as zeros.
Bytes updateModule(const Change &change = nullptr) {
  static const std::vector<float> weights = {1, 2, 3, 4};
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add");
  FunctionBuilder main("main");
  uint32_t n = main.constant(4);
  uint32_t w = main.param("w", DataType::F32, {n}), v = main.param("v", DataType::F32, {n}),
           g = main.param("g", DataType::F32, {n});
  uint32_t nextW = main.value("w'", DataType::F32, {n}, plan::Storage::Result),
           nextV = main.value("v'", DataType::F32, {n}, plan::Storage::Result);
  main.function.arena_bytes = main.constant(0);
  main.add(plan::Opcode::Kernel, add, {v, w}, {nextV}, {n});
  main.add(plan::Opcode::Kernel, add, {w, g}, {nextW}, {n});
  main.function.results = {nextW, nextV};
  module.add(std::move(main));
  for (uint32_t i = 0; i < 2; ++i) {
    auto state = std::make_unique<plan::StateT>();
    state->name = i ? "v" : "w";
    state->input = state->output = i;
    state->initial = i ? UINT64_MAX : 0;
    state->in_place = true;
    module.module.states.push_back(std::move(state));
  }
  if (change)
    change(module.module);
  return module.finish(weights);
}

TEST(States, FirstValues) {
  auto module = load(updateModule());
  ASSERT_TRUE(module);
  const auto *states = module->plan().states();
  ASSERT_EQ(states->size(), 2u);
  for (int time = 0; time < 2; ++time) {
    auto w = initialValue(*module, *states->Get(0)), v = initialValue(*module, *states->Get(1));
    ASSERT_TRUE(w.ok() && v.ok());
    EXPECT_EQ(floatsOf(*w), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(floatsOf(*v), (std::vector<float>{0, 0, 0, 0}));
    reinterpret_cast<float *>((*w)->data())[0] = 7; // a copy
  }
}

TEST(States, InPlaceApartAndCrossed) {
  for (bool inPlace : {true, false}) {
    auto module = load(updateModule([&](plan::ModuleT &plan) {
      for (auto &state : plan.states)
        state->in_place = inPlace;
    }));
    ASSERT_TRUE(module);
    Session session(module, 1, {});
    TensorRef w = floats({4}, {1, 2, 3, 4}), v = floats({4}, {0, 0, 0, 0}),
              g = floats({4}, {10, 10, 10, 10});
    std::vector<TensorRef> inputs{w, v, g}, apart(2), same{w, v};
    ASSERT_TRUE(session.run(inputs, apart, nullptr, {}).ok());
    EXPECT_EQ(floatsOf(w)[0], 1);
    std::vector<Tensor *> destinations{w.get(), v.get()};
    auto direct = directDestinations(*module, inputs, destinations);
    EXPECT_EQ(direct[0] == w.get(), inPlace);
    ASSERT_TRUE(session.run(inputs, same, nullptr, {}).ok());
    EXPECT_EQ(floatsOf(w), (std::vector<float>{11, 12, 13, 14}));
    EXPECT_EQ(floatsOf(w), floatsOf(apart[0]));
    EXPECT_EQ(floatsOf(v), floatsOf(apart[1]));
    // Each into the other's: no update, so what is read must not be written meanwhile.
    TensorRef a = floats({4}, {1, 2, 3, 4}), b = floats({4}, {0, 0, 0, 0});
    std::vector<TensorRef> given{a, b, g}, crossed{b, a};
    ASSERT_TRUE(session.run(given, crossed, nullptr, {}).ok());
    EXPECT_EQ(floatsOf(b), (std::vector<float>{11, 12, 13, 14}));
    EXPECT_EQ(floatsOf(a), (std::vector<float>{1, 2, 3, 4}));
    // One tensor as both states and the gradient.
    TensorRef all = floats({4}, {1, 1, 1, 1});
    std::vector<TensorRef> three{all, all, all}, one{all, TensorRef()};
    ASSERT_TRUE(session.run(three, one, nullptr, {}).ok());
    EXPECT_EQ(floatsOf(all)[0], 2);
    EXPECT_EQ(floatsOf(one[1])[0], 2);
  }
}

// A state that nobody here updates has no output to check, and no place to be written over.
TEST(States, ReadAlone) {
  auto readAlone = [](bool inPlace) {
    return Module::loadBytes(updateModule([&](plan::ModuleT &plan) {
                               plan.states[1]->output = UINT32_MAX;
                               plan.states[1]->in_place = inPlace;
                             }),
                             {});
  };
  auto module = readAlone(false);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Session session(*module, 1, {});
  TensorRef w = floats({4}, {1, 2, 3, 4}), v = floats({4}, {5, 5, 5, 5}),
            g = floats({4}, {10, 10, 10, 10});
  std::vector<TensorRef> inputs{w, v, g}, outputs{w, TensorRef()};
  ASSERT_TRUE(session.run(inputs, outputs, nullptr, {}).ok());
  EXPECT_EQ(floatsOf(w), (std::vector<float>{11, 12, 13, 14}));
  EXPECT_EQ(floatsOf(v), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(floatsOf(outputs[1]), (std::vector<float>{6, 7, 8, 9}));
  EXPECT_FALSE(readAlone(true).ok());
}

TEST(States, PlansThatLieAreRefused) {
  auto refused = [](const Change &change, const std::string &part) {
    auto module = Module::loadBytes(updateModule(change), {});
    ASSERT_FALSE(module.ok()) << part;
    EXPECT_EQ(module.status().code(), StatusCode::InvalidModule);
    EXPECT_NE(module.status().message().find(part), std::string::npos) << module.status().message();
  };
  refused([](auto &plan) { plan.states[0]->input = 3; }, "no input");
  refused([](auto &plan) { plan.states[0]->output = 9; }, "no output");
  refused([](auto &plan) { plan.states[1]->input = 0; }, "after it is written over");
  refused([](auto &plan) { plan.states[1]->output = 0; }, "shares");
  refused([](auto &plan) { plan.states[0]->initial = 1 << 20; }, "outside the weights");
  refused([](auto &plan) { plan.states[0]->initial = 4; }, "outside the weights");
  refused([](auto &plan) { plan.functions[0]->values[0]->type = uint8_t(DataType::F64); },
          "one type");
  refused(
      [](auto &plan) {
        auto &main = *plan.functions[0];
        std::swap(main.instructions[0], main.instructions[1]);
      },
      "read after it is written over");
  refused(
      [](auto &plan) {
        auto &main = *plan.functions[0];
        main.results[1] = main.params[0];
      },
      "");
  // A run that fails must leave states as they were, so none is written over before a check.
  for (size_t before : {0, 1, 2}) {
    Change check = [before](plan::ModuleT &plan) {
      auto check = std::make_unique<plan::InstructionT>();
      check->opcode = plan::Opcode::Check;
      check->sizes = {0, 0};
      check->message = 0;
      check->location = kAbsent;
      plan.messages = {"{a} and {b}"};
      auto &instructions = plan.functions[0]->instructions;
      instructions.insert(instructions.begin() + long(before), std::move(check));
    };
    if (before == 0)
      EXPECT_TRUE(Module::loadBytes(updateModule(check), {}).ok());
    else
      refused(check, "before a check that may fail");
  }
}

} // namespace
