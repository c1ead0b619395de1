// Upper bounds: that no operator's result is larger than its shape function says, whatever the
// operands hold, and that memory is set aside by them.
//
// Each operator that has bounds runs on random operands of random sizes, in one session, and what
// it gives is used by another one, so that it lies in the arena. A result that is larger than what
// was set aside would get memory of its own, so what was is computed here too.
#include "compiler/graph/Evaluate.h"
#include "compiler/vm/test/PlannedRun.h"
#include "runtime/ModuleFormat.h"

#include <random>

namespace tensmith::vm {
namespace {

constexpr const char *kMatrix =
    "tensor<?x?xf32, #graph.dims<[\"m\", \"n\"], ()[s0, s1] -> (s1, s0)>>";
constexpr const char *kVector = "tensor<?xf32, #graph.dims<[\"n\"], ()[s0] -> (s0)>>";
constexpr const char *kFlags = "tensor<?xi1, #graph.dims<[\"n\"], ()[s0] -> (s0)>>";
constexpr const char *kImage = "tensor<1x2x?xf32, #graph.dims<[\"n\"], ()[s0] -> (1, 2, s0)>>";

/// Text with "$m" for a matrix [n, m], "$n" for a vector of n, "$b" for n booleans, "$p" for an
/// image of n pixels, and "$t(a)" for a vector of a size of its own.
std::string expand(std::string text) {
  for (auto [from, to] : {std::pair("$m", kMatrix), std::pair("$n", kVector),
                          std::pair("$b", kFlags), std::pair("$p", kImage)})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, 2, to);
  return text;
}

using Random = std::mt19937;

int64_t draw(Random &random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

/// Numbers of which some are zero and some are equal; `share` of ten are not zero.
HostTensor numbers(Random &random, DataType type, Shape shape, int64_t share) {
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setDouble(i, draw(random, 1, 10) <= share ? double(draw(random, 1, 5)) : 0);
  return tensor;
}

HostTensor integer(int64_t value, Shape shape = {}) {
  HostTensor tensor(DataType::I64, std::move(shape));
  tensor.setInt(0, value);
  return tensor;
}

using Inputs = std::vector<HostTensor>;

/// Sizes n and m, and of ten elements how many are not zero.
struct Draw {
  Random &random;
  int64_t n, m, share;
};

struct Case {
  const char *name, *text;
  Inputs (*inputs)(const Draw &);
};

Inputs matrix(const Draw &draw) {
  return {numbers(draw.random, DataType::F32, {draw.n, draw.m}, draw.share)};
}
Inputs image(const Draw &draw) {
  return {numbers(draw.random, DataType::F32, {1, 2, draw.n + 3}, draw.share)};
}

const Case kCases[] = {
    {"nonzero",
     R"(func.func @main(%x: $m) -> tensor<2x?xi64, #graph.dims<["k"], ()[s0] -> (2, s0)>> {
       %y = graph.nonzero %x : ($m) -> tensor<2x?xi64, #graph.dims<["k"], ()[s0] -> (2, s0)>>
       %z = graph.neg %y : (tensor<2x?xi64, #graph.dims<["k"], ()[s0] -> (2, s0)>>) -> tensor<2x?xi64, #graph.dims<["k"], ()[s0] -> (2, s0)>>
       return %z : tensor<2x?xi64, #graph.dims<["k"], ()[s0] -> (2, s0)>>
     })",
     matrix},
    {"compress",
     R"(func.func @main(%x: $n, %c: $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>> {
       %y = graph.compress %x, %c {axis = 0} : ($n, $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       %z = graph.neg %y : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       return %z : tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
     })",
     [](const Draw &draw) -> Inputs {
       HostTensor condition = numbers(draw.random, DataType::Bool, {draw.n}, 10);
       for (int64_t i = 0; i < draw.n; ++i)
         condition.setInt(i, std::uniform_int_distribution<int>(1, 10)(draw.random) <= draw.share);
       return {numbers(draw.random, DataType::F32, {draw.n}, 10), condition};
     }},
    {"compress",
     R"(func.func @main(%x: $m, %c: $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>> {
       %y = graph.compress %x, %c : ($m, $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       %z = graph.neg %y : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       return %z : tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
     })",
     [](const Draw &draw) -> Inputs {
       int64_t m = std::max<int64_t>(draw.m, 1); // as many conditions as there are rows
       return {numbers(draw.random, DataType::F32, {draw.n, m}, 10),
               numbers(draw.random, DataType::Bool, {draw.n}, draw.share)};
     }},
    {"topk", R"(func.func @main(%x: $m, %k: tensor<i64>) ->
         (tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>, tensor<?x?xi64, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>) {
       %y:2 = graph.topk %x, %k {axis = 1} : ($m, tensor<i64>) ->
         (tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>, tensor<?x?xi64, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>)
       %a = graph.neg %y#0 : (tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>) -> tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>
       %b = graph.neg %y#1 : (tensor<?x?xi64, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>) -> tensor<?x?xi64, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>
       return %a, %b : tensor<?x?xf32, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>, tensor<?x?xi64, #graph.dims<["k", "n"], ()[s0, s1] -> (s1, s0)>>
     })",
     [](const Draw &draw) -> Inputs {
       return {numbers(draw.random, DataType::F32, {draw.n, draw.m}, 9),
               integer(draw.m * draw.share / 10)};
     }},
    {"unique", R"(func.func @main(%x: $m) -> (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>,
         tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["m", "n"], ()[s0, s1] -> (s0 * s1)>>) {
       %y:4 = graph.unique %x : ($m) -> (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>,
         tensor<?xi64, #graph.dims<["m", "n"], ()[s0, s1] -> (s0 * s1)>>, tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>)
       %a = graph.neg %y#0 : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       %b = graph.add %y#1, %y#3 : (tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>
       %c = graph.neg %y#2 : (tensor<?xi64, #graph.dims<["m", "n"], ()[s0, s1] -> (s0 * s1)>>) -> tensor<?xi64, #graph.dims<["m", "n"], ()[s0, s1] -> (s0 * s1)>>
       return %a, %b, %c : tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xi64, #graph.dims<["m", "n"], ()[s0, s1] -> (s0 * s1)>>
     })",
     matrix},
    {"non_max_suppression",
     R"(func.func @main(%boxes: tensor<1x?x4xf32, #graph.dims<["n"], ()[s0] -> (1, s0, 4)>>,
         %scores: tensor<1x2x?xf32, #graph.dims<["n"], ()[s0] -> (1, 2, s0)>>, %most: tensor<i64>) -> tensor<?x3xi64, #graph.dims<["k"], ()[s0] -> (s0, 3)>> {
       %none = graph.none : none
       %y = graph.non_max_suppression %boxes, %scores, %most, %none, %none :
         (tensor<1x?x4xf32, #graph.dims<["n"], ()[s0] -> (1, s0, 4)>>, tensor<1x2x?xf32, #graph.dims<["n"], ()[s0] -> (1, 2, s0)>>, tensor<i64>, none, none)
         -> tensor<?x3xi64, #graph.dims<["k"], ()[s0] -> (s0, 3)>>
       %z = graph.neg %y : (tensor<?x3xi64, #graph.dims<["k"], ()[s0] -> (s0, 3)>>) -> tensor<?x3xi64, #graph.dims<["k"], ()[s0] -> (s0, 3)>>
       return %z : tensor<?x3xi64, #graph.dims<["k"], ()[s0] -> (s0, 3)>>
     })",
     [](const Draw &draw) -> Inputs {
       HostTensor boxes(DataType::F32, {1, draw.n, 4}); // far apart, so that all may be kept
       for (int64_t i = 0; i < draw.n; ++i)
         for (int64_t j = 0; j < 4; ++j)
           boxes.setDouble(4 * i + j, double(3 * i + (j >= 2)));
       return {boxes, numbers(draw.random, DataType::F32, {1, 2, draw.n}, 10),
               integer(draw.n * draw.share / 10)};
     }},
    {"dynamic_slice",
     R"(func.func @main(%x: $m, %from: tensor<1xi64>, %to: tensor<1xi64>) -> tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>> {
       %axes = graph.constant {value = dense<[0]> : tensor<1xi64>} : () -> tensor<1xi64>
       %none = graph.none : none
       %y = graph.dynamic_slice %x, %from, %to, %axes, %none : ($m, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, none)
         -> tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>>
       %z = graph.neg %y : (tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>>) -> tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>>
       return %z : tensor<?x?xf32, #graph.dims<["k", "m"], ()[s0, s1] -> (s0, s1)>>
     })",
     [](const Draw &draw) -> Inputs {
       return {numbers(draw.random, DataType::F32, {draw.n, draw.m}, 9),
               integer(draw.n * (10 - draw.share) / 10, {1}), integer(1000, {1})};
     }},
    {"max_pool",
     R"(func.func @main(%x: $p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>> {
       %y = graph.max_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 4>, dilations = array<i64: 1>, ceil_mode = true}
         : ($p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       %z = graph.neg %y : (tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       return %z : tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
     })",
     image},
    {"lp_pool",
     R"(func.func @main(%x: $p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>> {
       %y = graph.lp_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 4>, dilations = array<i64: 1>, ceil_mode = true}
         : ($p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       %z = graph.neg %y : (tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       return %z : tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
     })",
     image},
    {"max_pool_indices",
     R"(func.func @main(%x: $p) -> tensor<1x2x?xi64, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>> {
       %y = graph.max_pool_indices %x {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 4>, dilations = array<i64: 1>, ceil_mode = true}
         : ($p) -> tensor<1x2x?xi64, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       %z = graph.neg %y : (tensor<1x2x?xi64, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>) -> tensor<1x2x?xi64, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       return %z : tensor<1x2x?xi64, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
     })",
     image},
    {"average_pool",
     R"(func.func @main(%x: $p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>> {
       %y = graph.average_pool %x {kernel = array<i64: 2>, strides = array<i64: 3>, pads = array<i64: 1, 3>, dilations = array<i64: 1>, ceil_mode = true}
         : ($p) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       %z = graph.neg %y : (tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>) -> tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
       return %z : tensor<1x2x?xf32, #graph.dims<["k"], ()[s0] -> (1, 2, s0)>>
     })",
     image},
    {"dynamic_reshape",
     R"(func.func @main(%x: $m, %to: tensor<1xi64>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>> {
       %y = graph.dynamic_reshape %x, %to : ($m, tensor<1xi64>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       %z = graph.neg %y : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
       return %z : tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
     })",
     [](const Draw &draw) -> Inputs {
       return {numbers(draw.random, DataType::F32, {draw.n, draw.m}, 9), integer(-1, {1})};
     }},
};

