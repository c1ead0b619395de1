// That kernels' code computes what it says, on this machine, and is the machine code that was asked
// for.
#include "compiler/targets/PlainCode.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include <cmath>
#include <fstream>

namespace tensmith::targets::cpu {
namespace {

/// Compiles, links and runs result[i] = f(operand[i]) over `input`.
template <typename To, typename From>
std::vector<To> runElementwise(const std::string &from, const std::string &to,
                               const std::string &code, const std::vector<From> &input,
                               const Cpu &machine = hostCpu()) {
  auto kernel = LoadedKernel::of(elementwise(from, to, code), machine);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  if (!kernel)
    return {};
  std::vector<To> output(input.size());
  EXPECT_EQ(callKernel((*kernel)->entry(), {const_cast<From *>(input.data()), output.data()},
                       {int64_t(input.size())}),
            0);
  return output;
}

std::vector<float> grid(float low, float high, int count = 10007) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i)
    values.push_back(low + (high - low) * float(i) / float(count - 1));
  return values;
}

void expectClose(const std::string &op, float low, float high, double (*truth)(double),
                 double relative, double absolute) {
  auto input = grid(low, high);
  auto output = runElementwise<float>("f32", "f32", "%y = math." + op + " %x : f32", input);
  ASSERT_EQ(output.size(), input.size());
  double worst = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    double wanted = truth(double(input[i]));
    worst = std::max(worst, std::abs(double(output[i]) - wanted) /
                                (absolute + relative * std::abs(wanted)));
  }
  EXPECT_LT(worst, 1) << op;
}

// Breaks if an elementary function is left to libm (undefined symbol) or its polynomial is off.
TEST(Codegen, ElementaryFunctionsAreAccurate) {
  expectClose("exp", -87, 88, std::exp, 1e-6, 1e-38);
  expectClose("tanh", -9, 9, std::tanh, 1e-6, 1e-7);
  expectClose("erf", -4, 4, std::erf, 2e-6, 1e-7);
  expectClose("log", 1e-3f, 1e4f, std::log, 1e-6, 1e-7);
  expectClose("sin", -100, 100, std::sin, 1e-5, 1e-5);
  expectClose("rsqrt", 1e-3f, 1e3f, [](double x) { return 1 / std::sqrt(x); }, 1e-6, 0);
  expectClose("roundeven", -10, 10, std::nearbyint, 0, 1e-9);
}

uint16_t bf16Of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

TEST(Codegen, SixteenBitFloatsRoundToNearestEven) {
  auto input = grid(-70000, 70000);
  for (float tie :
       {1.00390625f, 1.01171875f, 1.00048828125f, 1.00146484375f, 3e-7f, 0.0f, 65520.0f})
    input.push_back(tie);
  auto bf16 = runElementwise<uint16_t>("f32", "bf16", "%y = arith.truncf %x : f32 to bf16", input);
  auto f16 = runElementwise<uint16_t>("f32", "f16", "%y = arith.truncf %x : f32 to f16", input);
  ASSERT_EQ(bf16.size(), input.size());
  ASSERT_EQ(f16.size(), input.size());
  for (size_t i = 0; i < input.size(); ++i) {
    EXPECT_EQ(bf16[i], bf16Of(input[i])) << input[i];
    _Float16 half = _Float16(input[i]);
    EXPECT_EQ(std::memcmp(&half, &f16[i], 2), 0) << input[i];
  }
  auto back = runElementwise<float>("bf16", "f32", "%y = arith.extf %x : bf16 to f32", bf16);
  for (size_t i = 0; i < input.size(); ++i)
    EXPECT_EQ(bf16Of(back[i]), bf16[i]);
}

// Breaks if a rounding that LLVM sees as a choice between two bf16 becomes a call of __truncsfbf2.
TEST(Codegen, ScalarsOfBFloat16AreStoredAsBits) {
  std::vector<float> input = grid(0.25f, 9);
  std::vector<uint16_t> codes;
  for (float x : input)
    codes.push_back(bf16Of(x));
  auto roots = runElementwise<uint16_t>("bf16", "bf16",
                                        "%w = arith.extf %x : bf16 to f32\n"
                                        "%r = math.sqrt %w : f32\n"
                                        "%y = arith.truncf %r : f32 to bf16",
                                        codes);
  ASSERT_EQ(roots.size(), codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    uint32_t bits = uint32_t(codes[i]) << 16;
    float wide;
    std::memcpy(&wide, &bits, 4);
    EXPECT_EQ(roots[i], bf16Of(std::sqrt(wide)));
  }
}

