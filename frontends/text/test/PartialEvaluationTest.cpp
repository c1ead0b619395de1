// What partial evaluation leaves of programs: nothing of the language where their structure is
// known, and where it isn't, no more than a bound.
#include "compiler/program/PartialEvaluation.h"

#include "compiler/graph/Dialects.h"
#include "compiler/program/DeadCode.h"
#include "compiler/program/Program.h"
#include "frontends/text/Import.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace tensmith;

namespace {

/// Operators of the program dialect that are left, by what they do.
struct Left {
  int64_t closures = 0, applies = 0, references = 0, matches = 0, branches = 0, calls = 0;
  int64_t procedures = 0, operators = 0;
  program::PartialEvaluationReport report;

  int64_t ofTheLanguage() const { return closures + applies + references + matches; }
};

class PartialEvaluation : public ::testing::Test {
protected:
  PartialEvaluation() : context_(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  Left evaluate(const std::string &text, const program::PartialEvaluationBounds &bounds = {}) {
    Left left;
    auto module = text::import(text, "test.tsm", context_, {});
    EXPECT_TRUE(module.ok()) << module.status().message();
    if (!module.ok())
      return left;
    left.report = program::evaluatePartially(**module, bounds);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(**module)));
    (*module)->walk([&](mlir::Operation *op) {
      left.closures += mlir::isa<program::ClosureOp>(op);
      left.applies += mlir::isa<program::ApplyOp>(op);
      left.references += mlir::isa<program::ReferenceOp, program::ReadOp, program::WriteOp>(op);
      left.matches += mlir::isa<program::MatchOp>(op);
      left.branches += mlir::isa<program::IfOp>(op);
      left.calls += mlir::isa<program::CallOp>(op);
      auto function = mlir::dyn_cast<mlir::func::FuncOp>(op);
      left.procedures += function && program::isProcedure(function);
      ++left.operators;
    });
    return left;
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    registry.insert<program::ProgramDialect>();
    return registry;
  }
  mlir::MLIRContext context_;
};

constexpr char kLstm[] = R"(
fn step(state, x) = {
  let (hidden, cell) = state;
  let gates = concat(x, hidden, axis = 1) @ (broadcast(0.125) : f32[6, 12]);
  let i = (slice(gates, starts = [0, 0], steps = [1, 1]) : f32[1, 3]);
  let f = (slice(gates, starts = [0, 3], steps = [1, 1]) : f32[1, 3]);
  let g = (slice(gates, starts = [0, 6], steps = [1, 1]) : f32[1, 3]);
  let o = (slice(gates, starts = [0, 9], steps = [1, 1]) : f32[1, 3]);
  let next = sigmoid(f) * cell + sigmoid(i) * tanh(g);
  (sigmoid(o) * tanh(next), next)
}
fn run(state, xs) = match xs { Nil => state, Cons(x, rest) => run(step(state, x), rest) }
)";

TEST_F(PartialEvaluation, AnLstmOverALiteralListIsStraightCode) {
  Left left =
      evaluate(std::string(kLstm) + "fn main(h: f32[1, 3], x: f32[1, 3]) =\n"
                                    "  run((h, h), [x, x + 1.0, x * 2.0, tanh(x), x, h])\n");
  EXPECT_EQ(left.ofTheLanguage(), 0);
  EXPECT_EQ(left.calls, 0);
  EXPECT_EQ(left.procedures, 1);
  EXPECT_GT(left.operators, 6 * 15);
}

TEST_F(PartialEvaluation, AnLstmOverAnyListStaysALoopWithoutTuples) {
  Left left = evaluate(std::string(kLstm) +
                       "fn main(h: f32[1, 3], xs: List[f32[1, 3]]) = run((h, h), xs)\n");
  EXPECT_EQ(left.matches, 1);
  EXPECT_EQ(left.calls, 2);
  EXPECT_EQ(left.procedures, 2);
}

TEST_F(PartialEvaluation, MapsAndFoldsWithFunctionsOverALiteralList) {
  Left left = evaluate("fn main(x: f32[n], y: f32[n]) = {\n"
                       "  let twice = fn(f) => fn(v) => f(f(v));\n"
                       "  let scaled = map(twice(fn(v) => v * y), [x, y, x + y]);\n"
                       "  fold(fn(sum, pair) => { let (a, b) = pair; sum + a / b },\n"
                       "    x, zip(scaled, reversed(scaled)))\n"
                       "}\n");
  EXPECT_EQ(left.ofTheLanguage() + left.calls + left.branches, 0);
  EXPECT_EQ(left.procedures, 1);
}

