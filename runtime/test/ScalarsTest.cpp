// Scalar instructions against the reference evaluation of the operator that they are named after,
// bit by bit: the edges of integers, signed zeros, infinities, NaN. And procedures that compute
// with them.
#include "TestModule.h"

#include "reference/Reference.h"
#include "runtime/ModuleFormat.h"
#include "runtime/Scalars.h"
#include "runtime/Session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

constexpr plan::ScalarType kTypes[] = {plan::ScalarType::Bool, plan::ScalarType::I64,
                                       plan::ScalarType::F32, plan::ScalarType::F64};

std::vector<Scalar> valuesOf(plan::ScalarType type) {
  std::vector<Scalar> values;
  auto add = [&](auto Scalar::*member, auto value) {
    Scalar scalar{0};
    scalar.*member = value;
    values.push_back(scalar);
  };
  if (type == plan::ScalarType::Bool)
    for (bool value : {false, true})
      add(&Scalar::boolean, value);
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  if (type == plan::ScalarType::I64)
    for (int64_t value : {int64_t(0), int64_t(1), int64_t(-1), int64_t(7), int64_t(-7), int64_t(3),
                          int64_t(63), (int64_t(1) << 53) + 1, (int64_t(1) << 24) + 1, kLowest,
                          std::numeric_limits<int64_t>::max()})
      add(&Scalar::i64, value);
  for (double value : {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, 1e-40, 1e20, -1e20, 9.3e18, 0.1,
                       std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), std::nan("")}) {
    if (type == plan::ScalarType::F32)
      add(&Scalar::f32, float(value));
    if (type == plan::ScalarType::F64)
      add(&Scalar::f64, value);
  }
  return values;
}

HostTensor tensorOf(plan::ScalarType type, Scalar value) {
  HostTensor tensor(elementType(type), {});
  std::memcpy(tensor.mutableData(), &value, size_t(tensor.bytes()));
  return tensor;
}

/// "LessOrEqual" to "less_or_equal"; a cast's type goes to the attributes.
std::string operatorName(std::string name, Attributes &attributes) {
  constexpr std::pair<const char *, DataType> kCasts[] = {{"CastToBool", DataType::Bool},
                                                          {"CastToI64", DataType::I64},
                                                          {"CastToF32", DataType::F32},
                                                          {"CastToF64", DataType::F64}};
  for (auto [cast, type] : kCasts)
    if (name == cast) {
      attributes.set("to", int64_t(type));
      return "cast";
    }
  std::string text;
  for (char c : name) {
    if (isupper(c) && !text.empty())
      text += '_';
    text += char(tolower(c));
  }
  return text;
}

std::string textOf(const HostTensor &tensor) {
  return std::string(name(tensor.type())) + " " +
         (isFloat(tensor.type()) ? std::to_string(tensor.getDouble(0))
                                 : std::to_string(tensor.getInt(0)));
}

bool same(const HostTensor &a, const HostTensor &b) {
  if (a.type() != b.type())
    return false;
  if (isFloat(a.type()) && std::isnan(a.getDouble(0)))
    return std::isnan(b.getDouble(0));
  return std::memcmp(a.data(), b.data(), size_t(a.bytes())) == 0;
}

void compare(plan::ScalarOperator op, plan::ScalarType type, const std::vector<Scalar> &given) {
  const ScalarCode &code = scalarCode(uint32_t(op) | uint32_t(type) << 8);
  HostTensor got = tensorOf(code.result, code.function(given.data()));
  Attributes attributes;
  std::string name = operatorName(plan::EnumNameScalarOperator(op), attributes);
  std::vector<HostTensor> operands;
  for (size_t i = 0; i < given.size(); ++i)
    operands.push_back(
        tensorOf(given.size() == 3 && i == 0 ? plan::ScalarType::Bool : type, given[i]));
  reference::ResultType result{got.type(), Shape{}};
  auto expected = reference::evaluate({name, attributes, operands, {&result, 1}});
  ASSERT_TRUE(expected.ok()) << name << ": " << expected.status().message();
  std::string call = name;
  for (const HostTensor &operand : operands)
    call += " " + textOf(operand);
  EXPECT_TRUE(same(got, (*expected)[0]))
      << call << ": " << textOf(got) << " instead of " << textOf((*expected)[0]);
}

