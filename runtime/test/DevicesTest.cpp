// Work on several devices and streams: results don't depend on which is ahead, the failure that is
// told is the first in the plan's order, and a replay makes no memory.
//
// Streams of "separate" are delayed by chance here, so that a wait that isn't done shows.
#include "TestModule.h"

#include "runtime/Device.h"
#include "runtime/ModuleFormat.h"
#include "runtime/Session.h"

#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

namespace tensmith::runtime::test {
namespace {

constexpr int64_t kElements = 8, kBytes = 64;

/// A main function over rows of 8 floats, whose values each have a place of their own.
class StreamedModule {
public:
  StreamedModule() : main_("main") {
    module_.module.devices = {"separate:0", "separate:1"};
    size_ = main_.constant(kElements);
    add_ = module_.kernel("test_add");
  }

  uint32_t param() { return main_.param("x", DataType::F32, {size_}); }
  /// The input in the first device's memory, by instruction 0.
  uint32_t input() {
    uint32_t x = param(), here = value(1);
    copy(x, here, 0, {});
    return here;
  }
  /// The result, which is copied from the device on that stream.
  uint32_t output(uint32_t value, uint32_t stream) {
    uint32_t out = this->value(0, plan::Storage::Result);
    copy(value, out, stream, {});
    return out;
  }

  uint32_t value(uint8_t memory, plan::Storage storage = plan::Storage::Arena) {
    uint64_t place = storage == plan::Storage::Arena ? main_.constant(end_) : 0;
    end_ += storage == plan::Storage::Arena ? kBytes : 0;
    uint32_t value = main_.value("v", DataType::F32, {size_}, storage, place);
    main_.function.values[value]->device = memory;
    return value;
  }

  /// What a branch gives that hands on the second input: in the host's memory, where the plan says
  /// that the branch takes it, or gives it, on a device.
  uint32_t branch(bool isGiven) {
    uint32_t condition = main_.param("c", DataType::Bool, {}), x = param();
    for (const char *name : {"yes", "no"}) {
      FunctionBuilder &one = branches_.emplace_back(name);
      uint32_t handed = one.param("x", DataType::F32, {one.constant(kElements)});
      one.function.values[handed]->device = uint8_t(!isGiven);
      one.function.results = {handed};
    }
    uint32_t given = value(1, plan::Storage::Heap), y = value(0, plan::Storage::Result);
    main_.function.values[given]->device = 1;
    main_.add(plan::Opcode::If, 0, {condition, x}, {given}).functions = {1, 2};
    copy(given, y, 0, {});
    return y;
  }

  /// A vector of no element.
  uint32_t empty(uint8_t memory) {
    uint32_t value = main_.value("v", DataType::F32, {main_.constant(0)}, plan::Storage::Arena,
                                 main_.constant(0));
    main_.function.values[value]->device = memory;
    return value;
  }

  plan::InstructionT &kernel(uint32_t target, std::vector<uint32_t> operands, uint32_t result,
                             uint32_t stream, std::vector<uint32_t> waits) {
    return put(main_.add(plan::Opcode::Kernel, target, std::move(operands), {result}, {size_}),
               stream, std::move(waits));
  }
  plan::InstructionT &add(uint32_t a, uint32_t b, uint32_t result, uint32_t stream,
                          std::vector<uint32_t> waits) {
    return kernel(add_, {a, b}, result, stream, std::move(waits));
  }
  plan::InstructionT &copy(uint32_t from, uint32_t to, uint32_t stream,
                           std::vector<uint32_t> waits) {
    return put(main_.add(plan::Opcode::Copy, 0, {from}, {to}), stream, std::move(waits));
  }
  uint32_t instructions() const { return uint32_t(main_.function.instructions.size()); }

  /// The module's file, whose main was changed.
  Bytes file(std::vector<uint32_t> results, void (*change)(plan::FunctionT &) = nullptr) {
    main_.function.results = std::move(results);
    uint32_t bytes = main_.constant(std::max(end_, kBytes));
    main_.function.arena_bytes = bytes;
    main_.function.device_arenas = {bytes, bytes};
    if (change)
      change(main_.function);
    module_.add(std::move(main_));
    for (FunctionBuilder &branch : branches_)
      module_.add(std::move(branch));
    return module_.finish();
  }
  std::shared_ptr<const Module> load(std::vector<uint32_t> results) {
    return test::load(file(std::move(results)));
  }

