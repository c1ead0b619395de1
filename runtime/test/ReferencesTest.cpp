// References of a run: what is written is read, circles end with the run, and instructions that lie
// are refused, when the module is loaded or when they are reached.
#include "TestModule.h"

#include "runtime/ModuleFormat.h"
#include "runtime/References.h"
#include "runtime/Session.h"

#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

using plan::Code;

uint32_t op(Code code, uint32_t count = 0) { return uint32_t(code) | count << 8; }

/// Main gives an i64 to a procedure of three registers, and returns the i64 that it gives.
Bytes moduleOf(std::vector<uint32_t> code) {
  ModuleBuilder module;
  FunctionBuilder main("main");
  uint32_t value = main.param("v", DataType::I64, {});
  uint32_t y = main.value("y", DataType::I64, {}, plan::Storage::Result);
  main.add(plan::Opcode::Procedure, 0, {value}, {y});
  main.function.results = {y};
  module.add(std::move(main));
  auto procedure = std::make_unique<plan::ProcedureT>();
  procedure->params = 1;
  procedure->registers = 3;
  procedure->places = {0, module.location("line 1")};
  procedure->code = std::move(code);
  module.module.procedures.push_back(std::move(procedure));
  return module.finish();
}

Status runOf(std::vector<uint32_t> code, int64_t &result) {
  auto loaded = Module::loadBytes(moduleOf(std::move(code)), {});
  if (!loaded.ok())
    return loaded.status();
  Session session(*loaded, 1);
  int64_t given = 7;
  std::vector<TensorRef> inputs = {*Tensor::scalar(DataType::I64, &given)}, outputs(1);
  Status status = session.run(inputs, outputs);
  if (status.ok())
    result = *reinterpret_cast<const int64_t *>(outputs[0]->data());
  return status;
}

TEST(References, AreReadAsTheyWereWritten) {
  int64_t result = 0;
  Status status = runOf({op(Code::Immediate), 1, 1, 3, 0, // 3
                         op(Code::Reference), 2, 1,       // to it
                         op(Code::Write), 2, 0,           // to what was given
                         op(Code::Read), 1, 2,            //
                         op(Code::Return), 1},
                        result);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(result, 7);
}

TEST(References, ThatAreNoneAreTold) {
  int64_t result = 0;
  for (std::vector<uint32_t> code :
       {std::vector<uint32_t>{op(Code::Read), 1, 0, op(Code::Return), 0},
        std::vector<uint32_t>{op(Code::Write), 0, 0, op(Code::Return), 0}}) {
    Status status = runOf(code, result);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("as a reference is none"), std::string::npos)
        << status.message();
  }
  // One that leaves the run is no tensor.
  EXPECT_FALSE(runOf({op(Code::Reference), 1, 0, op(Code::Return), 1}, result).ok());
}

TEST(References, InstructionsThatLieAreRefusedWhenLoaded) {
  int64_t result = 0;
  for (Code code : {Code::Reference, Code::Read, Code::Write}) {
    for (std::vector<uint32_t> words :
         {std::vector<uint32_t>{op(code), 9, 0, op(Code::Return), 0},
          std::vector<uint32_t>{op(code), 0, 9, op(Code::Return), 0}}) {
      Status status = runOf(words, result);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.message().find("no such register"), std::string::npos) << status.message();
    }
    EXPECT_FALSE(runOf({op(code, 1), 0, 0, op(Code::Return), 0}, result).ok());
    EXPECT_FALSE(runOf({op(code), 0}, result).ok());
  }
}

TEST(References, InCirclesEndWithTheRun) {
  TensorRef left;
  {
    References references;
    TensorRef a = references.make(Tensor::none()), b = references.make(a);
    references.write(*a, b);
    left = Tensor::data(0, {b});
  }
  EXPECT_EQ(left->elements()[0]->kind(), TensorKind::None);
}

} // namespace
