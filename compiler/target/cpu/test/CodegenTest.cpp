// That kernels' code computes what it says, on this machine, and is the machine code that was asked
// for.
#include "compiler/target/cpu/test/KernelHarness.h"

#include <cmath>
#include <cstdio>

namespace tensmith::target::cpu {
namespace {

/// Compiles, links and runs result[i] = f(operand[i]) over `input`.
template <typename To, typename From>
std::vector<To> runElementwise(const std::string &from, const std::string &to,
                               const std::string &code, const std::vector<From> &input) {
  KernelCompilerOptions options;
  options.cacheFolder.clear();
  KernelSource source{"test", elementwise(from, to, code)};
  auto kernels = compileKernels({&source, 1}, hostMachine(), options);
  EXPECT_TRUE(kernels.ok()) << kernels.status().message();
  if (!kernels)
    return {};
  TemporaryFolder folder;
  ModuleParts parts;
  parts.objects = kernels->objects;
  Status status = writeModule(parts, folder.path() + "/m.so");
  EXPECT_TRUE(status.ok()) << status.message();
  LoadedModule module(folder.path() + "/m.so");
  TensmithKernel kernel = module.kernel(kernels->symbols[0]);
  EXPECT_NE(kernel, nullptr);
  std::vector<To> output(input.size());
  if (kernel)
    EXPECT_EQ(callKernel(kernel, {const_cast<From *>(input.data()), output.data()},
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

} // namespace
} // namespace tensmith::target::cpu