  ModuleBuilder &module() { return module_; }

private:
  plan::InstructionT &put(plan::InstructionT &instruction, uint32_t stream,
                          std::vector<uint32_t> waits) {
    instruction.stream = stream;
    instruction.waits = std::move(waits);
    return instruction;
  }

  ModuleBuilder module_;
  FunctionBuilder main_;
  std::vector<FunctionBuilder> branches_;
  uint32_t size_, add_;
  int64_t end_ = 0;
};

class Devices : public testing::Test {
protected:
  static void SetUpTestSuite() { setenv("TENSMITH_SEPARATE_DELAYS", "200", 0); }
};

/// Sums of random earlier values, each on a random device and stream, with a wait for each operand
/// that another stream makes.
class RandomSums {
public:
  explicit RandomSums(unsigned seed) : random_(seed) {
    uint32_t x = streamed_.param();
    made_.push_back({{x, kNone, kNone}, {kNone, kNone, kNone}, 1});
    for (int sum = 0; sum < 12; ++sum)
      addSum();
    uint32_t y = streamed_.value(0, plan::Storage::Result);
    uint32_t last = uint32_t(made_.size() - 1);
    streamed_.copy(on(last, device_), y, 3, {made_[last].makers[device_]});
    module = streamed_.load({y});
  }

  /// The last sum, as a multiple of the input.
  double factor() const { return made_.back().factor; }
  std::shared_ptr<const Module> module;

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Made {
    std::array<uint32_t, 3> values, makers; // in each memory
    double factor;
  };

  uint32_t stream() { return random_() % 4; }

  /// The value in that memory, by copies by way of the host.
  uint32_t on(uint32_t number, uint8_t memory) {
    Made one = made_[number];
    if (one.values[memory] != kNone)
      return one.values[memory];
    uint8_t from = 0;
    if (memory == 0)
      from = one.values[1] != kNone ? 1 : 2;
    else if (one.values[0] == kNone)
      on(number, 0);
    one = made_[number];
    uint32_t copy = streamed_.value(memory);
    std::vector<uint32_t> waits;
    if (one.makers[from] != kNone)
      waits = {one.makers[from]};
    made_[number].makers[memory] = streamed_.instructions();
    made_[number].values[memory] = copy;
    streamed_.copy(one.values[from], copy, stream(), waits);
    return copy;
  }

  void addSum() {
    device_ = 1 + random_() % 2;
    Made sum = {{kNone, kNone, kNone}, {kNone, kNone, kNone}, 0};
    std::vector<uint32_t> operands, waits;
    for (int i = 0; i < 2; ++i) {
      auto number = uint32_t(random_() % made_.size());
      if (number + 3 < made_.size())
        number = uint32_t(made_.size() - 1 - number % 3);
      operands.push_back(on(number, device_));
      waits.push_back(made_[number].makers[device_]);
      sum.factor += made_[number].factor;
    }
    sum.values[device_] = streamed_.value(device_);
    sum.makers[device_] = streamed_.instructions();
    streamed_.add(operands[0], operands[1], sum.values[device_], stream(), waits);
    made_.push_back(sum);
  }