// Breaks if a machine without F16C gets calls of the compiler's support library, or other values.
TEST(Codegen, HalvesWithoutInstructionsForThem) {
  Cpu machine = *parseCpu("x86-64-v2");
  std::vector<uint16_t> all;
  for (uint32_t code = 0; code < 0x10000; ++code)
    all.push_back(uint16_t(code));
  auto wide = runElementwise<float>("f16", "f32", "%y = arith.extf %x : f16 to f32", all, machine);
  ASSERT_EQ(wide.size(), all.size());
  auto input = grid(-70000, 70000);
  for (uint32_t code = 0; code < 0x10000; ++code) {
    _Float16 half;
    std::memcpy(&half, &all[code], 2);
    float wanted = float(half);
    EXPECT_TRUE(wide[code] == wanted || (std::isnan(wide[code]) && std::isnan(wanted))) << code;
    if (std::isnan(wanted))
      continue;
    input.push_back(wanted);
    input.push_back(std::nextafter(wanted, 1e9f));
    input.push_back((wanted + std::nextafter(wanted * 1.001f, 0.0f)) / 2);
    input.push_back(wanted * (1 + 0x1p-11f)); // ties
  }
  auto narrow =
      runElementwise<uint16_t>("f32", "f16", "%y = arith.truncf %x : f32 to f16", input, machine);
  ASSERT_EQ(narrow.size(), input.size());
  for (size_t i = 0; i < input.size(); ++i) {
    _Float16 half = _Float16(input[i]);
    if (!std::isnan(input[i]))
      EXPECT_EQ(std::memcmp(&half, &narrow[i], 2), 0) << input[i];
  }
}

// Breaks if LLVM sees that bits without their sign are an absolute value, of which it makes calls.
TEST(Codegen, MagnitudesOfHalvesWithoutInstructionsForThem) {
  std::vector<uint16_t> input{0x3c00, 0xbc00, 0x8000, 0xfc00};
  auto output = runElementwise<float>("f16", "f32",
                                      "%w = arith.extf %x : f16 to f32\n%y = math.absf %w : f32",
                                      input, *parseCpu("x86-64-v2"));
  EXPECT_EQ(output, std::vector<float>({1, 1, 0, std::numeric_limits<float>::infinity()}));
}

// Breaks if a double is rounded by way of the nearest float: these lie just beside a tie that a
// float can't tell.
TEST(Codegen, DoublesAreRoundedToHalfOnce) {
  std::vector<double> input = {1 + 0x1p-11 + 0x1p-40,
                               1 + 0x1p-11 - 0x1p-40,
                               1 + 3 * 0x1p-11 - 0x1p-45,
                               -1 - 0x1p-11 - 0x1p-40,
                               65519.9999999,
                               1e300,
                               -1e300,
                               0,
                               1e-300,
                               0x1p-25 + 0x1p-60,
                               std::nan("")};
  auto output = runElementwise<uint16_t>("f64", "f16", "%y = arith.truncf %x : f64 to f16", input);
  ASSERT_EQ(output.size(), input.size());
  std::vector<uint16_t> wanted = {0x3c01, 0x3c00, 0x3c01, 0xbc01, 0x7bff,
                                  0x7c00, 0xfc00, 0,      0,      0x0001};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(output[i], wanted[i]) << input[i];
  EXPECT_GT(output.back() & 0x7fff, 0x7c00);
}

TEST(Codegen, RemainderIsExact) {
  auto input = grid(-1e6f, 1e6f);
  auto output = runElementwise<float>(
      "f32", "f32", "%c = arith.constant 0.3 : f32\n%y = arith.remf %x, %c : f32", input);
  ASSERT_EQ(output.size(), input.size());
  for (size_t i = 0; i < input.size(); ++i)
    EXPECT_EQ(output[i], std::fmod(input[i], 0.3f)) << input[i];
}