std::vector<runtime::TensorRef> given(const Inputs &inputs) {
  std::vector<runtime::TensorRef> tensors;
  for (const HostTensor &input : inputs)
    tensors.push_back(*runtime::fromHostTensor(input));
  return tensors;
}

/// How many values of main lie in the arena although only the run tells their size.
int64_t bounded(const PlannedFunction &planned) {
  return std::ranges::count_if(planned.main().values, [](const auto &value) {
    return value->storage == plan::Storage::Arena && value->reserved != runtime::kAbsent;
  });
}

void bindSymbols(const plan::FunctionT &main, const std::vector<uint32_t> &values,
                 std::span<const runtime::TensorRef> tensors, std::vector<int64_t> &symbols) {
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < tensors[i]->shape().size(); ++j)
      if (const plan::Expr &dim = main.exprs[main.values[values[i]]->dims[j]];
          dim.kind() == plan::ExprKind::Symbol)
        symbols[size_t(dim.a())] = tensors[i]->shape()[j];
}

/// That no value of main takes more than was set aside for it, in a run of these operands and
/// results.
void expectWithinBounds(const plan::FunctionT &main, std::span<const runtime::TensorRef> inputs,
                        std::span<const runtime::TensorRef> outputs) {
  std::vector<int64_t> symbols(main.symbols.size(), runtime::kPoison), sizes;
  bindSymbols(main, main.params, inputs, symbols);
  bindSymbols(main, main.results, outputs, symbols);
  for (const plan::Expr &expr : main.exprs)
    sizes.push_back(runtime::evaluate(expr, symbols.data(), sizes.data()));
  for (const auto &value : main.values) {
    if (value->reserved == runtime::kAbsent)
      continue;
    int64_t bytes = byteSize(DataType(value->type));
    for (uint32_t dim : value->dims)
      bytes *= sizes[dim];
    EXPECT_LE(bytes, sizes[value->reserved]) << value->name;
  }
}

