// That an access outside of the stated extents isn't done, and ends the run.
#include "compiler/targets/cpu/test/KernelHarness.h"

namespace tensmith::targets::cpu {
namespace {

constexpr int64_t kFloats = 5; // of each operand

/// A kernel of two operands of five floats; `code` is between %in, %out and the size %n.
std::string kernelOf(const std::string &code, const std::string &extents = R"(
    llvm.call @tensmith_kernel.extent(%in, %bytes) : (!llvm.ptr, i64) -> ()
    llvm.call @tensmith_kernel.extent(%out, %bytes) : (!llvm.ptr, i64) -> ())") {
  std::string text = frame(2, R"(
  llvm.func @tensmith_kernel.extent(!llvm.ptr, i64)
  func.func private @tensmith_kernel.inner(%call: !llvm.ptr, %in: !llvm.ptr {llvm.noalias}, %out: !llvm.ptr {llvm.noalias}, %begin: index, %end: index) {
    %bytes = llvm.mlir.constant(20 : i64) : i64
    %n = arith.index_cast %end : index to i64)" +
                                  extents + code + R"(
    return
  })");
  size_t call = text.find("func.call @tensmith_kernel.inner(");
  text.insert(text.find('(', call) + 1, "%call, ");
  text.insert(text.find(": (", call) + 3, "!llvm.ptr, ");
  return text;
}

struct Outcome {
  std::vector<int32_t> codes;
  std::vector<int64_t> operands;
  std::vector<float> results;
};

Outcome *outcomeOf(const TensmithCall *call) { return static_cast<Outcome *>(call->context); }

Result<Outcome> run(const std::string &text, int64_t size) {
  auto kernel = LoadedKernel::of(text);
  if (!kernel.ok())
    return kernel.status();
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  Outcome outcome{{}, {}, std::vector<float>(16, -1)};
  TensmithServices services{};
  services.parallel_for = [](const TensmithCall *, int64_t count, int64_t, TensmithBody body,
                             void *closure) { body(closure, 0, count); };
  services.fail = [](const TensmithCall *call, int32_t code, int64_t detail) -> int32_t {
    outcomeOf(call)->codes.push_back(code);
    outcomeOf(call)->operands.push_back(detail);
    return 1;
  };
  void *operands[] = {x.data(), outcome.results.data()};
  TensmithCall call{operands, &size, &services, &outcome};
  (*kernel)->entry()(&call);
  return outcome;
}

void expectChecked(const std::string &code, int64_t allowed, int64_t refused, int64_t operand) {
  auto inside = run(kernelOf(code), allowed), outside = run(kernelOf(code), refused);
  ASSERT_TRUE(inside.ok()) << inside.status().message();
  ASSERT_TRUE(outside.ok()) << outside.status().message();
  EXPECT_TRUE(inside->codes.empty());
  EXPECT_NE(inside->results, std::vector<float>(16, -1));
  EXPECT_EQ(outside->codes, std::vector<int32_t>{TENSMITH_FAIL_OUTSIDE});
  EXPECT_EQ(outside->operands, std::vector<int64_t>{operand});
  EXPECT_EQ(outside->results, std::vector<float>(16, -1));
}

TEST(BoundsChecks, OfSingleElements) {
  const char *const kRead = R"(
    %at = llvm.getelementptr %in[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %x = llvm.load %at : !llvm.ptr -> f32
    llvm.store %x, %out : f32, !llvm.ptr)";
  expectChecked(kRead, kFloats - 1, kFloats, 0);
  expectChecked(kRead, 1, int64_t(1) << 40, 0);
  const char *const kWritten = R"(
    %two = llvm.mlir.constant(2 : i64) : i64
    %from = arith.subi %two, %n : i64
    %at = llvm.getelementptr %out[%from] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %x = llvm.load %in : !llvm.ptr -> f32
    llvm.store %x, %at : f32, !llvm.ptr)";
  expectChecked(kWritten, 2, 3, 1); // before the first element
}

TEST(BoundsChecks, OfMaskedVectorsInTheirLanes) {
  const char *const kCopied = R"(
    %zero = arith.constant dense<0.0> : vector<8xf32>
    %mask = vector.create_mask %end : vector<8xi1>
    %x = llvm.intr.masked.load %in, %mask, %zero {alignment = 4 : i32} : (!llvm.ptr, vector<8xi1>, vector<8xf32>) -> vector<8xf32>
    llvm.intr.masked.store %x, %out, %mask {alignment = 4 : i32} : vector<8xf32>, vector<8xi1> into !llvm.ptr)";
  expectChecked(kCopied, kFloats, kFloats + 1, 0);
}

TEST(BoundsChecks, OfEachLaneOfAGather) {
  const char *const kGathered = R"(
    %numbers = arith.constant dense<[0, 1, 2, 9]> : vector<4xi64>
    %mask = vector.create_mask %end : vector<4xi1>
    %none = arith.constant dense<0.0> : vector<4xf32>
    %at = llvm.getelementptr %in[%numbers] : (!llvm.ptr, vector<4xi64>) -> !llvm.vec<4 x ptr>, f32
    %x = llvm.intr.masked.gather %at, %mask, %none {alignment = 4 : i32} : (!llvm.vec<4 x ptr>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
    llvm.store %x, %out : vector<4xf32>, !llvm.ptr)";
  expectChecked(kGathered, 3, 4, 0);
}

// Breaks where a template asks for memory of which it doesn't say where it ends.
TEST(BoundsChecks, NothingIsReadWithoutAnExtent) {
  auto outcome = run(kernelOf(R"(
    %x = llvm.load %in : !llvm.ptr -> f32
    llvm.store %x, %out : f32, !llvm.ptr)",
                              R"(
    llvm.call @tensmith_kernel.extent(%in, %bytes) : (!llvm.ptr, i64) -> ())"),
                     1);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.status().message().find("no extent is stated"), std::string::npos)
      << outcome.status().message();
}

} // namespace
} // namespace tensmith::targets::cpu