TEST_F(PartialEvaluation, AReferenceThatAccumulatesInAKnownLoop) {
  Left left =
      evaluate("fn each(f, xs) = match xs { Nil => (), Cons(x, r) => { f(x); each(f, r) } }\n"
               "fn loop(go, step) = if go() { step(); loop(go, step) } else { () }\n"
               "fn main(x: f32[n], y: f32[n]) = {\n"
               "  let sum = ref(x);\n"
               "  each(fn(v) => sum := *sum * v, [x, y, x + y]);\n"
               "  let i = ref(0);\n"
               "  loop(fn() => *i < 10, fn() => { sum := *sum + y; i := *i + 1; });\n"
               "  (*sum, *i)\n"
               "}\n");
  EXPECT_EQ(left.ofTheLanguage(), 0);
  EXPECT_EQ(left.branches + left.calls, 0);
}

TEST_F(PartialEvaluation, ATreeThatIsWrittenDown) {
  Left left =
      evaluate("fn encode(tree) = match tree {\n"
               "  Leaf(x) => tanh(x),\n"
               "  Node(l, r) => tanh(encode(l) @ (broadcast(0.5) : f32[3, 3]) + encode(r)),\n"
               "}\n"
               "fn main(x: f32[1, 3], y: f32[1, 3]) = {\n"
               "  let low = Node(Leaf(x), Leaf(y));\n"
               "  encode(Node(Node(low, Leaf(y)), Node(Leaf(x), low)))\n"
               "}\n");
  EXPECT_EQ(left.ofTheLanguage() + left.calls + left.branches, 0);
  EXPECT_EQ(left.procedures, 1);
}

TEST_F(PartialEvaluation, FunctionsAreKnownInARecursionOverDataThatAreNot) {
  Left left = evaluate("fn main(k: f32[n], xs: List[f32[n]]) =\n"
                       "  fold_right(fn(x, sum) => x * k + sum, map(fn(x) => x + k, xs), k)\n");
  EXPECT_EQ(left.closures + left.applies, 0);
  EXPECT_EQ(left.matches, 2);
}

TEST_F(PartialEvaluation, WhatOnlyTheRunKnowsIsLeftToIt) {
  Left left = evaluate("fn main(x: f32[n], fs: List[f32[]], c: bool[]) = {\n"
                       "  let f = if c { fn(v) => v + x } else { fn(v) => v - x };\n"
                       "  let r = ref(x);\n"
                       "  if c { r := f(*r); } else { () };\n"
                       "  (*r, length(fs))\n"
                       "}\n");
  EXPECT_EQ(left.closures, 2);
  EXPECT_EQ(left.applies, 1);
  EXPECT_GE(left.references, 3);
}

TEST_F(PartialEvaluation, EffectsStayInOrder) {
  // Only the run knows which of the two `r` is, so that reads of both stand behind its write.
  Left left = evaluate("fn main(x: f32[n], c: bool[]) = {\n"
                       "  let a = ref(x);\n"
                       "  let b = ref(x);\n"
                       "  let r = if c { a } else { b };\n"
                       "  let before = *a;\n"
                       "  r := x + 1.0;\n"
                       "  (before, *a, *b, *a)\n"
                       "}\n");
  EXPECT_EQ(left.references, 2 + 1 + 2); // made, written, and each read once
}

TEST_F(PartialEvaluation, WhatACaseWritesStaysInIt) {
  // The verifier finds a value that is used outside of the region that computes it.
  Left left = evaluate("type Box[a] = Box(a)\n"
                       "fn main(x: f32[n], box: Box[f32[n]]) = {\n"
                       "  let r = ref(x);\n"
                       "  match box { Box(y) => { r := y * 2.0; } };\n"
                       "  *r\n"
                       "}\n");
  EXPECT_EQ(left.references, 3);
}

