// Plans without kernels, run by the runtime, against the evaluation of the graph that they are of.
//
// Both evaluate each operator by the same reference, so what is compared is all the rest: control
// flow and what it captures, sizes that the run tells, views, lifetimes, and who owns what is
// handed out.
#include "compiler/graph/Evaluate.h"
#include "compiler/vm/test/PlannedRun.h"

namespace tensmith::vm {
namespace {

const char *const kN = "tensor<?xf32, #graph.dims<[\"n\"], ()[s0] -> (s0)>>";

/// Text with "$n" for a vector of n floats, "$f" for one float, "$b" for one boolean.
std::string expand(std::string text) {
  for (auto [from, to] : {std::pair("$n", kN), std::pair("$f", "tensor<f32>"),
                          std::pair("$b", "tensor<i1>"), std::pair("$i", "tensor<i64>")})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, 2, to);
  return text;
}

HostTensor floats(Shape shape, std::vector<float> values) {
  return HostTensor::of<float>(DataType::F32, std::move(shape), values);
}
HostTensor ramp(int64_t size) {
  HostTensor tensor(DataType::F32, {size});
  for (int64_t i = 0; i < size; ++i)
    tensor.setDouble(i, i % 3 == 2 ? 0.0 : double(i) - 1.5);
  return tensor;
}
HostTensor scalar(DataType type, int64_t value) {
  HostTensor tensor(type, {});
  tensor.setInt(0, value);
  return tensor;
}

/// One plan, one session, all the inputs one after the other: what a run leaves behind must not be
/// seen by the next.
void check(const std::string &text, const std::vector<std::vector<HostTensor>> &runs) {
  PlannedFunction planned(expand(text));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  auto module = load(planned);
  ASSERT_TRUE(module);
  runtime::Session session(module, 1);
  for (const auto &inputs : runs) {
    SCOPED_TRACE("run " + std::to_string(&inputs - runs.data()));
    std::vector<runtime::TensorRef> given;
    for (const HostTensor &input : inputs)
      given.push_back(*runtime::fromHostTensor(input));
    std::vector<runtime::TensorRef> outputs(planned.main().results.size());
    Status status = session.run(given, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    auto expected = graph::evaluate(planned.function, {inputs.begin(), inputs.end()});
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (size_t i = 0; i < outputs.size(); ++i)
      expectEqual(runtime::toHostTensor(outputs[i]), (*expected)[i].tensor);
  }
}

TEST(RoutineExecution, StraightLineAtSeveralSizes) {
  check(R"(func.func @main(%x: $n, %s: $f) -> ($n, $f) {
    %0 = graph.mul %x, %s : ($n, $f) -> $n
    %1 = graph.exp %0 : ($n) -> $n
    %2 = graph.add %1, %x : ($n, $n) -> $n
    %3 = graph.reduce_sum %2 {axes = array<i64: 0>, keepdims = false} : ($n) -> $f
    return %2, %3 : $n, $f
  })",
        {{ramp(5), floats({}, {0.5f})},
         {ramp(0), floats({}, {2})},
         {ramp(1), floats({}, {2})},
         {ramp(64), floats({}, {-1})}});
}

// An input, a constant, views of both, and one value twice: each output has memory of its own.
TEST(RoutineExecution, HandsOutWhateverTheGraphNames) {
  check(R"(func.func @main(%x: tensor<6xf32>) ->
      (tensor<6xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2x1xf32>, tensor<6xf32>, tensor<6xf32>, tensor<3x2xf32>) {
    %c = graph.constant {value = dense<[7.0, 8.0]> : tensor<2xf32>} : () -> tensor<2xf32>
    %xv = graph.reshape %x : (tensor<6xf32>) -> tensor<2x3xf32>
    %cv = graph.reshape %c : (tensor<2xf32>) -> tensor<2x1xf32>
    %y = graph.neg %x : (tensor<6xf32>) -> tensor<6xf32>
    %yv = graph.reshape %y : (tensor<6xf32>) -> tensor<3x2xf32>
    return %x, %xv, %c, %cv, %y, %y, %yv
      : tensor<6xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2x1xf32>, tensor<6xf32>, tensor<6xf32>, tensor<3x2xf32>
  })",
        {{ramp(6)}, {floats({6}, {1, 2, 3, 4, 5, 6})}});
}

TEST(RoutineExecution, BranchesSeeValuesConstantsAndSizesFromOutside) {
  check(R"(func.func @main(%c: $b, %x: $n, %z: $n) -> ($n, $n) {
    %k = graph.constant {value = dense<10.0> : $f} : () -> $f
    %0 = graph.neg %x : ($n) -> $n
    %y:2 = graph.if %c : ($b) -> ($n, $n) {
      %1 = graph.add %0, %k : ($n, $f) -> $n
      %2 = graph.mul %1, %x : ($n, $n) -> $n
      graph.yield %2, %0 : $n, $n
    } else {
      graph.yield %z, %z : $n, $n
    }
    %3 = graph.add %y#0, %0 : ($n, $n) -> $n
    return %3, %y#1 : $n, $n
  })",
        {{scalar(DataType::Bool, 1), ramp(4), ramp(4)},
         {scalar(DataType::Bool, 0), ramp(4), ramp(4)},
         {scalar(DataType::Bool, 0), ramp(9), ramp(9)},
         {scalar(DataType::Bool, 1), ramp(0), ramp(0)}});
}

