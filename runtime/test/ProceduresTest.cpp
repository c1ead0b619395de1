// Procedures: recursion deeper than any host's stack, tail calls, functions as values, data types,
// limits, and plans that lie.
#include "TestModule.h"

#include "runtime/ModuleFormat.h"
#include "runtime/Session.h"

#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

using Words = std::vector<uint32_t>;

uint32_t op(plan::Code code, uint32_t count = 0) { return uint32_t(code) | count << 8; }
uint32_t last(uint32_t reg) { return reg | kTake; }

/// Main hands an object (and, where `scalar`, x: f32[1]) to procedure 0. Function 1 adds two
/// f32[1].
class Builder {
public:
  explicit Builder(bool scalar, bool resultIsScalar) {
    uint32_t add = module.kernel("test_add");
    module.module.locations.push_back("program.tsm:3:5");
    FunctionBuilder main("main"), sum("sum");
    uint32_t one = main.constant(1);
    std::vector<uint32_t> given = {main.valueOfKind("v", plan::ValueKind::Object,
                                                    DataType::Undefined, plan::Storage::Parameter)};
    main.function.params = given;
    if (scalar)
      given.push_back(main.param("x", DataType::F32, {one}));
    uint32_t y = resultIsScalar ? main.value("y", DataType::F32, {one}, plan::Storage::Result)
                                : main.valueOfKind("y", plan::ValueKind::Object,
                                                   DataType::Undefined, plan::Storage::Result);
    main.add(plan::Opcode::Procedure, 0, given, {y});
    main.function.results = {y};
    module.add(std::move(main));
    one = sum.constant(1);
    uint32_t a = sum.param("a", DataType::F32, {one}), b = sum.param("b", DataType::F32, {one});
    uint32_t c = sum.value("c", DataType::F32, {one}, plan::Storage::Result);
    sum.add(plan::Opcode::Kernel, add, {a, b}, {c}, {one});
    sum.function.results = {c};
    module.add(std::move(sum));
  }

  void procedure(uint32_t params, uint32_t registers, Words code) {
    auto procedure = std::make_unique<plan::ProcedureT>();
    procedure->params = params;
    procedure->registers = registers;
    procedure->code = std::move(code);
    procedure->places = {0, 0};
    module.module.procedures.push_back(std::move(procedure));
  }

  ModuleBuilder module;
};

TensorRef listOf(int64_t length) {
  TensorRef list = Tensor::data(0, {});
  TensorRef one = floats({1}, {1});
  for (int64_t i = 0; i < length; ++i)
    list = Tensor::data(1, {one, list});
  return list;
}

using plan::Code;

/// fold(list, x) = match list { Nil => x, Cons(head, tail) => head + fold(tail, x) }
Bytes deepFold() {
  Builder builder(true, true);
  builder.procedure(2, 4, {op(Code::Switch, 2), 0,       4,       6,                         //
                           op(Code::Return),    last(1),                                     //
                           op(Code::Field),     2,       0,       0,                         //
                           op(Code::Field),     3,       last(0), 1,                         //
                           op(Code::Call, 2),   0,       3,       last(3), last(1),          //
                           op(Code::Invoke, 2), 1,       1,       2,       last(2), last(3), //
                           op(Code::Return),    last(2)});
  return builder.module.finish();
}

/// loop(v) = loop(v)
Bytes endless(bool tail) {
  Builder builder(false, false);
  if (tail)
    builder.procedure(1, 1, {op(Code::TailCall, 1), 0, last(0)});
  else
    builder.procedure(1, 1, {op(Code::Call, 1), 0, 0, last(0), op(Code::Return), 0});
  return builder.module.finish();
}

Status runWith(const Bytes &file, Limits limits, std::vector<TensorRef> inputs,
               TensorRef *output = nullptr) {
  Session session(load(file), 1, limits);
  std::vector<TensorRef> outputs(1);
  Status status = session.run(inputs, outputs);
  if (output)
    *output = outputs[0];
  return status;
}

TEST(Procedures, AMillionActivationsNeedNoHostStack) {
  TensorRef sum;
  Status status = runWith(deepFold(), {}, {listOf(1'000'000), floats({1}, {5})}, &sum);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(floatsOf(sum), std::vector<float>{1'000'005});
}

