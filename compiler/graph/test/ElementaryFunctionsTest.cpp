// Measures the elementary functions against the C library in double, over floats of every exponent,
// compiled for this machine.
//
// Fails where an error exceeds the bound of the table (in ulp), or where a special value is wrong:
// that is the accuracy that ElementaryFunctions.h states.
#include "compiler/graph/ElementaryFunctions.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::graph {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Function {
  const char *name;
  Value (*emit)(const ScalarCode &, Value);
  double (*exact)(double);
  double largest; // arguments beyond it in magnitude are not measured
  double ulp;
};

Value emitPlainExp(const ScalarCode &code, Value x) { return emitExp(code, x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    // clang-format off
    {"exp", emitPlainExp, std::exp, kInf, 1.5},   {"log", emitLog, std::log, kInf, 1},
    {"log1p", emitLog1p, std::log1p, kInf, 2},    {"erf", emitErf, std::erf, kInf, 5.5},
    {"tanh", emitTanh, std::tanh, kInf, 5},       {"sin", emitSin, std::sin, 1e8, 2},
    {"cos", emitCos, std::cos, 1e8, 2},           {"tan", emitTan, std::tan, 1e8, 3.5},
    {"asin", emitAsin, std::asin, 1, 2.5},        {"acos", emitAcos, std::acos, 1, 2},
    {"atan", emitAtan, std::atan, kInf, 3},       {"sinh", emitSinh, std::sinh, kInf, 2.5},
    {"cosh", emitCosh, std::cosh, kInf, 2},       {"asinh", emitAsinh, std::asinh, kInf, 2.5},
    {"acosh", emitAcosh, std::acosh, kInf, 2.5},  {"atanh", emitAtanh, std::atanh, 1, 2.5},
    // clang-format on
};

/// The functions, and those below that have tests of their own, compiled for this machine.
class Compiled {
public:
  static Compiled &instance() {
    // Never destroyed: at the program's end LLVM's own globals may be gone before it.
    static auto *compiled = new Compiled;
    return *compiled;
  }
  template <typename Pointer> Pointer function(const std::string &name) {
    auto address = engine_->lookup(name);
    if (!address) {
      ADD_FAILURE() << llvm::toString(address.takeError());
      return nullptr;
    }
    return reinterpret_cast<Pointer>(*address);
  }

private:
  Compiled() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    DialectRegistry registry;
    registry.insert<arith::ArithDialect, math::MathDialect, func::FuncDialect, LLVM::LLVMDialect>();
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    context_.appendDialectRegistry(registry);
    context_.loadAllAvailableDialects();
    module_ = ModuleOp::create(UnknownLoc::get(&context_));
    for (const Function &function : kFunctions)
      define(function.name, 1,
             [&](const ScalarCode &code, ValueRange x) { return function.emit(code, x[0]); });
    define("normal_exp", 1,
           [](const ScalarCode &code, ValueRange x) { return emitNormalExp(code, x[0]); });
    define("sigmoid", 1,
           [](const ScalarCode &code, ValueRange x) { return emitSigmoid(code, x[0]); });
    define("pow", 2,
           [](const ScalarCode &code, ValueRange x) { return emitPow(code, x[0], x[1]); });
    EXPECT_TRUE(succeeded(verify(*module_)));
    compile();
  }

  void define(StringRef name, unsigned operands,
              llvm::function_ref<Value(const ScalarCode &, ValueRange)> emit) {
    OpBuilder builder(&context_);
    builder.setInsertionPointToEnd(module_->getBody());
    Location location = builder.getUnknownLoc();
    SmallVector<Type> types(operands, builder.getF32Type());
    auto function = builder.create<func::FuncOp>(
        location, name, builder.getFunctionType(types, builder.getF32Type()));
    builder.setInsertionPointToStart(function.addEntryBlock());
    Value result = emit(ScalarCode(builder, location), function.getArguments());
    builder.create<func::ReturnOp>(location, result);
  }

  void compile() {
    PassManager passes(&context_);
    passes.addPass(createConvertMathToLLVMPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createConvertFuncToLLVMPass());
    passes.addPass(createReconcileUnrealizedCastsPass());
    ASSERT_TRUE(succeeded(passes.run(*module_)));
    ExecutionEngineOptions options;
    auto optimise = makeOptimizingTransformer(2, 0, nullptr);
    options.transformer = optimise;
    auto engine = ExecutionEngine::create(*module_, options);
    ASSERT_TRUE(bool(engine)) << llvm::toString(engine.takeError());
    engine_ = std::move(*engine);
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
  std::unique_ptr<ExecutionEngine> engine_;
};

/// The distance of `value` from `exact`, in units of the last place of `exact` as a float.
double errorInUlp(float value, double exact) {
  float rounded = float(exact);
  if (std::isnan(exact) || std::isinf(rounded) || std::isnan(value) || std::isinf(value)) {
    bool same = (std::isnan(exact) && std::isnan(value)) || rounded == value;
    // A value next to the overflow may round either way.
    bool nearOverflow = std::abs(exact) > 3.4028e38 && std::abs(value) > 3.4028e38f &&
                        std::signbit(value) == std::signbit(rounded);
    return same || nearOverflow ? 0 : std::numeric_limits<double>::infinity();
  }
  double magnitude = std::max(std::abs(double(rounded)), 1.1754943508222875e-38);
  double ulp = std::ldexp(1.0, std::ilogb(magnitude) - 23);
  return std::abs(double(value) - exact) / ulp;
}

class ElementaryFunctionTest : public testing::TestWithParam<Function> {};

TEST_P(ElementaryFunctionTest, StaysWithinItsBound) {
  const Function &f = GetParam();
  auto *compiled = Compiled::instance().function<float (*)(float)>(f.name);
  ASSERT_NE(compiled, nullptr);
  double worst = 0;
  float at = 0;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 6007) {
    float x = std::bit_cast<float>(uint32_t(bits));
    if (!(std::abs(x) <= f.largest))
      continue;
    double error = errorInUlp(compiled(x), f.exact(double(x)));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  RecordProperty("ulp", std::to_string(worst));
  std::printf("%-6s %.2f ulp at %.9g\n", f.name, worst, at);
  EXPECT_LE(worst, f.ulp) << f.name << "(" << at << ") is " << compiled(at) << ", not "
                          << f.exact(double(at));
  EXPECT_TRUE(std::isnan(compiled(std::numeric_limits<float>::quiet_NaN()))) << f.name;
}

INSTANTIATE_TEST_SUITE_P(All, ElementaryFunctionTest, testing::ValuesIn(kFunctions),
                         [](const auto &info) { return info.param.name; });

// Breaks if the ends of the range are no limits, or not where they are said to be.
TEST(NormalExpTest, IsExpOfWhatIsNormal) {
  auto *compiled = Compiled::instance().function<float (*)(float)>("normal_exp");
  ASSERT_NE(compiled, nullptr);
  for (float x = -87.33f; x < 88.37f; x += 0.000731f)
    ASSERT_LE(errorInUlp(compiled(x), std::exp(double(x))), 1.5) << x;
  for (float x = -87.33f; x > -90; x -= 0.00731f)
    EXPECT_TRUE(compiled(x) == 0 || errorInUlp(compiled(x), std::exp(double(x))) <= 1.5) << x;
  for (float x : {-88.1f, -104.f, -1e30f, -kInf})
    EXPECT_EQ(compiled(x), 0) << x;
  for (float x : {88.5f, 1e30f, kInf})
    EXPECT_EQ(compiled(x), kInf) << x;
  EXPECT_TRUE(std::isnan(compiled(std::numeric_limits<float>::quiet_NaN())));
}

// Relative, not ulp: where e^-x overflows the result is a subnormal that is flushed to zero.
TEST(SigmoidTest, IsAccurateAndBounded) {
  auto *compiled = Compiled::instance().function<float (*)(float)>("sigmoid");
  ASSERT_NE(compiled, nullptr);
  for (float x = -87; x < 120; x += 0.00731f)
    EXPECT_LE(errorInUlp(compiled(x), sigmoid(x)), 4) << x;
  EXPECT_EQ(compiled(-kInf), 0);
  EXPECT_EQ(compiled(kInf), 1);
}

TEST(PowTest, IsAccurateForLargeExponents) {
  auto *compiled = Compiled::instance().function<float (*)(float, float)>("pow");
  ASSERT_NE(compiled, nullptr);
  double worst = 0;
  uint32_t random = 1;
  for (int i = 0; i < 300000; ++i) {
    random = random * 1664525 + 1013904223;
    float a = std::ldexp(1 + float(random >> 9) * 0x1p-23f, int(random % 61) - 30);
    random = random * 1664525 + 1013904223;
    float b = (float(random >> 8) * 0x1p-24f - 0.5f) * 20;
    worst = std::max(worst, errorInUlp(compiled(a, b), std::pow(double(a), double(b))));
  }
  std::printf("pow    %.2f ulp\n", worst);
  EXPECT_LE(worst, 3);
}

TEST(PowTest, HasIeeeSpecialValues) {
  auto *compiled = Compiled::instance().function<float (*)(float, float)>("pow");
  ASSERT_NE(compiled, nullptr);
  const float values[] = {0.f,  -0.f, 1.f,   -1.f, 2.f,   -2.f, 3.f,  -3.f,
                          0.5f, -0.5, 1e30f, kInf, -kInf, NAN,  -7.f, 1e-40f};
  for (float a : values)
    for (float b : values) {
      float expected = float(std::pow(double(a), double(b))), actual = compiled(a, b);
      EXPECT_LE(errorInUlp(actual, expected), 3) << a << "^" << b << " is " << actual;
      if (!std::isnan(expected))
        EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << a << "^" << b;
    }
}

} // namespace
} // namespace tensmith::graph