const char *const kLoop =
    R"(func.func @main(%trips: $i, %x: $n) -> ($n, tensor<?x?xf32, #graph.dims<["n", "trips"], ()[s0, s1] -> (s1, s0)>>) {
    %none = graph.none : none
    %k = graph.neg %x : ($n) -> $n
    %y:2 = graph.loop %trips, %none, %x : ($i, none, $n) -> ($n, tensor<?x?xf32, #graph.dims<["n", "trips"], ()[s0, s1] -> (s1, s0)>>) {
    ^bb0(%i: $i, %go: $b, %carried: $n):
      %f = graph.cast %i {to = f32} : ($i) -> $f
      %0 = graph.add %carried, %f : ($n, $f) -> $n
      %1 = graph.mul %0, %k : ($n, $n) -> $n
      graph.yield %go, %0, %1 : $b, $n, $n
    }
    return %y#0, %y#1 : $n, tensor<?x?xf32, #graph.dims<["n", "trips"], ()[s0, s1] -> (s1, s0)>>
  })";

TEST(RoutineExecution, LoopCarriesScansAndCaptures) {
  check(kLoop, {{scalar(DataType::I64, 3), ramp(4)},
                {scalar(DataType::I64, 1), ramp(4)},
                {scalar(DataType::I64, 6), ramp(2)}});
}

TEST(RoutineExecution, LoopStopsWhenItsConditionFails) {
  check(R"(func.func @main(%limit: $f, %x: $f) -> $f {
    %none = graph.none : none
    %start = graph.less %x, %limit : ($f, $f) -> $b
    %y = graph.loop %none, %start, %x : (none, $b, $f) -> $f {
    ^bb0(%i: $i, %go: $b, %carried: $f):
      %0 = graph.add %carried, %carried : ($f, $f) -> $f
      %1 = graph.less %0, %limit : ($f, $f) -> $b
      graph.yield %1, %0 : $b, $f
    }
    return %y : $f
  })",
        {{floats({}, {100}), floats({}, {1})},
         {floats({}, {100}), floats({}, {200})},
         {floats({}, {3}), floats({}, {1})}});
}

// The inner branch captures through two levels, and the loop's body captures what only it needs.
TEST(RoutineExecution, NestedRegionsCaptureThroughLevels) {
  check(R"(func.func @main(%trips: $i, %x: $n, %b: $b) -> $n {
    %none = graph.none : none
    %k = graph.neg %x : ($n) -> $n
    %y = graph.loop %trips, %none, %x : ($i, none, $n) -> $n {
    ^bb0(%i: $i, %go: $b, %carried: $n):
      %0 = graph.if %b : ($b) -> $n {
        %1 = graph.add %carried, %k : ($n, $n) -> $n
        graph.yield %1 : $n
      } else {
        %2 = graph.mul %carried, %carried : ($n, $n) -> $n
        graph.yield %2 : $n
      }
      graph.yield %go, %0 : $b, $n
    }
    return %y : $n
  })",
        {{scalar(DataType::I64, 2), ramp(3), scalar(DataType::Bool, 1)},
         {scalar(DataType::I64, 3), ramp(5), scalar(DataType::Bool, 0)},
         {scalar(DataType::I64, 0), ramp(5), scalar(DataType::Bool, 0)}});
}

// The same symbol has another value in each run, and a view is taken of what it sizes.
TEST(RoutineExecution, SizesThatTheRunTells) {
  check(R"(func.func @main(%x: $n) -> (tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>, $i) {
    %0 = graph.nonzero %x : ($n) -> tensor<1x?xi64, #graph.dims<["found"], ()[s0] -> (1, s0)>>
    %1 = graph.reshape %0 : (tensor<1x?xi64, #graph.dims<["found"], ()[s0] -> (1, s0)>>) -> tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>
    %2 = graph.add %1, %1 : (tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>) -> tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>
    %3 = graph.reduce_sum %2 {axes = array<i64: 0>, keepdims = false} : (tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>) -> $i
    return %2, %3 : tensor<?xi64, #graph.dims<["found"], ()[s0] -> (s0)>>, $i
  })",
        {{ramp(7)}, {ramp(1)}, {ramp(0)}, {ramp(30)}});
}

TEST(RoutineExecution, SequencesKeepTheirElements) {
  check(R"(func.func @main(%x: $n, %at: $i) -> $n {
    %none = graph.none : none
    %0 = graph.neg %x : ($n) -> $n
    %s = graph.sequence_construct %x, %0 {element = $n} : ($n, $n) -> !graph.sequence<$n>
    %1 = graph.exp %0 : ($n) -> $n
    %t = graph.sequence_insert %s, %1, %none : (!graph.sequence<$n>, $n, none) -> !graph.sequence<$n>
    %y = graph.sequence_at %t, %at : (!graph.sequence<$n>, $i) -> $n
    return %y : $n
  })",
        {{ramp(3), scalar(DataType::I64, 0)},
         {ramp(3), scalar(DataType::I64, 1)},
         {ramp(4), scalar(DataType::I64, -1)}});
}

// An error of a routine names the node and the model.
TEST(RoutineExecution, ErrorsNameTheNode) {
  PlannedFunction planned(expand(R"(func.func @main(%x: $n, %at: $i) -> $n {
    %s = graph.sequence_construct %x {element = $n} : ($n) -> !graph.sequence<$n>
    %y = graph.sequence_at %s, %at : (!graph.sequence<$n>, $i) -> $n loc("pick")
    return %y : $n
  })"));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  runtime::Session session(load(planned), 1);
  std::vector<runtime::TensorRef> inputs{*runtime::fromHostTensor(ramp(3)),
                                         *runtime::fromHostTensor(scalar(DataType::I64, 5))},
      outputs(1);
  Status status = session.run(inputs, outputs);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message().rfind("test.onnx: node 'pick': ", 0), 0u) << status.message();
}

} // namespace
} // namespace tensmith::vm