TEST(SizeBounds, HoldForEveryOperator) {
  Random random(7);
  for (const Case &one : kCases) {
    SCOPED_TRACE(one.name);
    PlannedFunction planned(expand(one.text));
    ASSERT_TRUE(planned.ok()) << planned.status.message();
    EXPECT_GE(bounded(planned), 1);
    auto module = load(planned);
    ASSERT_TRUE(module);
    runtime::Session session(module, 1);
    for (int run = 0; run < 60; ++run) {
      Draw sizes{random, draw(random, 0, 17), draw(random, 0, 9), run % 3 == 0 ? 10 : run % 11};
      if (run == 5)
        sizes.n = 0;
      Inputs inputs = one.inputs(sizes);
      std::vector<runtime::TensorRef> outputs(planned.main().results.size());
      std::vector<runtime::TensorRef> operands = given(inputs);
      Status status = session.run(operands, outputs);
      if (status.ok())
        expectWithinBounds(planned.main(), operands, outputs);
      auto expected = graph::evaluate(planned.function, {inputs.begin(), inputs.end()});
      ASSERT_EQ(status.ok(), expected.ok()) << run << ": " << status.message();
      for (size_t i = 0; expected.ok() && i < outputs.size(); ++i)
        expectEqual(runtime::toHostTensor(outputs[i]), (*expected)[i].tensor);
    }
  }
}