/// Masked loads of the rest of a vector must not touch what lies behind it.
TEST(Codegen, MaskedVectorsStopAtTheEnd) {
  std::string text = frame(2, R"(
  func.func private @tensmith_kernel.inner(%in: !llvm.ptr {llvm.noalias}, %out: !llvm.ptr {llvm.noalias}, %begin: index, %end: index) {
    %zero = arith.constant dense<0.0> : vector<8xf32>
    %mask = vector.create_mask %end : vector<8xi1>
    %x = llvm.intr.masked.load %in, %mask, %zero {alignment = 4 : i32} : (!llvm.ptr, vector<8xi1>, vector<8xf32>) -> vector<8xf32>
    %e = math.exp %x : vector<8xf32>
    llvm.intr.masked.store %e, %out, %mask {alignment = 4 : i32} : vector<8xf32>, vector<8xi1> into !llvm.ptr
    return
  })");
  auto kernel = LoadedKernel::of(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7}, y(8, -1);
  callKernel((*kernel)->entry(), {x.data(), y.data()}, {5});
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(y[size_t(i)], i < 5 ? std::exp(float(i)) : -1, i < 5 ? 1e-4 : 0) << i;
}

/// An operator as structured code on memrefs: every stage of the lowering has work.
const char *const kMatmul = R"(
  func.func private @tensmith_kernel.inner(%a: memref<DIMxDIMxf32> {llvm.noalias}, %b: memref<DIMxDIMxf32> {llvm.noalias},
                                           %c: memref<DIMxDIMxf32> {llvm.noalias}) attributes {passthrough = ["noinline"]} {
    linalg.matmul ins(%a, %b : memref<DIMxDIMxf32>, memref<DIMxDIMxf32>) outs(%c : memref<DIMxDIMxf32>)
    return
  }
  llvm.func @tensmith_kernel(%call: !llvm.ptr) -> i32 {
    %operands = llvm.load %call : !llvm.ptr -> !llvm.ptr
    POINTERS
    func.call @tensmith_kernel.inner(%m0, %m1, %m2) : (memref<DIMxDIMxf32>, memref<DIMxDIMxf32>, memref<DIMxDIMxf32>) -> ()
    %zero = llvm.mlir.constant(0 : i32) : i32
    llvm.return %zero : i32
  }
)";

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// A descriptor of a dense 24 x 24 matrix, built as an emitter builds it.
std::string matrix(const std::string &number, bool dynamic) {
  std::string n = number, s = "!llvm.struct<(ptr, ptr, i64, array<2 x i64>, array<2 x i64>)>", text;
  text += "%q" + n + " = llvm.getelementptr %operands[" + n +
          "] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n";
  text += "%p" + n + " = llvm.load %q" + n + " : !llvm.ptr -> !llvm.ptr\n";
  text += "%n" + n + " = llvm.mlir.constant(24 : i64) : i64\n%o" + n +
          " = llvm.mlir.constant(1 : i64) : i64\n";
  text += "%z" + n + " = llvm.mlir.constant(0 : i64) : i64\n%d" + n +
          "_0 = llvm.mlir.undef : " + s + "\n";
  const char *fields[][2] = {{"p", "[0]"},    {"p", "[1]"},    {"z", "[2]"},   {"n", "[3, 0]"},
                             {"n", "[3, 1]"}, {"n", "[4, 0]"}, {"o", "[4, 1]"}};
  int step = 0;
  for (auto &[value, place] : fields) {
    std::string before = "%d" + n + "_" + std::to_string(step),
                after = "%d" + n + "_" + std::to_string(++step);
    text += after + " = llvm.insertvalue %" + value + n + ", " + before + place + " : " + s + "\n";
  }
  std::string type = dynamic ? "memref<?x?xf32>" : "memref<24x24xf32>";
  return text + "%m" + n + " = builtin.unrealized_conversion_cast %d" + n + "_7 : " + s + " to " +
         type + "\n";
}

std::string matmul(bool dynamic) {
  std::string text = replaceAll(kMatmul, "DIM", dynamic ? "?" : "24");
  return replaceAll(text, "POINTERS",
                    matrix("0", dynamic) + matrix("1", dynamic) + matrix("2", dynamic));
}

