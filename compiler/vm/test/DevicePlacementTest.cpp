// Where values lie in plans for a device, which copies there are, and that a plan that lacks one is
// refused. What runs of such plans give is compared in tests/python/test_devices.py.
#include "compiler/vm/test/PlannedFunction.h"
#include "runtime/ModuleFormat.h"

namespace tensmith::vm {
namespace {

using plan::Opcode;

const char *const kRow = "tensor<4x4xf32>";

/// Text with "$r" for a tensor of 4 x 4 floats and "$i" for two integers, and "%a = $k(%b)" for a
/// kernel of it.
std::string expand(std::string text) {
  for (auto [from, to] : {std::pair<std::string, std::string>("$r", kRow), {"$i", "tensor<2xi64>"}})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, 2, to);
  return text;
}

std::string kernel(const std::string &result, const std::string &operand, const std::string &type,
                   const std::string &op) {
  return result + " = graph.kernel " + operand + " {label = \"" + result +
         "\", kind = \"loops\"} : (" + type + ") -> " + type + " {\n^bb0(%a: " + type +
         "):\n%r = " + op + " %a : (" + type + ") -> " + type + "\ngraph.yield %r : " + type +
         "\n}\n";
}

/// What a call of main does: "copy to device", "kernel", ...
std::vector<std::string> steps(const PlannedFunction &planned) {
  std::vector<std::string> steps;
  for (const auto &instruction : planned.main().instructions) {
    uint8_t device = planned.main().values[instruction->results[0]]->device;
    steps.push_back(std::string(plan::EnumNameOpcode(instruction->opcode)) +
                    (device == 0   ? " host"
                     : device == 1 ? " device"
                                   : " device " + std::to_string(device)));
  }
  return steps;
}

Status verify(const plan::ModuleT &module, int64_t weights) {
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &module));
  return runtime::verifyPlan(
             std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())),
             uint64_t(weights))
      .status();
}

using Steps = std::vector<std::string>;

TEST(DevicePlacement, OneCopyForAllReadersAndOneForTheOutput) {
  PlannedFunction planned(
      expand("func.func @main(%x: $r) -> $r {\n" + kernel("%0", "%x", kRow, "graph.abs") +
             kernel("%1", "%x", kRow, "graph.exp") + "%2 = graph.add %0, %1 : ($r, $r) -> $r\n" +
             kernel("%3", "%2", kRow, "graph.neg") + "return %3 : $r\n}\n"),
      {"separate"});
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  // The sum is a routine here: the host's.
  EXPECT_EQ(steps(planned),
            (Steps{"Copy device", "Kernel device", "Copy host", "Kernel device", "Copy host",
                   "Routine host", "Copy device", "Kernel device", "Copy host"}));
}

TEST(DevicePlacement, WithoutADeviceNothingChanges) {
  std::string text = expand("func.func @main(%x: $r) -> $r {\n" +
                            kernel("%0", "%x", kRow, "graph.abs") + "return %0 : $r\n}\n");
  EXPECT_EQ(steps(PlannedFunction(text)), Steps{"Kernel host"});
}

TEST(DevicePlacement, ArithmeticOfShapesStaysOnTheHost) {
  PlannedFunction planned(expand("func.func @main(%x: $i, %y: $r) -> ($i, $r) {\n" +
                                 kernel("%0", "%x", "tensor<2xi64>", "graph.neg") +
                                 kernel("%1", "%0", "tensor<2xi64>", "graph.abs") +
                                 kernel("%2", "%y", kRow, "graph.neg") +
                                 "return %1, %2 : $i, $r\n}\n"),
                          {"separate"});
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(steps(planned),
            (Steps{"Copy device", "Kernel host", "Kernel host", "Kernel device", "Copy host"}));
}

