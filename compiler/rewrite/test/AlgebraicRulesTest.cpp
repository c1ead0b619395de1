// Rules of arithmetic: each fires where it should, and expressions of all of them keep every
// element's bits, special ones included.
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr char kT[] = "tensor<12xf32>";

/// A function of %x, %y, %z and %w: f32, %p and %q: i1, %i, %j and %k: i32, all [12], that returns
/// %r. `body` has the operators; T, P and I stand for the types.
std::string function(std::string body, const std::string &type = kT) {
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = body.find(from, at)) != std::string::npos; at += to.size())
      body.replace(at, from.size(), to);
  };
  replace("!T", kT);
  replace("!P", "tensor<12xi1>");
  replace("!I", "tensor<12xi32>");
  std::string text = "func.func @main(";
  for (const char *name : {"%x", "%y", "%z", "%w"})
    text += std::string(name) + ": " + kT + ", ";
  text += "%p: tensor<12xi1>, %q: tensor<12xi1>, %i: tensor<12xi32>, %j: tensor<12xi32>, "
          "%k: tensor<12xi32>) -> " +
          type + " {\n";
  for (auto [name, value] : {std::pair("one", "1.0"),
                             {"minus", "-1.0"},
                             {"zero", "0.0"},
                             {"nzero", "-0.0"},
                             {"two", "2.0"},
                             {"half", "0.5"},
                             {"mhalf", "-0.5"}})
    text += std::string("%") + name + " = graph.constant {value = dense<" + value +
            "> : tensor<f32>} : () -> tensor<f32>\n";
  return text + body + "\nreturn %r : " + type + "\n}\n";
}