TEST(Codegen, StructuredCodeOnMemrefs) {
  for (bool dynamic : {false, true}) {
    auto kernel = LoadedKernel::of(matmul(dynamic));
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    std::vector<float> a(576), b(576), c(576);
    for (size_t i = 0; i < 576; ++i)
      a[i] = float(i % 7), b[i] = float(i % 5);
    callKernel((*kernel)->entry(), {a.data(), b.data(), c.data()}, {});
    for (size_t row = 0; row < 24; ++row)
      for (size_t column = 0; column < 24; ++column) {
        float sum = 0;
        for (size_t k = 0; k < 24; ++k)
          sum += a[row * 24 + k] * b[k * 24 + column];
        EXPECT_EQ(c[row * 24 + column], sum);
      }
  }
}

/// What a stage of a kernel's compilation for a machine dumps: ".s", ".opt.ll".
std::string dumpOf(const std::string &text, const char *machineName, const std::string &stage) {
  TemporaryFolder folder;
  CodegenOptions options;
  options.dumpFolder = folder.path();
  auto object = compileText(text, *parseCpu(machineName), options);
  EXPECT_TRUE(object.ok()) << object.status().message();
  std::ifstream in(folder.path() + "/tensmith_kernel" + stage);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string kAxpy = frame(3, R"(
  func.func private @tensmith_kernel.inner(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %z: !llvm.ptr {llvm.noalias},
                                           %begin: index, %end: index) attributes {passthrough = ["noinline"]} {
    %one = arith.constant 1 : index
    scf.for %i = %begin to %end step %one {
      %n = arith.index_cast %i : index to i64
      %xp = llvm.getelementptr %x[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %yp = llvm.getelementptr %y[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %zp = llvm.getelementptr %z[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %a = llvm.load %xp : !llvm.ptr -> f32
      %b = llvm.load %yp : !llvm.ptr -> f32
      %f = math.fma %a, %b, %b : f32
      llvm.store %f, %zp : f32, !llvm.ptr
    }
    return
  })");

// Breaks if the arguments' noalias is lost or the vector width isn't the machine's.
TEST(Codegen, LoopsAreVectorisedForTheMachine) {
  std::string v3 = dumpOf(kAxpy, "x86-64-v3", ".s"),
              skylake = dumpOf(kAxpy, "skylake-avx512", ".s");
  EXPECT_TRUE(v3.find("vfmadd") != std::string::npos && v3.find("ymm") != std::string::npos) << v3;
  EXPECT_EQ(v3.find("zmm"), std::string::npos);
  EXPECT_NE(skylake.find("zmm"), std::string::npos) << skylake;
}

// Breaks if a loop that looks for the largest or the least is no reduction to LLVM: it took 16
// times as long. And if a product and a sum that may be rounded once are left to what else uses the
// product.
TEST(Codegen, ExtremaAreVectorisedAndMultiplyAddsFused) {
  std::string text = frame(3, R"(
  func.func private @tensmith_kernel.inner(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %z: !llvm.ptr {llvm.noalias},
                                           %begin: index, %end: index) attributes {passthrough = ["noinline"]} {
    %one = arith.constant 1 : index
    %low = arith.constant 0xFF800000 : f32
    %most = scf.for %i = %begin to %end step %one iter_args(%carried = %low) -> f32 {
      %n = arith.index_cast %i : index to i64
      %xp = llvm.getelementptr %x[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %a = llvm.load %xp : !llvm.ptr -> f32
      %next = arith.maximumf %carried, %a fastmath<nsz> : f32
      scf.yield %next : f32
    }
    llvm.store %most, %y : f32, !llvm.ptr
    %product = arith.mulf %most, %most fastmath<contract> : f32
    %sum = arith.addf %product, %low fastmath<contract> : f32
    llvm.store %product, %z : f32, !llvm.ptr
    llvm.store %sum, %x : f32, !llvm.ptr
    return
  })");
  std::string v3 = dumpOf(text, "x86-64-v3", ".opt.ll"), v2 = dumpOf(text, "x86-64-v2", ".s");
  EXPECT_NE(v3.find("llvm.maximum.v8f32"), std::string::npos) << v3;
  EXPECT_NE(v3.find("llvm.fma.f32"), std::string::npos) << v3;
  EXPECT_EQ(v2.find("fmaf"), std::string::npos) << v2; // where there is no such instruction
}

// Breaks if a small inner loop hides the loop around it from the vectoriser, or if a short row is
// unrolled instead of vectorised.
TEST(Codegen, SmallLoopsAreUnrolledAndShortRowsVectorised) {
  std::string window = frame(2, R"(
  func.func private @tensmith_kernel.inner(%in: !llvm.ptr {llvm.noalias}, %out: !llvm.ptr {llvm.noalias}, %begin: index, %end: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %extent = arith.constant EXTENT : index
    %none = arith.constant 0.0 : f32
    scf.for %i = %begin to %end step %one {
      %sum = scf.for %w = %zero to %extent step %one iter_args(%carried = %none) -> f32 {
        %at = arith.addi %i, %w : index
        %n = arith.index_cast %at : index to i64
        %p = llvm.getelementptr %in[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %x = llvm.load %p : !llvm.ptr -> f32
        %next = arith.addf %carried, %x : f32
        scf.yield %next : f32
      }
      %n = arith.index_cast %i : index to i64
      %p = llvm.getelementptr %out[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %sum, %p : f32, !llvm.ptr
    }
    return
  })");
  std::string small = dumpOf(replaceAll(window, "EXTENT", "3"), "x86-64-v3", ".opt.ll");
  std::string large = dumpOf(replaceAll(window, "EXTENT", "300"), "x86-64-v3", ".opt.ll");
  EXPECT_NE(small.find("fadd <8 x float>"), std::string::npos);
  EXPECT_EQ(large.find("fadd <8 x float>"), std::string::npos); // the sum's order is the program's
}

// Breaks if what an argument says of its memory is lost where it becomes a descriptor: LLVM would
// compare addresses at run time.
TEST(Codegen, DescriptorsKeepNoalias) {
  std::string text = replaceAll(
      matmul(true),
      "linalg.matmul ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)", R"(
    linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                    iterator_types = ["parallel", "parallel"]}
        ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %s = arith.addf %x, %y : f32
      linalg.yield %s : f32
    })");
  ASSERT_NE(text.find("linalg.generic"), std::string::npos);
  std::string with = dumpOf(text, "skylake-avx512", ".opt.ll");
  std::string without =
      dumpOf(replaceAll(text, " {llvm.noalias}", ""), "skylake-avx512", ".opt.ll");
  EXPECT_NE(with.find("vector.body"), std::string::npos);
  auto checks = [](const std::string &code) { // of distances, or of bounds
    return code.find("diff.check") != code.npos || code.find("bound0") != code.npos;
  };
  EXPECT_FALSE(checks(with));
  EXPECT_TRUE(checks(without)) << "the test doesn't see the checks";
}

// Breaks if loops become calls of memset or memcpy, which a kernel can't link to.
TEST(Codegen, ClearingAndCopyingCallNothing) {
  std::string copy = elementwise("f32", "f32", "%y = arith.addf %x, %x : f32");
  copy = replaceAll(copy, "%y = arith.addf %x, %x : f32", "%y = llvm.bitcast %x : f32 to f32");
  EXPECT_TRUE(compileText(copy, hostCpu()).ok());
  std::string clear = elementwise("f32", "f32", "%y = arith.constant 0.0 : f32");
  auto object = compileText(clear, hostCpu());
  EXPECT_TRUE(object.ok()) << object.status().message();
}

// Breaks if a choice by comparison of single f16 becomes a call of fmaxf.
TEST(Codegen, ChoicesOfHalvesCallNothing) {
  std::string text = R"(
    func.func @tensmith_kernel(%from: memref<?xi16>, %to: memref<?xf16>, %i: index) {
      %none = arith.constant 0.0 : f16
      %half = arith.constant 0.5 : f16
      %bits = memref.load %from[%i] : memref<?xi16>
      %x = arith.uitofp %bits : i16 to f16
      %y = arith.subf %half, %x : f16
      %positive = arith.cmpf ogt, %y, %none : f16
      %chosen = arith.select %positive, %y, %none : f16
      memref.store %chosen, %to[%i] : memref<?xf16>
      return
    })";
  auto object = compileText(text, hostCpu());
  EXPECT_TRUE(object.ok()) << object.status().message();
}

TEST(Codegen, CallsToTheOutsideAreNamed) {
  auto result = compileText(elementwise("f64", "f64", "%y = math.exp %x : f64"), hostCpu());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::Internal);
  EXPECT_NE(result.status().message().find("exp"), std::string::npos) << result.status().message();
}

TEST(Codegen, ModulesThatDoNotLowerAreErrors) {
  EXPECT_FALSE(compileText("", hostCpu()).ok());
  EXPECT_FALSE(compileText("func.func @tensmith_kernel(%t: tensor<4xf32>) -> tensor<4xf32> { "
                           "return %t : tensor<4xf32> }",
                           hostCpu())
                   .ok());
}

// Breaks if one of the vector dialect's larger operations has no lowering, or a wrong one.
TEST(Codegen, StructuredVectors) {
  std::string text = replaceAll(
      matmul(true),
      "linalg.matmul ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)", R"(
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    %2 = arith.constant 2 : index
    %f0 = arith.constant 0.0 : f32
    %n = memref.dim %a, %0 : memref<?x?xf32>
    %x = vector.transfer_read %a[%0, %0], %f0 {in_bounds = [true, true]} : memref<?x?xf32>, vector<4x8xf32>
    %t = vector.transpose %x, [1, 0] : vector<4x8xf32> to vector<8x4xf32>
    %zeros = arith.constant dense<0.0> : vector<4x4xf32>
    %p = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
         %x, %t, %zeros : vector<4x8xf32>, vector<8x4xf32> into vector<4x4xf32>
    vector.transfer_write %p, %c[%0, %0] : vector<4x4xf32>, memref<?x?xf32>
    %zero4 = arith.constant dense<0.0> : vector<4xf32>
    %sums = vector.multi_reduction <add>, %x, %zero4 [1] : vector<4x8xf32> to vector<4xf32>
    vector.transfer_write %sums, %c[%1, %n] : vector<4xf32>, memref<?x?xf32>
    %tail = arith.subi %n, %2 : index
    vector.transfer_write %sums, %c[%0, %tail] : vector<4xf32>, memref<?x?xf32>
    %flat = vector.shape_cast %x : vector<4x8xf32> to vector<32xf32>
    %max = vector.reduction <maximumf>, %flat : vector<32xf32> into f32
    memref.store %max, %c[%1, %tail] : memref<?x?xf32>
    %at = arith.constant dense<[3, 1, 2, 0]> : vector<4xi32>
    %all = arith.constant dense<true> : vector<4xi1>
    %g = vector.gather %a[%0, %0] [%at], %all, %zero4 : memref<?x?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
    %8 = arith.constant 8 : index
    vector.store %g, %c[%8, %8] : memref<?x?xf32>, vector<4xf32>)");
  ASSERT_NE(text.find("vector.gather"), std::string::npos);
  ASSERT_TRUE(compileText(text, *parseCpu("skylake-avx512")).ok());
  auto kernel = LoadedKernel::of(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<float> a(576), b(576), c(576, -1);
  for (size_t i = 0; i < 576; ++i)
    a[i] = float(i % 11);
  callKernel((*kernel)->entry(), {a.data(), b.data(), c.data()}, {});
  auto at = [&](size_t row, size_t column) { return a[row * 24 + column]; };
  constexpr size_t gathered[] = {3, 1, 2, 0};
  float largest = 0, sums[4] = {};
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < 8; ++k) {
      sums[i] += at(i, k);
      largest = std::max(largest, at(i, k));
    }
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 4; ++j) {
      float product = 0;
      for (size_t k = 0; k < 8; ++k)
        product += at(i, k) * at(j, k);
      EXPECT_EQ(c[i * 24 + j], product) << i << ", " << j;
    }
  EXPECT_EQ(c[22], sums[0]); // the row's last two; what lies outside is not written
  EXPECT_EQ(c[23], sums[1]);
  EXPECT_EQ(c[24 + 22], largest);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(c[8 * 24 + 8 + i], a[gathered[i]]);
}

/// Breaks if several kernels that are linked together have their inner functions twice.
TEST(PlainCode, OnlyTheEntryIsSeenFromOutside) {
  llvm::LLVMContext context;
  KernelSource source{"k", R"(
    func.func @tensmith_kernel.inner() { return }
    func.func @tensmith_kernel() {
      func.call @tensmith_kernel.inner() : () -> ()
      return
    })"};
  auto module = plainCode(source, 128, context);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (const llvm::Function &function : **module)
    if (!function.isDeclaration())
      EXPECT_EQ(function.hasInternalLinkage(), function.getName() != "tensmith_kernel")
          << function.getName().str();
}

} // namespace
} // namespace tensmith::targets::cpu