TEST(Scalars, EveryOperatorMeansWhatItsReferenceEvaluationMeans) {
  int compared = 0;
  for (plan::ScalarOperator op : plan::EnumValuesScalarOperator())
    for (plan::ScalarType type : kTypes) {
      const ScalarCode &code = scalarCode(uint32_t(op) | uint32_t(type) << 8);
      if (!code.function)
        continue;
      for (Scalar a : valuesOf(code.operands == 3 ? plan::ScalarType::Bool : type)) {
        if (code.operands == 1)
          compare(op, type, {a});
        for (Scalar b : code.operands > 1 ? valuesOf(type) : std::vector<Scalar>())
          if (code.operands == 2)
            compare(op, type, {a, b});
          else
            compare(op, type, {a, b, valuesOf(type).back()});
        ++compared;
      }
    }
  EXPECT_GT(compared, 800);
}

TEST(Scalars, EveryOperatorTakesSomeType) {
  for (plan::ScalarOperator op : plan::EnumValuesScalarOperator()) {
    bool any = false;
    for (plan::ScalarType type : kTypes)
      any |= scalarCode(uint32_t(op) | uint32_t(type) << 8).function != nullptr;
    EXPECT_TRUE(any) << plan::EnumNameScalarOperator(op);
  }
  for (uint32_t word : {0xffu, 0x400u, 0xffffffffu, uint32_t(plan::ScalarOperator::MAX) + 1})
    EXPECT_EQ(scalarCode(word).function, nullptr) << word;
}

// ---- in procedures

uint32_t op(plan::Code code, uint32_t count = 0) { return uint32_t(code) | count << 8; }
uint32_t last(uint32_t reg) { return reg | kTake; }
uint32_t on(plan::ScalarOperator op, plan::ScalarType type) {
  return uint32_t(op) | uint32_t(type) << 8;
}

