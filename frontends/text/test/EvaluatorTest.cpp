// The evaluator's limits, and what its noise does.
#include "frontends/text/Evaluator.h"

#include "compiler/graph/Dialects.h"

#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::text;

namespace {

class Evaluation : public ::testing::Test {
protected:
  Evaluation() : context_(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  Result<ValueRef> run(const std::string &text, std::vector<ValueRef> inputs,
                       const EvaluationOptions &options = {}) {
    Program program(text, "test.tsm", "", context_);
    return evaluate(program, std::move(inputs), options);
  }

  static ValueRef number(int64_t value) {
    HostTensor tensor(DataType::I64, {});
    tensor.setInt(0, value);
    return Value::of(tensor);
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }
  mlir::MLIRContext context_;
};

TEST_F(Evaluation, TailCallsTakeNoDepth) {
  EvaluationOptions options;
  options.depth = 20;
  auto result = run("fn loop(n, sum) = if n <= 0 { sum } else { loop(n - 1, sum + n) }\n"
                    "fn main(n: i64[]) = loop(n, 0)\n",
                    {number(1000)}, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)->tensor.getInt(0), 500500);
}

TEST_F(Evaluation, StopsAtItsLimits) {
  EvaluationOptions options;
  options.depth = 1000;
  auto deep = run("fn deep(n) -> i64[] = 1 + deep(n + 1)\nfn main(n: i64[]) = deep(n)\n",
                  {number(0)}, options);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.status().code(), StatusCode::ResourceExhausted);
  EXPECT_NE(deep.status().message().find("limit of 1000 levels"), std::string::npos);
  options.steps = 5000;
  auto endless =
      run("fn loop(n) -> i64[] = loop(n + 1)\nfn main(n: i64[]) = loop(n)\n", {number(0)}, options);
  ASSERT_FALSE(endless.ok());
  EXPECT_NE(endless.status().message().find("limit of 5000 steps"), std::string::npos);
}

TEST_F(Evaluation, NoiseMovesFloatsAndNothingElse) {
  const std::string text = "fn main(n: i64[]) = (n + 1, cast(n, to = f32) * 0.5)\n";
  EvaluationOptions options;
  options.noise = 1e-3;
  auto exact = run(text, {number(7)}), noisy = run(text, {number(7)}, options);
  ASSERT_TRUE(exact.ok() && noisy.ok());
  EXPECT_EQ((*exact)->fields[1]->tensor.getDouble(0), 3.5);
  EXPECT_EQ((*noisy)->fields[0]->tensor.getInt(0), 8);
  EXPECT_NE((*noisy)->fields[1]->tensor.getDouble(0), 3.5);
  EXPECT_NEAR((*noisy)->fields[1]->tensor.getDouble(0), 3.5, 0.02);
}

TEST_F(Evaluation, RefusesValuesThatAreNotOfTheirType) {
  const std::string text = "fn main(xs: List[i64[]]) = length(xs)\n";
  auto built = Value::data(1, {number(3), Value::data(0, {})});
  auto result = run(text, {built});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->tensor.getInt(0), 1);
  for (ValueRef wrong : {number(3), Value::data(7, {}), Value::data(1, {number(3)}),
                         Value::data(1, {Value::data(0, {}), Value::data(0, {})})})
    EXPECT_FALSE(run(text, {wrong}).ok());
}

} // namespace
