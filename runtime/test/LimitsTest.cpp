// The limits of a session: memory that its runs may take, and time that one may.
#include "TestModule.h"

#include "runtime/Session.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

/// A loop that goes on for as long as its input says, which may be for ever.
Bytes endlessModule() {
  ModuleBuilder module;
  uint32_t less = module.kernel("test_less");
  FunctionBuilder body("body"), main("main");
  uint32_t iteration = body.param("iteration", DataType::I64, {});
  body.param("condition", DataType::Bool, {});
  uint32_t limit = body.param("limit", DataType::F32, {});
  uint32_t go = body.value("go", DataType::Bool, {}, plan::Storage::Result);
  body.add(plan::Opcode::Kernel, less, {iteration, limit}, {go});
  body.function.results = {go};
  uint32_t last = main.param("limit", DataType::F32, {});
  auto &loop = main.add(plan::Opcode::Loop, 0, {kAbsent, kAbsent, last}, {});
  loop.functions = {1};
  loop.location = module.location("test.onnx: node 'forever' (Loop)");
  module.add(std::move(main));
  module.add(std::move(body));
  return module.finish();
}

// Breaks if a model could keep a session busy without end.
TEST(Limits, ALoopEndsAtTheTimeLimit) {
  Session session(load(endlessModule()), 1, {.seconds = 0.05});
  std::vector<TensorRef> few = {floats({}, {100})}, endless = {floats({}, {INFINITY})};
  EXPECT_TRUE(session.run(few, {}).ok());
  Status status = session.run(endless, {});
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  EXPECT_NE(status.message().find("limit of time"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("'forever'"), std::string::npos) << status.message();
  EXPECT_TRUE(session.run(few, {}).ok()) << "the next run has its own time";
}

// Breaks if what a run makes is not counted, or not given back.
TEST(Limits, MemoryOfARunStaysWithinTheLimit) {
  constexpr int64_t kElements = 1 << 16;
  auto module = load(addModule(0, {}));
  std::vector<float> ones(kElements, 1.0f);
  std::vector<TensorRef> inputs = {floats({kElements}, ones)};
  auto statusOf = [&](int64_t bytes, int runs) {
    Session session(module, 1, {.memoryBytes = bytes});
    Status status;
    for (int i = 0; i < runs && status.ok(); ++i) {
      std::vector<TensorRef> outputs(2);
      status = session.run(inputs, outputs);
    }
    return status;
  };
  // An arena, scratch and an output of 256 KiB each.
  EXPECT_TRUE(statusOf(1 << 20, 50).ok());
  for (int64_t bytes : {1 << 10, 300 << 10, 600 << 10})
    EXPECT_EQ(statusOf(bytes, 1).code(), StatusCode::ResourceExhausted) << bytes;
}

TEST(Limits, AnOutputGivesItsMemoryBackAfterTheSession) {
  TensorRef kept;
  {
    Session session(load(addModule(64, {})), 1, {.memoryBytes = 1 << 20});
    std::vector<float> ones(64, 1.0f);
    std::vector<TensorRef> inputs = {floats({64}, ones)}, outputs(2);
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    kept = outputs[0];
  }
  EXPECT_EQ(floatsOf(kept)[0], 3.0f);
}

} // namespace