/// Main gives n: i64[] to the procedure and returns its i64[].
Bytes moduleOf(std::vector<uint32_t> code, uint32_t registers) {
  ModuleBuilder module;
  FunctionBuilder main("main");
  uint32_t n = main.param("n", DataType::I64, {});
  uint32_t y = main.value("y", DataType::I64, {}, plan::Storage::Result);
  main.add(plan::Opcode::Procedure, 0, {n}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  auto procedure = std::make_unique<plan::ProcedureT>();
  procedure->params = 1;
  procedure->registers = registers;
  procedure->code = std::move(code);
  module.module.procedures.push_back(std::move(procedure));
  return module.finish();
}

TensorRef integer(int64_t value) { return *Tensor::scalar(DataType::I64, &value); }

using plan::Code;
using plan::ScalarOperator;
using plan::ScalarType;

/// sum = 0; while (0 < n) { sum += n; n -= 1 }
Bytes countDown() {
  constexpr uint32_t kI64 = uint32_t(ScalarType::I64);
  return moduleOf({op(Code::Immediate),
                   1,
                   kI64,
                   0,
                   0, // 0
                   op(Code::Immediate),
                   2,
                   kI64,
                   0,
                   0, // 5
                   op(Code::Immediate),
                   3,
                   kI64,
                   0xffffffff,
                   0xffffffff, // 10: -1
                   op(Code::Scalar, 2),
                   on(ScalarOperator::Less, ScalarType::I64),
                   4,
                   2,
                   0, // 15
                   op(Code::Branch),
                   last(4),
                   35, // 20
                   op(Code::Scalar, 2),
                   on(ScalarOperator::Add, ScalarType::I64),
                   1,
                   last(1),
                   0, // 23
                   op(Code::Scalar, 2),
                   on(ScalarOperator::Add, ScalarType::I64),
                   0,
                   last(0),
                   3, // 28
                   op(Code::Jump),
                   15, // 33
                   op(Code::Return),
                   last(1)}, // 35
                  5);
}

TEST(Scalars, ALoopOfScalarInstructions) {
  Session session(load(countDown()), 1);
  std::vector<TensorRef> inputs = {integer(1000)}, outputs(1);
  Status status = session.run(inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  int64_t sum;
  std::memcpy(&sum, outputs[0]->data(), sizeof(sum));
  EXPECT_EQ(sum, 500500);
}

TEST(Scalars, ARegisterOfAnotherTypeIsRefused) {
  auto run = [](ScalarType held, ScalarType expected) {
    Session session(
        load(moduleOf({op(Code::Immediate), 0, uint32_t(held), 1, 0, op(Code::Scalar, 1),
                       on(ScalarOperator::CastToI64, expected), 0, 0, op(Code::Return), 0},
                      1)),
        1);
    std::vector<TensorRef> inputs = {integer(0)}, outputs(1);
    return session.run(inputs, outputs);
  };
  EXPECT_TRUE(run(ScalarType::F64, ScalarType::F64).ok());
  Status status = run(ScalarType::Bool, ScalarType::F32);
  EXPECT_NE(status.message().find("expected a scalar of type f32, found one of type bool"),
            std::string::npos)
      << status.message();
}

TEST(Scalars, InstructionsThatLieAreRefusedWhenLoaded) {
  uint32_t add = on(ScalarOperator::Add, ScalarType::I64);
  std::vector<std::pair<std::vector<uint32_t>, const char *>> wrong = {
      {{op(Code::Immediate), 0, 4, 0, 0, op(Code::Return), 0}, "no such type"},
      {{op(Code::Immediate), 9, 1, 0, 0, op(Code::Return), 0}, "no such register"},
      {{op(Code::Immediate), 0, 0, 2, 0, op(Code::Return), 0}, "neither true nor false"},
      {{op(Code::Immediate), 0, 1, 0}, "breaks off"},
      {{op(Code::Scalar, 2), add, 0, 0, 9, op(Code::Return), 0}, "no such register"},
      {{op(Code::Scalar, 1), add, 0, 0, op(Code::Return), 0}, "no such operator"},
      {{op(Code::Scalar, 2), add | 0x700, 0, 0, 0, op(Code::Return), 0}, "no such operator"},
      {{op(Code::Scalar, 2), 0xdeadbeef, 0, 0, 0, op(Code::Return), 0}, "no such operator"},
      {{op(Code::Fork, 1), op(Code::Return), 0}, "no calls"},
      {{op(Code::Fork, 9), op(Code::Call, 1), 0, 1, 0, op(Code::Return), 0}, "no calls"},
      {{op(Code::Fork, 0xffffff), op(Code::Return), 0}, "too many"},
      {{op(Code::Fork, 2), op(Code::Call, 1), 0, 1, 0, op(Code::Call, 1), 0, 2, 1, op(Code::Return),
        0},
       "one another's results"},
      {{op(Code::Fork, 2), op(Code::Call, 1), 0, 1, 0, op(Code::Call, 1), 0, 1, 0, op(Code::Return),
        0},
       "one another's results"},
      {{op(Code::Fork, 2), op(Code::Call, 1), 0, 1, 0, op(Code::Call, 1), 0, 2, 0, op(Code::Jump),
        5},
       "leads into a fork"},
  };
  for (auto &[code, message] : wrong) {
    auto loaded = Module::loadBytes(moduleOf(code, 3), {});
    ASSERT_FALSE(loaded.ok()) << message;
    EXPECT_NE(loaded.status().message().find(message), std::string::npos)
        << loaded.status().message() << " instead of " << message;
  }
}

} // namespace