TEST_F(PartialEvaluation, EndsWhereTheProgramDoesNot) {
  for (const char *text :
       {"fn loop(n) -> i64[] = loop(n + 1)\nfn main(n: i64[]) = loop(0) + n\n",
        "fn loop(n) -> i64[] = 1 + loop(n + 1)\nfn main(n: i64[]) = loop(0) + n\n",
        "fn tree(n) -> i64[] = tree(n + 1) + tree(n + 2)\nfn main(n: i64[]) = tree(0) + n\n",
        "fn grow(xs) -> i64[] = grow(Cons(1, xs))\nfn main(n: i64[]) = grow([]) + n\n",
        "fn grow(xs, k) -> i64[] = if k > 0 { grow(Cons(k, xs), k - 1) } else { length(xs) }\n"
        "fn main(n: i64[]) = grow([], n)\n",
        "fn even(n) -> i64[] = odd(n + 1)\nfn odd(n) = even(n + 1)\n"
        "fn main(n: i64[]) = even(0) + n\n",
        "type Fun = Fun((Fun) -> i64[])\n"
        "fn self(f) = match f { Fun(g) => g(f) }\n"
        "fn main(n: i64[]) = self(Fun(self)) + n\n",
        "fn main(n: i64[]) = {\n"
        "  let knot = ref(fn(k) => k);\n"
        "  knot := fn(k) => (*knot)(k + 1);\n"
        "  (*knot)(0) + n\n"
        "}\n"}) {
    Left left = evaluate(text);
    EXPECT_LT(left.report.steps, 300'000) << text;
    EXPECT_LT(left.operators, 400) << text;
    EXPECT_GE(left.calls + left.applies, 1) << text;
  }
}

TEST_F(PartialEvaluation, TheBoundDecidesHowFarALoopIsUnrolled) {
  std::string text = "fn times(k, x) = if k > 0 { times(k - 1, x * x) } else { x }\n"
                     "fn main(x: f32[n]) = times(100, x)\n";
  EXPECT_EQ(evaluate(text).calls, 0);
  program::PartialEvaluationBounds low;
  low.recursionSize = 20;
  Left left = evaluate(text, low);
  EXPECT_GE(left.calls, 2);
  EXPECT_LT(left.operators, 60);
}

std::string chain(int count, const std::string &begin, const std::string &link,
                  const std::string &end) {
  std::string text = begin;
  auto put = [&](std::string part, int number) {
    for (size_t at; (at = part.find("$-")) != std::string::npos;)
      part.replace(at, 2, std::to_string(number - 1));
    for (size_t at; (at = part.find('$')) != std::string::npos;)
      part.replace(at, 1, std::to_string(number));
    text += part;
  };
  for (int i = 1; i <= count; ++i)
    put(link, i);
  put(end, count);
  return text;
}

TEST_F(PartialEvaluation, WhatIsSharedStaysShared) {
  const char *const kChains[][3] = {
      {"fn main(x: f32[n]) = {\n  let x0 = x;\n", "  let x$ = x$- + x$-;\n", "  x$\n}\n"},
      {"fn f0(x) = x * 0.5\n", "fn f$(x) = f$-(x) + f$-(x)\n", "fn main(x: f32[n]) = f$(x)\n"},
      {"fn main(x: f32[n]) = {\n  let f0 = fn(v) => v * 0.5;\n",
       "  let f$ = fn(v) => f$-(v) + f$-(v);\n", "  f$(x)\n}\n"},
      {"type P[a] = P(a, a)\nfn sum(p) = match p { P(a, b) => a + b }\n"
       "fn main(x: f32[n]) = {\n  let p0 = P(x, x);\n",
       "  let p$ = P(sum(p$-), sum(p$-));\n", "  sum(p$)\n}\n"}};
  for (auto [begin, link, end] : kChains) {
    Left first = evaluate(chain(40, begin, link, end)),
         second = evaluate(chain(80, begin, link, end)),
         third = evaluate(chain(160, begin, link, end));
    EXPECT_GT(first.operators, 40);
    EXPECT_LT(first.operators, 200);
    EXPECT_EQ(third.operators - second.operators, 2 * (second.operators - first.operators));
    EXPECT_EQ(third.report.steps - second.report.steps,
              2 * (second.report.steps - first.report.steps))
        << link;
  }
}

TEST_F(PartialEvaluation, CodeThatWouldDoubleWithEachCallIsBounded) {
  for (const char *second : {"v + 1.0", "v * 2.0"}) {
    std::string begin = "fn main(x: f32[n]) = {\n  let f0 = fn(v) => v * 0.5;\n";
    std::string link = std::string("  let f$ = fn(v) => f$-(v) / f$-(f$-(") + second + "));\n";
    Left left = evaluate(chain(40, begin, link, "  f$(x)\n}\n"));
    EXPECT_LT(left.operators, 10'000);
    EXPECT_LT(left.report.steps, 400'000);
  }
}

} // namespace