TEST(Procedures, DepthIsLimitedAndTheMessageSaysWhere) {
  Status status = runWith(deepFold(), {100}, {listOf(1000), floats({1}, {5})});
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  EXPECT_NE(status.message().find("program.tsm:3:5"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("limit of 100"), std::string::npos) << status.message();
}

TEST(Procedures, TailCallsTakeNoDepthAndEndlessOnesEndAtTheLimit) {
  Status status = runWith(endless(true), {10, 100'000}, {Tensor::data(0, {})});
  EXPECT_NE(status.message().find("100000 instructions"), std::string::npos) << status.message();
  status = runWith(endless(false), {10, 100'000}, {Tensor::data(0, {})});
  EXPECT_NE(status.message().find("limit of 10"), std::string::npos) << status.message();
}

// Breaks if the machine keeps a reference to what a run has returned: each run's results would
// stay.
TEST(Procedures, WhatIsReturnedIsTheCallersAlone) {
  Builder builder(false, false);
  builder.procedure(1, 1, {op(Code::Return), last(0)});
  auto memory = std::make_shared<float>(3.f);
  int64_t shape[] = {1};
  TensorRef value = Tensor::data(0, {*Tensor::on(DataType::F32, shape, memory.get(), memory)}),
            returned;
  Status status = runWith(builder.module.finish(), {}, {value}, &returned);
  ASSERT_TRUE(status.ok()) << status.message();
  value = returned = {};
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(Procedures, FunctionsKeepWhatTheyCapture) {
  // f = add(x, _); f(f(field 0 of v))
  Builder builder(true, true);
  builder.procedure(2, 3,
                    {op(Code::Closure, 1), 1, 2, last(1), //
                     op(Code::Field), 0, last(0), 0,      //
                     op(Code::Apply, 1), 0, 2, last(0),   //
                     op(Code::TailApply, 1), last(2), last(0)});
  builder.procedure(2, 2, {op(Code::Invoke, 2), 1, 1, 0, 0, 1, op(Code::Return), last(0)});
  TensorRef sum;
  Status status = runWith(builder.module.finish(), {},
                          {Tensor::data(0, {floats({1}, {3})}), floats({1}, {5})}, &sum);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(floatsOf(sum), std::vector<float>{13});
}

TEST(Procedures, ValuesThatAreNotOfTheirTypeAreRefused) {
  // What the caller builds is not trusted: another tag, a field too few, a tensor of another size.
  std::vector<TensorRef> wrong = {Tensor::data(7, {}), Tensor::data(1, {}),
                                  Tensor::data(1, {floats({2}, {1, 1}), Tensor::data(0, {})}),
                                  Tensor::data(1, {Tensor::data(0, {}), floats({1}, {1})})};
  for (const TensorRef &value : wrong)
    EXPECT_FALSE(runWith(deepFold(), {}, {value, floats({1}, {5})}).ok());
}

TEST(Procedures, PlansThatLieAreRefusedWhenLoaded) {
  std::vector<std::pair<Words, const char *>> wrong = {
      {{}, "no code"},
      {{op(Code::Move), 0, 0}, "runs past its end"},
      {{op(Code::Return), 9}, "no such register"},
      {{op(Code::Return)}, "breaks off"},
      {{op(Code::Jump), 1}, "no instruction"},
      {{op(Code::Switch, 1), 0, 77}, "no instruction"},
      {{op(Code::Switch, 0xffffff), 0, 0}, "breaks off"},
      {{op(Code::Branch), 0, 1, op(Code::Return), 0}, "no instruction"},
      {{op(Code::TailCall, 1), 5, 0}, "no such procedure"},
      {{op(Code::TailCall, 0), 0}, "another number"},
      {{op(Code::Constant), 0, 0, op(Code::Return), 0}, "no such constant"},
      {{op(Code::Invoke, 1), 0, 1, 0, 0, op(Code::Return), 0}, "no such function"},
      {{op(Code::Invoke, 1), 1, 1, 0, 0, op(Code::Return), 0}, "another number"},
      {{op(Code::Invoke, 2), 1, 1, 9, 0, 0, op(Code::Return), 0}, "no such register"},
      {{op(Code::Invoke, 2), 1, 0xfffffff0, 9, 0, 0, op(Code::Return), 0}, "breaks off"},
      {{op(Code::Closure, 2), 0, 0, 0, 0, op(Code::Return), 0}, "another number"},
      {{op(Code::Construct, 1), 0, 8, 0, op(Code::Return), 0}, "no such register"},
      {{0xee, 0}, "unknown"},
  };
  for (auto &[code, message] : wrong) {
    Builder builder(false, false);
    builder.procedure(1, 1, code);
    Bytes file = builder.module.finish();
    auto loaded = Module::loadBytes(file, {});
    ASSERT_FALSE(loaded.ok()) << message;
    EXPECT_NE(loaded.status().message().find(message), std::string::npos)
        << loaded.status().message() << " instead of " << message;
  }
}

/// p(v, x) = { s = x + x; t = s + x; t + x }, or t + s where s is kept: where the sums lay.
struct Sums {
  std::vector<std::byte *> places;
  std::vector<float> results, given;
};

Sums sumsOf(bool keep, std::vector<uint32_t> overwrites) {
  Builder builder(true, true);
  builder.module.module.functions[1]->overwrites = std::move(overwrites);
  builder.procedure(2, 4,
                    {op(Code::Invoke, 2),
                     1,
                     1,
                     2,
                     1,
                     1, //
                     op(Code::Invoke, 2),
                     1,
                     1,
                     3,
                     keep ? 2 : last(2),
                     1, //
                     op(Code::Invoke, 2),
                     1,
                     1,
                     3,
                     last(3),
                     keep ? last(2) : 1, //
                     op(Code::Return),
                     last(3)});
  Sums sums;
  Watch::Observe observe = [&](std::string_view, std::string_view, const TensorRef &tensor) {
    sums.places.push_back(tensor->data());
  };
  Session session(load(builder.module.finish()), 1);
  std::vector<TensorRef> inputs = {Tensor::data(0, {}), floats({1}, {1})}, outputs(1);
  EXPECT_TRUE(session.run(inputs, outputs, nullptr, {.observe = &observe}).ok());
  sums.results = floatsOf(outputs[0]);
  sums.given = floatsOf(inputs[1]);
  return sums;
}

TEST(Procedures, ResultsTakeThePlacesOfOperandsThatNobodyElseHas) {
  Sums apart = sumsOf(false, {}), over = sumsOf(false, {0, 2}),
       either = sumsOf(false, {1, 2, 0, 2});
  ASSERT_GE(over.places.size(), 3u);
  EXPECT_NE(apart.places[1], apart.places[0]);
  for (const Sums &sums : {over, either}) {
    EXPECT_EQ(sums.places[1], sums.places[0]);
    EXPECT_EQ(sums.places[2], sums.places[0]);
  }
  // What is used again is kept, be it the program's or the caller's.
  Sums kept = sumsOf(true, {0, 2});
  EXPECT_NE(kept.places[1], kept.places[0]);
  EXPECT_EQ(kept.places[2], kept.places[1]);
  EXPECT_EQ(kept.results, std::vector<float>{5});
  for (const Sums &sums : {apart, over, either, kept})
    EXPECT_EQ(sums.given, std::vector<float>{1});
  for (const Sums &sums : {apart, over, either})
    EXPECT_EQ(sums.results, std::vector<float>{4});
}

TEST(Procedures, WhatIsWrittenOverIsAParameterThatTheResultIsLike) {
  for (std::vector<uint32_t> wrong : {std::vector<uint32_t>{0}, {2, 2}, {0, 1}, {0, 3}}) {
    Builder builder(true, true);
    builder.module.module.functions[1]->overwrites = wrong;
    builder.procedure(2, 2, {op(Code::Return), 1});
    auto loaded = Module::loadBytes(builder.module.finish(), {});
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.status().message().find("writ"), std::string::npos)
        << loaded.status().message();
  }
}

TEST(Procedures, ARegisterThatWasEmptiedIsNoCrash) {
  Builder builder(false, false);
  builder.procedure(1, 2, {op(Code::Move), 1, last(0), op(Code::Return), 0});
  EXPECT_FALSE(runWith(builder.module.finish(), {}, {Tensor::data(0, {})}).ok());
}

} // namespace