  std::mt19937 random_;
  StreamedModule streamed_;
  std::vector<Made> made_;
  uint8_t device_ = 1;
};

TEST_F(Devices, SumsOfRandomGraphsAreThoseOfTheHost) {
  TensorRef x = floats({kElements}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomSums sums(seed);
    ASSERT_TRUE(sums.module) << seed;
    Session session(sums.module, 1);
    for (int run = 0; run < 3; ++run) {
      std::vector<TensorRef> outputs(1);
      Status status = session.run(std::array{x}, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<float> given = floatsOf(outputs[0]);
      for (int64_t i = 0; i < kElements; ++i)
        ASSERT_EQ(given[size_t(i)], float(sums.factor() * double(i + 1))) << seed;
    }
  }
}

/// Two checks on streams of their own, of which the later in the plan has less to wait for.
class DeviceFailures : public Devices, public testing::WithParamInterface<const char *> {};

TEST_P(DeviceFailures, TheFirstOfThePlanIsTold) {
  StreamedModule streamed;
  uint32_t first = streamed.module().kernel(GetParam(), {"the first: element {}"});
  uint32_t second = streamed.module().kernel("test_check", {"the second: element {}"});
  uint32_t here = streamed.input();
  uint32_t slow = streamed.value(1), slower = streamed.value(1);
  streamed.add(here, here, slow, 1, {0});
  streamed.add(slow, here, slower, 1, {});
  uint32_t one = slower, two = streamed.value(1), y = streamed.value(1);
  uint32_t checked = streamed.value(1);
  streamed.kernel(first, {slower}, checked, 1, {});
  streamed.kernel(second, {here}, two, 2, {0});
  streamed.add(one, two, y, 1, {4});
  auto module = streamed.load({streamed.output(y, 1)});
  ASSERT_TRUE(module);
  Session session(module, 1);
  TensorRef bad = floats({kElements}, {1, 2, 3, -4, 5, 6, 7, 8});
  TensorRef good = floats({kElements}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (int run = 0; run < 20; ++run) {
    std::vector<TensorRef> outputs(1);
    Status status = session.run(std::array{bad}, outputs);
    EXPECT_NE(status.message().find("the first: element 3"), std::string::npos) << status.message();
    EXPECT_TRUE(session.run(std::array{good}, outputs).ok());
    EXPECT_EQ(floatsOf(outputs[0]), (std::vector<float>{4, 8, 12, 16, 20, 24, 28, 32}));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, DeviceFailures,
                         testing::Values("test_check", "test_check_within"));

TEST_F(Devices, AKernelThatIsGivenAnotherDevicesMemoryIsNotCalled) {
  StreamedModule streamed;
  uint32_t here = streamed.input(), y = streamed.value(1);
  streamed.add(here, here, y, 0, {});
  auto module = streamed.load({streamed.output(y, 0)});
  ASSERT_TRUE(module);
  Session session(module, 1);
  auto frame = session.makeFrame(0);
  // The verifier lets no plan do this, so the frame is told.
  Device *own = openDevice("separate:0"), *other = openDevice("separate:1");
  ASSERT_TRUE(own && other);
  ASSERT_NE(own, other);
  std::byte *foreign = other->allocate(kBytes), *inside = own->allocate(kBytes);
  std::array<void *, 3> operands = {inside, foreign, inside};
  std::array<int64_t, 1> sizes = {kElements};
  TensmithCall call = frame->calls[0];
  call.operands = operands.data();
  call.sizes = sizes.data();
  auto *context = static_cast<KernelContext *>(call.context);
  Failures failures;
  auto never = [](const TensmithCall *) -> int32_t { std::abort(); };
  waitFor(own->launch(0, {never, &call, 3, 1, 7, &failures}, {}));
  EXPECT_EQ(failures.first(), 7u);
  EXPECT_EQ(context->code, TENSMITH_FAIL_OUTSIDE);
  EXPECT_EQ(context->detail, 1);
  other->free(foreign);
  own->free(inside);
}

TEST_F(Devices, AKernelThatGoesOnForeverIsStopped) {
  StreamedModule streamed;
  uint32_t endless = streamed.module().kernel("test_endless");
  uint32_t here = streamed.input(), y = streamed.value(1);
  streamed.kernel(endless, {here}, y, 0, {});
  auto module = streamed.load({streamed.output(y, 0)});
  ASSERT_TRUE(module);
  Limits limits;
  limits.seconds = 0.05;
  Session session(module, 1, limits);
  std::vector<TensorRef> outputs(1);
  Status status =
      session.run(std::array{floats({kElements}, std::vector<float>(kElements))}, outputs);
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted) << status.message();
}

/// A branch that takes for a device's what is handed to it from the host's memory, and one that
/// gives so.
TEST_F(Devices, WhatLiesElsewhereThanThePlanSaysIsAnError) {
  for (bool isGiven : {false, true}) {
    StreamedModule streamed;
    uint32_t y = streamed.branch(isGiven);
    auto module = streamed.load({y});
    ASSERT_TRUE(module);
    Session session(module, 1);
    std::vector<TensorRef> outputs(1);
    std::array inputs = {*Tensor::create(DataType::Bool, {}),
                         floats({kElements}, std::vector<float>(kElements))};
    *inputs[0]->data() = std::byte(1);
    Status status = session.run(inputs, outputs);
    EXPECT_NE(status.message().find("in another memory"), std::string::npos) << status.message();
  }
}

/// The last kernel waits for the one before it alone, which has nothing to compute.
TEST_F(Devices, WhatHasNothingToComputeIsWaitedThrough) {
  StreamedModule streamed;
  uint32_t here = streamed.input(), last = here;
  for (int i = 0; i < 6; ++i) { // of a stream that is late each time
    uint32_t next = streamed.value(1);
    streamed.add(last, here, next, 0, {});
    last = next;
  }
  uint32_t nothing = streamed.empty(1), sum = streamed.value(1);
  streamed.add(last, here, nothing, 1, {6});
  streamed.add(last, last, sum, 2, {7});
  auto module = streamed.load({streamed.output(sum, 2)});
  ASSERT_TRUE(module);
  Session session(module, 1);
  TensorRef input = floats({kElements}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (int run = 0; run < 10; ++run) {
    std::vector<TensorRef> outputs(1);
    ASSERT_TRUE(session.run(std::array{input}, outputs).ok());
    EXPECT_EQ(floatsOf(outputs[0]), (std::vector<float>{14, 28, 42, 56, 70, 84, 98, 112}));
  }
}

/// What a file could say that no compiler does.
TEST_F(Devices, PlansThatMixUpMemoriesOrStreamsAreRefused) {
  using Change = void (*)(plan::FunctionT &);
  const std::pair<Change, const char *> kChanges[] = {
      {[](plan::FunctionT &f) { f.values[1]->device = 3; }, "the module is not for"},
      {[](plan::FunctionT &f) { f.values[1]->device = 2; }, "different memories"},
      {[](plan::FunctionT &f) { f.device_arenas.push_back(0); }, "more devices than there are"},
      {[](plan::FunctionT &f) { f.device_arenas[1] = 1000; }, "arena on device 2"},
      {[](plan::FunctionT &f) { f.device_arenas.clear(); }, "in an arena"},
      {[](plan::FunctionT &f) { f.instructions[1]->stream = kAbsent; }, "on no stream"},
      {[](plan::FunctionT &f) { f.instructions[0]->stream = kAbsent; }, "on no stream"},
      {[](plan::FunctionT &f) { f.instructions[1]->waits = {1}; }, "on no stream before"},
      {[](plan::FunctionT &f) { f.results = {2}; }, "output 0 is not the host's"},
  };
  for (auto [change, said] : kChanges) {
    StreamedModule streamed;
    uint32_t here = streamed.input(), sum = streamed.value(1);
    streamed.add(here, here, sum, 0, {});
    auto loaded = Module::loadBytes(streamed.file({streamed.output(sum, 0)}, change), {});
    EXPECT_EQ(loaded.status().code(), StatusCode::InvalidModule) << said;
    EXPECT_NE(loaded.status().message().find(said), std::string::npos) << loaded.status().message();
  }
}

/// A plan that says that the caller's tensors are the device's has them nowhere else.
TEST_F(Devices, ResidentPlansWithTensorsOfTheHostAreRefused) {
  StreamedModule streamed;
  uint32_t here = streamed.input(), sum = streamed.value(1);
  streamed.add(here, here, sum, 0, {});
  streamed.module().module.resident = true;
  auto loaded = Module::loadBytes(streamed.file({streamed.output(sum, 0)}), {});
  EXPECT_EQ(loaded.status().code(), StatusCode::InvalidModule);
  EXPECT_NE(loaded.status().message().find("input 0 is not the first device's"), std::string::npos)
      << loaded.status().message();
}

TEST_F(Devices, ADeviceThatIsNotThere) {
  for (const char *name : {"separate:99", "separate:x", "separate:", "none", "../x", ""})
    EXPECT_EQ(openDevice(name), nullptr) << name;
}

} // namespace
} // namespace tensmith::runtime::test
