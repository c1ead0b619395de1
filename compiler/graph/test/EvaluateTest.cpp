// The evaluation of a function: what it is given must be what its types say, and conditions must be
// single values.
#include "compiler/graph/Evaluate.h"

#include "compiler/graph/Dialects.h"

#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tensmith::graph {
namespace {

class Evaluate : public testing::Test {
protected:
  Evaluate() : context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  /// The failure's message, or "" of a success.
  std::string errorOf(const char *text, std::vector<RuntimeValue> arguments) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return "not parsed";
    auto results = evaluate(module->lookupSymbol<func::FuncOp>("main"), std::move(arguments));
    return results.ok() ? "" : results.status().message();
  }
  MLIRContext context;
};

constexpr const char *kTwoInputs = R"(
!xs = tensor<?x3xf32, #graph.dims<["n"], ()[s0] -> (s0, 3)>>
!ys = tensor<?x3xf32, #graph.dims<["n"], ()[s0] -> (s0, 3)>>
!zs = tensor<?xf32, #graph.dims<["n"], ()[s0] -> (s0 * 2)>>
func.func @main(%x: !xs, %y: !ys, %z: !zs) -> !xs {
  %sum = graph.add %x, %y : (!xs, !ys) -> !xs
  return %sum : !xs
})";

TEST_F(Evaluate, ArgumentsAreCheckedAgainstTheTypes) {
  auto of = [](Shape shape, DataType type = DataType::F32) {
    return RuntimeValue(HostTensor(type, std::move(shape)));
  };
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), of({2, 3}), of({4})}), "");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}, DataType::F64), of({2, 3}), of({4})}),
            "input 0: has element type f64, where it must be f32");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), of({2, 4}), of({4})}),
            "input 1: has 4 in dimension 1, where it must be 3");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), of({5, 3}), of({4})}),
            "input 1: has 5 in dimension 0, where it must be 2");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), of({2, 3}), of({3})}),
            "input 2: has shape 3, where it must be 4 as the other inputs are");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), of({2, 3}), of({4, 1})}),
            "input 2: has shape 4x1, where it must have 1 dimensions");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), {}, of({4})}), "input 1: must be a tensor");
  EXPECT_EQ(errorOf(kTwoInputs, {of({2, 3}), RuntimeValue::sequence({}), of({4})}),
            "input 1: must be a tensor");
}

// The sizes of both conditions are known only when the function runs.
constexpr const char *kLoop = R"(
!some = tensor<?xi1>
!times = tensor<?xi64>
func.func @main(%start: !some, %next: !some, %trips: !times, %x: tensor<2xf32>) -> tensor<2xf32> {
  %y = graph.loop %trips, %start, %x : (!times, !some, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<2xf32>):
    graph.yield %next, %v : !some, tensor<2xf32>
  }
  return %y : tensor<2xf32>
})";

TEST_F(Evaluate, ALoopsConditionsAreSingleValues) {
  auto run = [&](int64_t start, int64_t next, int64_t trips) {
    HostTensor on(DataType::Bool, {start}), count(DataType::I64, {trips});
    for (int64_t i = 0; i < start; ++i)
      on.setInt(i, 1);
    for (int64_t i = 0; i < trips; ++i)
      count.setInt(i, 5);
    return errorOf(kLoop,
                   {on, HostTensor(DataType::Bool, {next}), count, HostTensor(DataType::F32, {2})});
  };
  EXPECT_EQ(run(1, 1, 1), "");
  EXPECT_NE(run(1, 0, 1).find("the loop's condition must be one integer or boolean"),
            std::string::npos);
  EXPECT_NE(run(0, 1, 1).find("the loop's condition must be"), std::string::npos);
  EXPECT_NE(run(1, 1, 2).find("the loop's trip count must be"), std::string::npos);
}

} // namespace
} // namespace tensmith::graph