class AlgebraicRules : public testing::Test {
protected:
  AlgebraicRules() {
    DialectRegistry registry;
    graph::registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  static func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

  static void simplified(ModuleOp module, bool ofReals) {
    Options options;
    options.fastMath = ofReals;
    ASSERT_TRUE(succeeded(simplify(mainOf(module), options)));
    ASSERT_TRUE(succeeded(verify(module)));
  }

  /// The operators but constants, in order.
  static std::string operatorsOf(ModuleOp module) {
    std::string text;
    for (Operation &op : mainOf(module).getBody().front().without_terminator())
      if (!isa<graph::ConstantOp>(op))
        text += (text.empty() ? "" : " ") + op.getName().stripDialect().str();
    return text;
  }

  static HostTensor evaluated(ModuleOp module, const std::vector<graph::RuntimeValue> &inputs) {
    auto results = graph::evaluate(mainOf(module), inputs, {}, 0);
    EXPECT_TRUE(results.ok()) << results.status().message();
    return results.ok() ? (*results)[0].tensor : HostTensor();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

struct Rule {
  const char *name, *body, *expected;
  const char *type = kT;
  bool ofReals = false;
};

constexpr char kUnary[] = " : (!T) -> !T", kBinary[] = " : (!T, !T) -> !T";

const Rule kRules[] = {
    {"TimesOne", "%r = graph.mul %x, %one : (!T, tensor<f32>) -> !T", ""},
    {"OneTimes", "%r = graph.mul %one, %x : (tensor<f32>, !T) -> !T", ""},
    {"OverOne", "%r = graph.div %x, %one : (!T, tensor<f32>) -> !T", ""},
    {"ToTheOne", "%r = graph.pow %x, %one : (!T, tensor<f32>) -> !T", ""},
    {"TimesMinusOne", "%r = graph.mul %x, %minus : (!T, tensor<f32>) -> !T", "neg"},
    {"MinusOneTimes", "%r = graph.mul %minus, %x : (tensor<f32>, !T) -> !T", "neg"},
    {"OverMinusOne", "%r = graph.div %x, %minus : (!T, tensor<f32>) -> !T", "neg"},
    {"MinusZero", "%r = graph.sub %x, %zero : (!T, tensor<f32>) -> !T", ""},
    {"no MinusNegativeZero", "%r = graph.sub %x, %nzero : (!T, tensor<f32>) -> !T", "sub"},
    {"PlusMinusZero", "%r = graph.add %x, %nzero : (!T, tensor<f32>) -> !T", ""},
    {"MinusZeroPlus", "%r = graph.add %nzero, %x : (tensor<f32>, !T) -> !T", ""},
    {"no PlusZero", "%r = graph.add %x, %zero : (!T, tensor<f32>) -> !T", "add"},
    {"MinusZeroMinus", "%r = graph.sub %nzero, %x : (tensor<f32>, !T) -> !T", "neg"},
    {"no ZeroMinus", "%r = graph.sub %zero, %x : (tensor<f32>, !T) -> !T", "sub"},
    {"NegOfNeg", "%a = graph.neg %x : (!T) -> !T\n%r = graph.neg %a : (!T) -> !T", ""},
    {"PlusNeg", "%a = graph.neg %y : (!T) -> !T\n%r = graph.add %x, %a : (!T, !T) -> !T", "sub"},
    {"NegPlus", "%a = graph.neg %y : (!T) -> !T\n%r = graph.add %a, %x : (!T, !T) -> !T", "sub"},
    {"MinusNeg", "%a = graph.neg %y : (!T) -> !T\n%r = graph.sub %x, %a : (!T, !T) -> !T", "add"},
    {"NegTimesNeg",
     "%a = graph.neg %y : (!T) -> !T\n%b = graph.neg %x : (!T) -> !T\n"
     "%r = graph.mul %a, %b : (!T, !T) -> !T",
     "mul"},
    {"NegOverNeg",
     "%a = graph.neg %y : (!T) -> !T\n%b = graph.neg %x : (!T) -> !T\n"
     "%r = graph.div %a, %b : (!T, !T) -> !T",
     "div"},
    {"AbsOfNeg", "%a = graph.neg %y : (!T) -> !T\n%r = graph.abs %a : (!T) -> !T", "abs"},
    {"no AbsOfNeg of unsigned",
     "%u = graph.cast %i {to = ui16} : (!I) -> tensor<12xui16>\n"
     "%a = graph.neg %u : (tensor<12xui16>) -> tensor<12xui16>\n"
     "%r = graph.abs %a : (tensor<12xui16>) -> tensor<12xui16>",
     "cast neg abs", "tensor<12xui16>"},
    {"AbsOfAbs", "%a = graph.abs %y : (!T) -> !T\n%r = graph.abs %a : (!T) -> !T", "abs"},
    {"SignOfSign", "%a = graph.sign %y : (!T) -> !T\n%r = graph.sign %a : (!T) -> !T", "sign"},
    {"CeilOfFloor", "%a = graph.floor %y : (!T) -> !T\n%r = graph.ceil %a : (!T) -> !T", "floor"},
    {"RoundOfCeil", "%a = graph.ceil %y : (!T) -> !T\n%r = graph.round %a : (!T) -> !T", "ceil"},
    {"MaxOfSame", "%r = graph.max %x, %x : (!T, !T) -> !T", ""},
    {"MinOfMin", "%a = graph.min %x, %y : (!T, !T) -> !T\n%r = graph.min %a, %y : (!T, !T) -> !T",
     "min"},
    {"NotOfNot", "%a = graph.not %p : (!P) -> !P\n%r = graph.not %a : (!P) -> !P", "",
     "tensor<12xi1>"},
    {"BitwiseNotOfNot",
     "%a = graph.bitwise_not %i : (!I) -> !I\n%r = graph.bitwise_not %a : (!I) -> !I", "",
     "tensor<12xi32>"},
    {"AndOfSame", "%r = graph.and %p, %p : (!P, !P) -> !P", "", "tensor<12xi1>"},
    {"WhereOfSame", "%r = graph.where %p, %x, %x : (!P, !T, !T) -> !T", ""},
    {"WhereOfNot",
     "%a = graph.not %p : (!P) -> !P\n%r = graph.where %a, %x, %y : (!P, !T, !T) -> !T", "where"},
    {"CastBack",
     "%a = graph.cast %x {to = f64} : (!T) -> tensor<12xf64>\n"
     "%r = graph.cast %a {to = f32} : (tensor<12xf64>) -> !T",
     ""},
    {"no CastBack of fewer bits",
     "%a = graph.cast %x {to = f16} : (!T) -> tensor<12xf16>\n"
     "%r = graph.cast %a {to = f32} : (tensor<12xf16>) -> !T",
     "cast cast"},
    {"IntegerMinusItself", "%r = graph.sub %i, %i : (!I, !I) -> !I", "broadcast", "tensor<12xi32>"},
    {"no IntegerMinusItself of sizes that the run tells",
     "%a = graph.nonzero %x : (!T) -> tensor<1x?xi64, #graph.dims<[\"n\"], ()[s0] -> (1, s0)>>\n"
     "%r = graph.sub %a, %a : (tensor<1x?xi64, #graph.dims<[\"n\"], ()[s0] -> (1, s0)>>, "
     "tensor<1x?xi64, #graph.dims<[\"n\"], ()[s0] -> (1, s0)>>) -> "
     "tensor<1x?xi64, #graph.dims<[\"n\"], ()[s0] -> (1, s0)>>",
     "nonzero sub", "tensor<1x?xi64, #graph.dims<[\"n\"], ()[s0] -> (1, s0)>>"},
    {"no FloatMinusItself", "%r = graph.sub %x, %x : (!T, !T) -> !T", "sub"},
    {"IntegerCommonFactor",
     "%a = graph.mul %i, %j : (!I, !I) -> !I\n%b = graph.mul %i, %k : (!I, !I) -> !I\n"
     "%r = graph.add %a, %b : (!I, !I) -> !I",
     "add mul", "tensor<12xi32>"},
    {"no CommonFactor",
     "%a = graph.mul %x, %y : (!T, !T) -> !T\n%b = graph.mul %x, %z : (!T, !T) -> !T\n"
     "%r = graph.add %a, %b : (!T, !T) -> !T",
     "mul mul add"},
    {"no LogOfExp", "%a = graph.exp %x : (!T) -> !T\n%r = graph.log %a : (!T) -> !T", "exp log"},
    {"PlusZero", "%r = graph.add %x, %zero : (!T, tensor<f32>) -> !T", "", kT, true},
    {"ZeroMinus", "%r = graph.sub %zero, %x : (tensor<f32>, !T) -> !T", "neg", kT, true},
    {"NegOfDifference", "%a = graph.sub %x, %y : (!T, !T) -> !T\n%r = graph.neg %a : (!T) -> !T",
     "sub", kT, true},
    {"ExpOfLog", "%a = graph.log %x : (!T) -> !T\n%r = graph.exp %a : (!T) -> !T", "", kT, true},
    {"LogOfExp", "%a = graph.exp %x : (!T) -> !T\n%r = graph.log %a : (!T) -> !T", "", kT, true},
    {"SqrtOfSquare", "%a = graph.mul %x, %x : (!T, !T) -> !T\n%r = graph.sqrt %a : (!T) -> !T",
     "abs", kT, true},
    {"SquareOfSqrt", "%a = graph.sqrt %x : (!T) -> !T\n%r = graph.mul %a, %a : (!T, !T) -> !T", "",
     kT, true},
    {"LogOfSoftmax",
     "%a = graph.softmax %x {axis = 0 : i64} : (!T) -> !T\n%r = graph.log %a : (!T) -> !T",
     "log_softmax", kT, true},
    {"Square", "%r = graph.pow %x, %two : (!T, tensor<f32>) -> !T", "mul", kT, true},
    {"PowerOfHalf", "%r = graph.pow %x, %half : (!T, tensor<f32>) -> !T", "sqrt", kT, true},
    {"PowerOfMinusHalf", "%r = graph.pow %x, %mhalf : (!T, tensor<f32>) -> !T", "rsqrt", kT, true},
    {"PowerOfMinusOne", "%r = graph.pow %x, %minus : (!T, tensor<f32>) -> !T", "div", kT, true},
    {"OverSqrt", "%a = graph.sqrt %x : (!T) -> !T\n%r = graph.div %y, %a : (!T, !T) -> !T",
     "rsqrt mul", kT, true},
    {"ExpTimesExp",
     "%a = graph.exp %x : (!T) -> !T\n%b = graph.exp %y : (!T) -> !T\n"
     "%r = graph.mul %a, %b : (!T, !T) -> !T",
     "add exp", kT, true},
    {"ConstantTerms",
     "%a = graph.add %x, %two : (!T, tensor<f32>) -> !T\n"
     "%r = graph.add %a, %half : (!T, tensor<f32>) -> !T",
     "add add", kT, true},
    {"ConstantFactors",
     "%a = graph.mul %x, %two : (!T, tensor<f32>) -> !T\n"
     "%r = graph.mul %a, %half : (!T, tensor<f32>) -> !T",
     "mul mul", kT, true},
    {"CommonFactor",
     "%a = graph.mul %x, %y : (!T, !T) -> !T\n%b = graph.mul %x, %z : (!T, !T) -> !T\n"
     "%r = graph.add %a, %b : (!T, !T) -> !T",
     "add mul", kT, true},
    {"FactorOutOfSum",
     "%a = graph.mul %x, %two : (!T, tensor<f32>) -> !T\n"
     "%r = graph.reduce_sum %a {axes = array<i64: 0>} : (!T) -> tensor<f32>",
     "reduce_sum mul", "tensor<f32>", true},
    {"QuotientOutOfSum",
     "%a = graph.div %x, %two : (!T, tensor<f32>) -> !T\n"
     "%r = graph.reduce_sum %a {axes = array<i64: 0>} : (!T) -> tensor<f32>",
     "reduce_sum div", "tensor<f32>", true},
    {"NegOutOfSum",
     "%a = graph.neg %x : (!T) -> !T\n"
     "%r = graph.reduce_sum %a {axes = array<i64: 0>} : (!T) -> tensor<f32>",
     "reduce_sum neg", "tensor<f32>", true},
};

// Breaks if a rule is gone, or fires where it doesn't hold.
TEST_F(AlgebraicRules, EachFires) {
  for (const Rule &rule : kRules) {
    SCOPED_TRACE(rule.name);
    auto module = parse(function(rule.body, rule.type));
    ASSERT_TRUE(module);
    simplified(*module, rule.ofReals);
    EXPECT_EQ(operatorsOf(*module), rule.expected);
  }
}

// Breaks if a broadcast by what is left out would be lost.
TEST_F(AlgebraicRules, WhatBroadcastsStays) {
  auto module = parse("func.func @main(%x: tensor<1xf32>) -> tensor<12xf32> {\n"
                      "%one = graph.constant {value = dense<1.0> : tensor<12xf32>} : () -> "
                      "tensor<12xf32>\n%r = graph.mul %x, %one : (tensor<1xf32>, tensor<12xf32>) "
                      "-> tensor<12xf32>\nreturn %r : tensor<12xf32>\n}\n");
  ASSERT_TRUE(module);
  simplified(*module, true);
  EXPECT_EQ(operatorsOf(*module), "mul");
}

class Expressions {
public:
  explicit Expressions(uint32_t seed, bool isTame) : random_(seed), isTame_(isTame) {}

  /// The text of a function body of so many operators.
  std::string draw(int count) {
    values_ = {"%x", "%y", "%z", "%w"};
    std::string body;
    for (int i = 0; i < count; ++i) {
      std::string name = i + 1 == count ? "%r" : "%v" + std::to_string(i);
      body += name + " = " + one() + "\n";
      values_.push_back(name);
    }
    return body;
  }

private:
  size_t below(size_t n) { return random_() % n; }
  const char *pick(std::initializer_list<const char *> of) { return of.begin()[below(of.size())]; }
  /// The latest values more often, so that operators meet.
  std::string value() { return below(2) ? values_.back() : values_[below(values_.size())]; }

  std::string one() {
    std::string constant = pick({"%one", "%minus", "%zero", "%nzero", "%two", "%half"});
    switch (below(isTame_ ? 4 : 6)) {
    case 0:
      return std::string("graph.") +
             (isTame_ ? pick({"neg", "abs", "exp", "sqrt", "log"})
                      : pick({"neg", "neg", "abs", "sign", "ceil", "floor", "round"})) +
             " " + value() + kUnary;
    case 1:
      return std::string("graph.") + pick({"add", "sub", "mul", "max", "min"}) + " " + value() +
             ", " + value() + kBinary;
    case 2:
      return std::string("graph.") + pick({"add", "sub", "mul"}) + " " + value() + ", " + constant +
             " : (!T, tensor<f32>) -> !T";
    case 3:
      return std::string("graph.") + pick({"add", "sub", "mul"}) + " " + constant + ", " + value() +
             " : (tensor<f32>, !T) -> !T";
    case 4:
      return std::string("graph.") + pick({"div", "pow"}) + " " + value() + ", " +
             pick({"%one", "%minus", "%two"}) + " : (!T, tensor<f32>) -> !T";
    default:
      return std::string("graph.where ") + pick({"%p", "%q"}) + ", " + value() + ", " + value() +
             " : (!P, !T, !T) -> !T";
    }
  }

  std::mt19937 random_;
  bool isTame_;
  std::vector<std::string> values_;
};

std::vector<graph::RuntimeValue> inputsOf(uint32_t seed, bool isTame) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kSpecial[] = {0.0F,    -0.0F, kInf,   -kInf, NAN,   1e-45F,
                                -1e-45F, 3e38F, -3e38F, 1.0F,  -1.0F, 0.5F};
  std::mt19937 random(seed);
  std::vector<graph::RuntimeValue> inputs;
  auto add = [&](DataType type, auto draw) {
    HostTensor tensor(type, {12});
    for (int64_t i = 0; i < 12; ++i)
      draw(tensor, i);
    inputs.emplace_back(std::move(tensor));
  };
  for (int number = 0; number < 4; ++number)
    add(DataType::F32, [&](HostTensor &tensor, int64_t i) {
      bool isSpecial = !isTame && random() % 3;
      double drawn = 0.5 + double(random() % 1000) / 1000;
      tensor.setDouble(i, isSpecial ? double(kSpecial[random() % std::size(kSpecial)]) : drawn);
    });
  for (int number = 0; number < 2; ++number)
    add(DataType::Bool, [&](HostTensor &tensor, int64_t i) { tensor.setInt(i, random() % 2); });
  for (int number = 0; number < 3; ++number)
    add(DataType::I32, [&](HostTensor &tensor, int64_t i) { tensor.setInt(i, int32_t(random())); });
  return inputs;
}

// Breaks if a rule changes an element's bits: a sign of zero, an infinity, or what is no number.
TEST_F(AlgebraicRules, KeepTheBitsOfEveryFloat) {
  int shorter = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::string body = Expressions(seed, false).draw(2 + int(seed % 9));
    auto before = parse(function(body)), after = parse(function(body));
    ASSERT_TRUE(before && after);
    simplified(*after, false);
    shorter += operatorsOf(*after).size() < operatorsOf(*before).size();
    auto inputs = inputsOf(seed, false);
    HostTensor wanted = evaluated(*before, inputs), got = evaluated(*after, inputs);
    ASSERT_EQ(wanted.size(), got.size());
    for (int64_t i = 0; i < wanted.size(); ++i) {
      auto a = float(wanted.getDouble(i)), b = float(got.getDouble(i));
      ASSERT_TRUE((std::isnan(a) && std::isnan(b)) ||
                  std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b))
          << "seed " << seed << ", element " << i << ": " << a << " became " << b << "\n"
          << body;
    }
  }
  EXPECT_GT(shorter, 600); // else expressions of nothing were compared
}

// Breaks if a rule of real numbers is wrong: where all is finite and nothing cancels, results
// agree.
TEST_F(AlgebraicRules, OfRealsAgreeWhereAllIsFinite) {
  constexpr double kBound = 1e-3;
  int shorter = 0, compared = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::string body = Expressions(seed, true).draw(2 + int(seed % 5));
    auto before = parse(function(body)), after = parse(function(body));
    ASSERT_TRUE(before && after);
    simplified(*after, true);
    shorter += operatorsOf(*after).size() < operatorsOf(*before).size();
    auto inputs = inputsOf(seed, true);
    HostTensor wanted = evaluated(*before, inputs), got = evaluated(*after, inputs);
    for (int64_t i = 0; i < wanted.size(); ++i) {
      double a = wanted.getDouble(i), b = got.getDouble(i);
      if (!std::isfinite(a) || std::abs(a) > 1e4)
        continue;
      ++compared;
      EXPECT_NEAR(a, b, kBound * (1 + std::abs(a))) << "seed " << seed << "\n" << body;
    }
  }
  EXPECT_GT(shorter, 200);
  EXPECT_GT(compared, 5000);
}

} // namespace
} // namespace tensmith::rewrite