/// The module with the expression that `change` makes of each one of bytes that are set aside.
template <typename Change> void changeReserved(PlannedFunction &planned, Change change) {
  plan::FunctionT &main = *planned.unpacked.functions[0];
  for (auto &value : main.values)
    if (value->reserved != runtime::kAbsent)
      value->reserved = change(main.exprs, value->reserved);
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishModuleBuffer(builder, plan::Module::Pack(builder, &planned.unpacked));
  planned.plan.bytes.assign(builder.GetBufferPointer(),
                            builder.GetBufferPointer() + builder.GetSize());
}

// A module that sets too little aside, as one of a wrong shape function would: what is larger gets
// memory of its own, and what is not lies in the arena again in the next run.
TEST(SizeBounds, TooLittleMemoryIsMadeUpFor) {
  Random random(3);
  for (const Case &one : kCases) {
    SCOPED_TRACE(one.name);
    PlannedFunction planned(expand(one.text));
    ASSERT_TRUE(planned.ok());
    changeReserved(planned, [](std::vector<plan::Expr> &exprs, uint32_t bytes) {
      exprs.emplace_back(64, 0, plan::ExprKind::Constant);
      exprs.emplace_back(int64_t(bytes), int32_t(exprs.size() - 1), plan::ExprKind::Min);
      return uint32_t(exprs.size() - 1);
    });
    auto module = load(planned);
    ASSERT_TRUE(module);
    runtime::Session session(module, 1);
    for (int run = 0; run < 12; ++run) {
      int64_t size = run % 4 == 3 ? 2 : 12;
      Inputs inputs = one.inputs({random, size, size, run % 3 == 1 ? 1 : 10});
      std::vector<runtime::TensorRef> outputs(planned.main().results.size());
      Status status = session.run(given(inputs), outputs);
      auto expected = graph::evaluate(planned.function, {inputs.begin(), inputs.end()});
      ASSERT_EQ(status.ok(), expected.ok()) << run << ": " << status.message();
      for (size_t i = 0; expected.ok() && i < outputs.size(); ++i)
        expectEqual(runtime::toHostTensor(outputs[i]), (*expected)[i].tensor);
    }
  }
}