// Each copy taken away in turn, so that its readers get what it was made of: never a valid plan.
TEST(DevicePlacement, APlanThatLacksACopyIsRefused) {
  PlannedFunction planned(
      expand("func.func @main(%x: $r) -> ($r, $r) {\n" + kernel("%0", "%x", kRow, "graph.abs") +
             "%v = graph.reshape %0 : ($r) -> tensor<16xf32>\n" +
             kernel("%1", "%v", "tensor<16xf32>", "graph.exp") +
             "%w = graph.reshape %1 : (tensor<16xf32>) -> $r\n" +
             kernel("%2", "%w", kRow, "graph.neg") + "return %0, %2 : $r, $r\n}\n"),
      {"separate"});
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  int64_t copies = 0;
  for (size_t i = 0; i < planned.main().instructions.size(); ++i) {
    if (planned.instruction(i).opcode != Opcode::Copy)
      continue;
    ++copies;
    plan::ModuleT broken = planned.unpacked;
    plan::FunctionT &main = *broken.functions[0];
    uint32_t from = main.instructions[i]->operands[0], to = main.instructions[i]->results[0];
    main.instructions.erase(main.instructions.begin() + long(i));
    for (auto &instruction : main.instructions) {
      std::ranges::replace(instruction->operands, to, from);
      std::erase(instruction->releases, to);
    }
    std::ranges::replace(main.results, to, from);
    for (auto &port : broken.outputs)
      port->value = port->value == to ? from : port->value;
    Status status = verify(broken, planned.plan.weightsBytes);
    EXPECT_EQ(status.code(), StatusCode::InvalidModule);
  }
  EXPECT_EQ(copies, 3);
}

/// Two devices, and kernels on them in turn.
PlannedFunction inTurn(const std::string &text) {
  return PlannedFunction(text, {"separate:0", "separate:1"},
                         [](uint32_t kernel, uint32_t devices) { return 1 + kernel % devices; });
}

TEST(DevicePlacement, FromDeviceToDeviceByWayOfTheHost) {
  PlannedFunction planned =
      inTurn(expand("func.func @main(%x: $r) -> $r {\n" + kernel("%0", "%x", kRow, "graph.abs") +
                    kernel("%1", "%0", kRow, "graph.exp") + "return %1 : $r\n}\n"));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(steps(planned), (Steps{"Copy device", "Kernel device", "Copy host", "Copy device 2",
                                   "Kernel device 2", "Copy host"}));
  auto reason = [&](size_t i) {
    return planned.unpacked.locations[planned.instruction(i).location];
  };
  EXPECT_TRUE(reason(2).ends_with("to the host for another device")) << reason(2);
  EXPECT_TRUE(reason(3).ends_with("to separate:1 for kernel '%1'")) << reason(3);
}

/// The devices of a chain of kernels, whose kinds are given.
std::vector<int> devicesOfChain(const std::vector<std::string> &kinds,
                                std::vector<std::string> devices,
                                std::function<double(double, double, bool)> cycles = nullptr) {
  std::string text = "func.func @main(%x: $r) -> $r {\n", last = "%x";
  for (size_t i = 0; i < kinds.size(); ++i) {
    std::string next = "%" + std::to_string(i), one = kernel(next, last, kRow, "graph.abs");
    text += one.replace(one.find("loops"), 5, kinds[i]);
    last = next;
  }
  PlannedFunction planned(expand(text + "return " + last + " : $r\n}\n"), std::move(devices),
                          nullptr, std::move(cycles));
  EXPECT_TRUE(planned.ok()) << planned.status.message();
  std::vector<int> result;
  for (const auto &instruction : planned.main().instructions)
    if (instruction->opcode == Opcode::Kernel)
      result.push_back(planned.main().values[instruction->results[0]]->device);
  return result;
}

// Of kernels that take as long each device gets as many, those that follow one another.
TEST(DevicePlacement, EachDeviceGetsAStretchOfTheKernels) {
  EXPECT_EQ(devicesOfChain(std::vector<std::string>(6, "loops"),
                           {"separate:0", "separate:1", "separate:2"}),
            (std::vector{1, 1, 2, 2, 3, 3}));
}

// Breaks if kernels are shared out by another measure than what the cost model says of each.
TEST(DevicePlacement, KernelsThatTakeLongerAreFewerOfADevice) {
  EXPECT_EQ(devicesOfChain({"contraction", "loops", "loops", "loops"}, {"separate:0", "separate:1"},
                           [](double, double, bool multiplies) { return multiplies ? 3 : 1; }),
            (std::vector{1, 2, 2, 2}));
}

TEST(DevicePlacement, ReasonsNameInputAndReader) {
  PlannedFunction planned(expand("func.func @main(%x: $r {graph.name = \"pixels\"}) -> $r {\n" +
                                 kernel("%0", "%x", kRow, "graph.abs") + "return %0 : $r\n}\n"),
                          {"separate"});
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(planned.unpacked.locations[planned.instruction(0).location],
            "copy of input 'pixels' to the device for kernel '%0'");
}

} // namespace
} // namespace tensmith::vm