// Of a chain, two such values are alive at a time: the arena for two, two of their own and no more
// are within the limit.
TEST(SizeBounds, MemoryMadeUpIsReleased) {
  std::string text = "func.func @main(%k0: $n, %c: $b) -> tensor<?xf32, #graph.dims<[\"k4\"], "
                     "()[s0] -> (s0)>> {\n",
              last = "$n";
  for (int i = 1; i <= 4; ++i) {
    std::string number = std::to_string(i);
    std::string type = "tensor<?xf32, #graph.dims<[\"k" + number + "\"], ()[s0] -> (s0)>>";
    text += "%k" + number + " = graph.compress %k" + std::to_string(i - 1) + ", %c {axis = 0} : (" +
            last + ", $b) -> " + type + "\n";
    last = type;
  }
  PlannedFunction planned(expand(text + "return %k4 : " + last + "\n}"));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(bounded(planned), 3);
  changeReserved(planned, [](std::vector<plan::Expr> &exprs, uint32_t) {
    exprs.emplace_back(0, 0, plan::ExprKind::Constant);
    return uint32_t(exprs.size() - 1);
  });
  auto module = load(planned);
  ASSERT_TRUE(module);
  constexpr int64_t kCount = 100'000, kBytes = 4 * kCount;
  runtime::Session session(module, 1, {.memoryBytes = 4 * kBytes + kBytes / 2});
  Random random(5);
  Inputs inputs = {numbers(random, DataType::F32, {kCount}, 10),
                   numbers(random, DataType::Bool, {kCount}, 10)};
  for (int run = 0; run < 2; ++run) {
    std::vector<runtime::TensorRef> outputs(1);
    Status status = session.run(given(inputs), outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    expectEqual(runtime::toHostTensor(outputs[0]), inputs[0]);
  }
}

constexpr const char *kNonZeroOfBlock = R"(func.func @main(
    %x: tensor<?x?x?xf32, #graph.dims<["a", "b", "c"], ()[s0, s1, s2] -> (s0, s1, s2)>>)
    -> tensor<3x?xi64, #graph.dims<["k"], ()[s0] -> (3, s0)>> {
  %y = graph.nonzero %x : (tensor<?x?x?xf32, #graph.dims<["a", "b", "c"], ()[s0, s1, s2] -> (s0, s1, s2)>>)
    -> tensor<3x?xi64, #graph.dims<["k"], ()[s0] -> (3, s0)>>
  %z = graph.neg %y : (tensor<3x?xi64, #graph.dims<["k"], ()[s0] -> (3, s0)>>) -> tensor<3x?xi64, #graph.dims<["k"], ()[s0] -> (3, s0)>>
  return %z : tensor<3x?xi64, #graph.dims<["k"], ()[s0] -> (3, s0)>>
})";

// Sizes of which the bound is much memory, or more than there are numbers, are no reason to fail
// where what is computed is small; and the next run, of a small operand, lies in the arena.
TEST(SizeBounds, WhatTheySayTooMuchOfIsNotSetAside) {
  PlannedFunction planned(kNonZeroOfBlock);
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(bounded(planned), 1);
  auto module = load(planned);
  ASSERT_TRUE(module);
  runtime::Session session(module, 1, {.memoryBytes = int64_t(32) << 20});
  constexpr int64_t kHuge = int64_t(1) << 32;
  for (Shape shape :
       {Shape{2, 2, 3}, Shape{200, 100, 150}, Shape{kHuge, kHuge, 0}, Shape{2, 2, 3}}) {
    SCOPED_TRACE(toString(shape));
    HostTensor x(DataType::F32, shape);
    ASSERT_TRUE(x.valid());
    if (x.size())
      x.setDouble(x.size() - 1, 1);
    std::vector<runtime::TensorRef> outputs(1);
    Status status = session.run(given({x}), outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(outputs[0]->shape(), (Shape{3, x.size() ? 1 : 0}));
    for (int64_t i = 0; x.size() && i < 3; ++i)
      EXPECT_EQ(runtime::toHostTensor(outputs[0]).getInt(i), 1 - shape[size_t(i)]);
  }
}

// What kernels compute of a bounded value is bounded with it, and shares its memory where it can;
// but bounds multiply up: all pairs of chosen elements might be as many as the square of the
// operands.
TEST(SizeBounds, FollowKernelsButNotBeyondManyTimesTheOperands) {
  PlannedFunction planned(expand(R"(func.func @main(%x: $n, %c: $b, %d: $b) -> tensor<f32> {
    %k = graph.compress %x, %c {axis = 0} : ($n, $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
    %l = graph.compress %x, %d {axis = 0} : ($n, $b) -> tensor<?xf32, #graph.dims<["l"], ()[s0] -> (s0)>>
    %e = graph.kernel %k {label = "exp", kind = "loops"} : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>> {
    ^bb0(%a: tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>):
      %r = graph.exp %a : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
      graph.yield %r : tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
    }
    %o = graph.kernel %e, %l {label = "outer", kind = "loops"} : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<?xf32, #graph.dims<["l"], ()[s0] -> (s0)>>)
        -> tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>> {
    ^bb0(%a: tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, %b: tensor<?xf32, #graph.dims<["l"], ()[s0] -> (s0)>>):
      %v = graph.reshape %a : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 1)>>
      %r = graph.mul %v, %b : (tensor<?x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 1)>>, tensor<?xf32, #graph.dims<["l"], ()[s0] -> (s0)>>) -> tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>>
      graph.yield %r : tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>>
    }
    %s = graph.kernel %o {label = "sum", kind = "rows"} : (tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>>) -> tensor<f32> {
    ^bb0(%a: tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>>):
      %r = graph.reduce_sum %a {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x?xf32, #graph.dims<["k", "l"], ()[s0, s1] -> (s0, s1)>>) -> tensor<f32>
      graph.yield %r : tensor<f32>
    }
    return %s : tensor<f32>
  })"));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(bounded(planned), 3);
  EXPECT_EQ(planned.result(2).offset, planned.result(0).offset); // written over
  EXPECT_EQ(planned.result(3).storage, plan::Storage::Heap);
  EXPECT_EQ(planned.metadata("arena_buffers"), 2);
}

// A bound is held against the operands whose size is known: it can't be eight times as much from
// each operator to the next.
TEST(SizeBounds, DoNotGrowFromOperatorToOperator) {
  PlannedFunction planned(expand(R"(func.func @main(%x: $n, %c: $b) -> tensor<f32> {
    %w = graph.constant {value = dense<2.0> : tensor<8xf32>} : () -> tensor<8xf32>
    %k = graph.compress %x, %c {axis = 0} : ($n, $b) -> tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>
    %l = graph.kernel %k, %w {label = "eight", kind = "loops"} : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, tensor<8xf32>)
        -> tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>> {
    ^bb0(%a: tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>, %b: tensor<8xf32>):
      %v = graph.reshape %a : (tensor<?xf32, #graph.dims<["k"], ()[s0] -> (s0)>>) -> tensor<?x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 1)>>
      %r = graph.mul %v, %b : (tensor<?x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 1)>>, tensor<8xf32>) -> tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>>
      graph.yield %r : tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>>
    }
    %m = graph.kernel %l, %w {label = "sixtyfour", kind = "loops"} : (tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>>, tensor<8xf32>)
        -> tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>> {
    ^bb0(%a: tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>>, %b: tensor<8xf32>):
      %v = graph.reshape %a : (tensor<?x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8)>>) -> tensor<?x8x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 1)>>
      %r = graph.mul %v, %b : (tensor<?x8x1xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 1)>>, tensor<8xf32>) -> tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>>
      graph.yield %r : tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>>
    }
    %s = graph.kernel %m {label = "sum", kind = "rows"} : (tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>>) -> tensor<f32> {
    ^bb0(%a: tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>>):
      %r = graph.reduce_sum %a {axes = array<i64: 0, 1, 2>, keepdims = false} : (tensor<?x8x8xf32, #graph.dims<["k"], ()[s0] -> (s0, 8, 8)>>) -> tensor<f32>
      graph.yield %r : tensor<f32>
    }
    return %s : tensor<f32>
  })"));
  ASSERT_TRUE(planned.ok()) << planned.status.message();
  EXPECT_EQ(bounded(planned), 2);
}

} // namespace
} // namespace tensmith::vm
