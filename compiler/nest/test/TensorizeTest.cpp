// That tiles become instructions where these compute the same, and are refused elsewhere.
#include "compiler/kernel/Machine.h"
#include "compiler/nest/test/Declarations.h"
#include "compiler/nest/test/Expectations.h"
#include "compiler/nest/test/Programs.h"
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include <fstream>
#include <random>

namespace tensmith::nest::test {
namespace {

using kernel::Number;

TileIntrinsics only(Result<TileIntrinsic> intrinsic) {
  EXPECT_TRUE(intrinsic.ok()) << intrinsic.status().message();
  return intrinsic ? TileIntrinsics{std::make_shared<TileIntrinsic>(std::move(*intrinsic))}
                   : TileIntrinsics{};
}

/// This machine's instructions, and sums of bytes and of pairs of bf16 as any machine makes them,
/// by the names of x86's where this one lacks them.
TileIntrinsics hostIntrinsics() {
  constexpr int64_t kVectorBytes = 64;
  TileIntrinsics result = tileIntrinsics(targets::cpu::intrinsicsOf(targets::cpu::hostCpu()),
                                         targets::cpu::hostCpu().vectorBits / 8);
  for (auto [number, sum, name] : {std::tuple(Number::U8, Number::I32, "vpdpbusd"),
                                   std::tuple(Number::BF16, Number::F32, "vdpbf16ps")}) {
    Number right = number == Number::U8 ? Number::I8 : number;
    auto portable = tileIntrinsic(*kernel::portableIntrinsic(number, right, sum), kVectorBytes);
    portable->name = name;
    result.push_back(std::make_shared<TileIntrinsic>(std::move(*portable)));
  }
  return result;
}

Result<Schedule> scheduled(const Nest &nest, const std::string &text,
                           const TileIntrinsics &intrinsics) {
  auto schedule = Schedule::of(nest);
  if (schedule)
    schedule->setIntrinsics(intrinsics);
  Status status = schedule ? schedule->apply(text) : schedule.status();
  if (!status.ok())
    return status;
  return schedule;
}

/// The text is taken, there is such a step, and the results are those of the nest.
void expectTiles(const Nest &nest, const std::string &text, const TileIntrinsics &intrinsics,
                 const std::string &step, const std::vector<std::vector<int64_t>> &sizes) {
  auto schedule = scheduled(nest, text, intrinsics);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  std::string loops = *loopText(*schedule);
  EXPECT_NE(loops.find(step), std::string::npos) << loops;
  auto kernel = RunnableNest::of(*schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  for (const auto &each : sizes)
    EXPECT_EQ(difference(*kernel, nest, each, 1), "") << loops;
}

void expectNoTile(const Nest &nest, const std::string &text, const TileIntrinsics &intrinsics,
                  const std::string &part) {
  auto schedule = scheduled(nest, text, intrinsics);
  ASSERT_FALSE(schedule.ok()) << text;
  EXPECT_NE(schedule.status().message().find(part), std::string::npos)
      << schedule.status().message();
}

const std::string kConvolution = "split f 16 -> f0 f1\nsplit c 4 -> c0 c1\n"
                                 "reorder n y x f0 r s c0 f1 c1\n";
const std::vector<std::vector<int64_t>> kConvolutionSizes = {
    {2, 3, 4, 35, 10}, {1, 2, 2, 16, 4}, {1, 1, 3, 3, 2}};

// Breaks if bytes are multiplied with others, or tiles that are cut off are taken for whole ones.
TEST(Tensorize, AConvolutionOfSevenPlainLoops) {
  expectTiles(convolutionOf(DataType::U8, DataType::I8),
              kConvolution + "tensorize f1 c1 by vpdpbusd packing", hostIntrinsics(),
              "vpdpbusd add(", kConvolutionSizes);
  // The unsigned factor is the other one: operands are commuted.
  expectTiles(convolutionOf(DataType::I8, DataType::U8),
              kConvolution + "tensorize c1 f1 by vpdpbusd packing\nparallel n", hostIntrinsics(),
              "vpdpbusd add(", kConvolutionSizes);
  expectNoTile(convolutionOf(DataType::I8, DataType::I8),
               kConvolution + "tensorize f1 c1 by vpdpbusd packing", hostIntrinsics(),
               "'add' accumulates (i32(I");
}

// Breaks if sums in registers, rows of tiles or a copy in blocks are not those of the tile.
TEST(Tensorize, ARegisterTileOfBytes) {
  const std::string text = "tile i j by 6 64 -> i0 j0 i1 j1\nsplit k 4 -> k0 k1\n"
                           "reorder j0 i0 k0 i1 j1 k1\ncache_read B at j0 order 0/4 1 0%4 -> P\n"
                           "unroll i1\nsplit j1 16 -> j2 j3\nunroll j2\n"
                           "tensorize j3 k1 by vpdpbusd\nfuse_at start i0\nvectorize j_start 16";
  expectTiles(productOf(DataType::U8, DataType::I8, DataType::I32), text, hostIntrinsics(),
              "accumulators 24", {{13, 150, 9}, {6, 64, 4}, {1, 1, 1}, {12, 128, 64}});
  expectTiles(productOf(DataType::BF16, DataType::BF16, DataType::F32),
              "split j 16 -> j0 j1\nsplit k 2 -> k0 k1\nreorder i j0 k0 j1 k1\n"
              "tensorize j1 k1 by vdpbf16ps packing",
              hostIntrinsics(), "vdpbf16ps add(", {{3, 35, 7}, {1, 16, 2}});
}

// Breaks if an operand that is a copy already is copied again, or is read in its old layout.
TEST(Tensorize, ACopyThatThereIsGetsTheLayout) {
  Nest product = productOf(DataType::U8, DataType::I8, DataType::I32);
  const std::string tiles = "tile i j by 6 64 -> i0 j0 i1 j1\nsplit k 4 -> k0 k1\n"
                            "reorder j0 i0 k0 i1 j1 k1\ncache_read B at j0 -> P\n"
                            "split j1 16 -> j2 j3\n";
  std::vector<std::vector<int64_t>> sizes{{13, 150, 9}, {6, 64, 4}, {1, 1, 1}};
  for (std::string halves : {"", "double_buffer P\n"}) {
    std::string text = tiles + halves + "tensorize j3 k1 by vpdpbusd packing";
    expectTiles(product, text, hostIntrinsics(), "vpdpbusd add(", sizes);
    auto schedule = scheduled(product, text, hostIntrinsics());
    ASSERT_TRUE(schedule.ok());
    EXPECT_EQ(schedule->nest().tensor("P_packed"), nullptr);
  }
  // What was laid out for another instruction stays so.
  expectNoTile(product,
               "split j 16 -> j0 j1\nsplit k 4 -> k0 k1\nreorder j0 i k0 j1 k1\n"
               "cache_read B at j0 order 0/2 1 0%2 -> P\ntensorize j1 k1 by vpdpbusd packing",
               hostIntrinsics(), "'P' doesn't lie as 'vpdpbusd' takes it");
}

/// A 16x16 product unit, which sums up products of four bytes; rows of all its operands may lie
/// apart.
Declaration unit() {
  Declaration result;
  result.name = "unit16";
  result.sizes = {16, 16, 4};
  result.left = {0, 2}, result.right = {1, 2}, result.sums = {0, 1};
  result.leftType = DataType::U8, result.rightType = DataType::I8, result.sumType = DataType::I32;
  result.leftHasPitch = result.rightHasPitch = true;
  return result;
}

// Breaks if rows of a unit's operands or results are mixed up.
TEST(Tensorize, AUnitThatATestDeclares) {
  expectTiles(convolutionOf(DataType::U8, DataType::I8),
              "split x 16 -> x0 x1\nsplit f 16 -> f0 f1\nsplit c 4 -> c0 c1\n"
              "reorder n y x0 f0 r s c0 x1 f1 c1\ntensorize x1 f1 c1 by unit16 packing",
              only(declared(unit())), "unit16 add(", {{1, 2, 18, 17, 9}, {2, 1, 3, 2, 1}});
}

// Breaks if what a declaration says of layouts, types, sizes, operators or results is not looked
// at.
TEST(Tensorize, WrongDeclarationsDoNotMatch) {
  const Nest product = productOf(DataType::U8, DataType::I8, DataType::I32);
  const std::string tile = "split i 16 -> i0 i1\nsplit j 16 -> j0 j1\nsplit k 4 -> k0 k1\n"
                           "reorder i0 j0 k0 i1 j1 k1\ntensorize i1 j1 k1 by unit16";
  auto expect = [&](const Declaration &declaration, const std::string &part) {
    expectNoTile(product, tile, only(declared(declaration)), part);
  };
  // The unit takes columns of B; in the program rows lie side by side.
  expect(unit(), "'B' doesn't lie as 'unit16' takes it");
  Declaration untransposed = unit();
  untransposed.right = {2, 1};
  expectTiles(product, tile, only(declared(untransposed)), "unit16 add(", {{17, 33, 9}});
  Declaration wrong = untransposed;
  wrong.left = {2, 0};
  expect(wrong, "'A' doesn't lie as");
  wrong = untransposed, wrong.sums = {1, 0};
  expect(wrong, "depends on loop 'i1', and its operand of 'unit16' doesn't");
  wrong = untransposed, wrong.leftType = DataType::I8;
  expect(wrong, "accumulates (i32(A");
  wrong = untransposed, wrong.reduction = Reduction::Maximum;
  expect(wrong, "accumulates (i32(A");
  wrong = untransposed, wrong.sizes = {16, 16, 8};
  expect(wrong, "the loops have 16, 16 and 4 iterations, and 'unit16' takes 16, 16 and 8");
  wrong = untransposed, wrong.left = {2};
  expect(wrong, "'A' depends on loop 'i1', and its operand of 'unit16' doesn't");
  wrong = untransposed, wrong.rightHasPitch = false;
  expect(wrong, "'B' doesn't lie as");
  wrong = untransposed, wrong.sums = {1};
  expect(wrong, "'C' depends on loop ");
}

// Breaks if a tile's points run at once that must not, or something else comes between them.
TEST(Tensorize, IllegalTilesAreRefused) {
  Declaration line;
  line.name = "fma", line.sizes = {4}, line.left = line.right = line.sums = {0};
  Nest carried; // C[i] += C[i - 1] * A[i]
  carried.parameters = {{"N", 1}};
  carried.tensors = {{"A", DataType::F32, {"N"}},
                     {"C", DataType::F32, {"N"}, Tensor::Role::Output}};
  auto at = [&](size_t tensor, Affine index) {
    return load(carried.tensors[tensor], std::vector<Affine>{index});
  };
  Statement start{"start",      {"s"},           within("s", 0, "N"), "C",
                  {index("s")}, Reduction::None, at(0, "s")};
  Statement add{"add",
                {"i"},
                within("i", 1, "N"),
                "C",
                {index("i")},
                Reduction::Add,
                apply(Operation::Multiply, {at(1, Affine("i") - 1), at(0, "i")})};
  carried.statements = {start, add};
  expectNoTile(carried, "split i 4 -> i0 i1\ntensorize i1 by fma", only(declared(line)),
               "it carries the flow of 'C' within 'add'");
  const Nest product = productOf(DataType::U8, DataType::I8, DataType::I32);
  TileIntrinsics bytes = hostIntrinsics();
  const std::string loops = "split j 16 -> j0 j1\nsplit k 4 -> k0 k1\n";
  expectNoTile(product, loops + "reorder i j0 j1 k0 k1\ntensorize j1 k1 by vpdpbusd", bytes,
               "may stand its other loops and one statement alone");
  const std::string tile = loops + "reorder i j0 k0 j1 k1\ntensorize j1 k1 by vpdpbusd packing\n";
  expectNoTile(product, tile + "reorder j1 k0", bytes, "'j1' is of 'vpdpbusd'");
  expectNoTile(product, tile + "split j1 2 -> a b", bytes, "of an instruction already");
  expectNoTile(product, tile + "cache_read A at k1 -> Q", bytes, "'k1' is of 'vpdpbusd'");
  expectNoTile(product, tile + "cache_write C at k0 order 1 0 -> W", bytes,
               "must lie side by side");
  expectNoTile(product, loops + "tensorize j1 k1 by nothing", bytes,
               "the target has no instruction 'nothing' for tiles; it has ");
  expectNoTile(product, "tensorize j by vpdpbusd", bytes, "known number of iterations");
  expectNoTile(product, "cache_read B order 0/4 1 -> P", bytes, "must name each of the 2");
  expectNoTile(product, "cache_read B order 0%4 1 0/4 -> P", bytes, "must name each of the 2");
  expectNoTile(product, "cache_read B order 0/0 1 0%0 -> P", bytes, "write it as");
}

// Breaks if the marks of tiles are lost in the tree's text.
TEST(Tensorize, TreesAreReadBack) {
  auto schedule = scheduled(convolutionOf(DataType::U8, DataType::I8),
                            kConvolution + "tensorize f1 c1 by vpdpbusd packing", hostIntrinsics());
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  Schedule other = schedule->copy();
  Status status = other.setTree(schedule->tree());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(loopText(other)->find("vpdpbusd add("), std::string::npos);
}

/// A random order of some of the dimensions; at times one of them is missing.
std::vector<unsigned> drawDims(std::mt19937_64 &random, std::vector<unsigned> dims) {
  std::shuffle(dims.begin(), dims.end(), random);
  if (random() % 8 == 0)
    dims.pop_back();
  return dims;
}

/// C[i, j] += A[...] * B[...], whose operands lie in a random order.
Nest drawProduct(std::mt19937_64 &random) {
  Nest nest = product();
  auto lie = [&](size_t tensor, std::vector<Affine> indices) {
    if (random() % 2) {
      std::swap(nest.tensors[tensor].extents[0], nest.tensors[tensor].extents[1]);
      std::swap(indices[0], indices[1]);
    }
    return load(nest.tensors[tensor], indices);
  };
  Expr a = lie(0, {"i", "k"}), b = lie(1, {"k", "j"});
  nest.statements[1].value =
      apply(Operation::Multiply, random() % 2 ? std::vector{a, b} : std::vector{b, a});
  return nest;
}

// Of random declarations on random programs, breaks if one that computes something else is taken:
// the instruction's code goes by its declaration alone, and the results are compared.
TEST(Tensorize, RandomDeclarations) {
  std::mt19937_64 random(38);
  int taken = 0, refused = 0;
  for (int draw = 0; draw < 60; ++draw) {
    Nest nest = drawProduct(random);
    Declaration own;
    for (int dim = 0; dim < 3; ++dim)
      own.sizes.push_back(int64_t(1) << random() % 3);
    own.sums = drawDims(random, {0, 1});
    own.left = drawDims(random, {0, 2});
    own.right = drawDims(random, {1, 2});
    own.leftHasPitch = random() % 2, own.rightHasPitch = random() % 2;
    auto intrinsic = declared(own);
    if (!intrinsic)
      continue; // of one element
    std::string text, tile, outer;
    const char *names[] = {"i", "j", "k"};
    for (size_t dim = 0; dim < 3; ++dim) {
      std::string name = names[dim];
      outer += " " + name + "0";
      tile += own.sizes[dim] > 1 ? " " + name + "1" : "";
      text += "split " + name + " " + std::to_string(own.sizes[dim]) + " -> " + name + "0 " + name +
              "1\n";
      outer += own.sizes[dim] > 1 ? "" : " " + name + "1";
    }
    text += "reorder" + outer + tile + "\ntensorize" + tile + " by unit" +
            (random() % 2 ? " packing" : "");
    auto schedule = scheduled(nest, text, only(std::move(intrinsic)));
    if (!schedule) {
      EXPECT_NE(schedule.status().code(), StatusCode::Internal) << schedule.status().message();
      ++refused;
      continue;
    }
    ++taken;
    auto kernel = RunnableNest::of(*schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message() << text;
    for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{9, 10, 7}, {4, 4, 4}, {1, 2, 1}})
      ASSERT_EQ(difference(*kernel, nest, sizes, uint64_t(draw)), "")
          << text << "\n"
          << nest::text(nest) << *loopText(*schedule);
  }
  EXPECT_GT(taken, 15);
  EXPECT_GT(refused, 15);
}

/// The C program that calls a convolution's kernel and sums up by itself.
const char *const kConvolutionProgram = R"(
#include "runtime/KernelAbi.h"
#include <stdlib.h>
#include <stdio.h>
int32_t kernel(const TensmithCall *);
static void *scratch(const TensmithCall *call, int64_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }
static int32_t fail(const TensmithCall *call, int32_t code, int64_t detail) { return 1; }
enum { B = 2, H = 3, W = 4, F = 11, C = 10 };
static int8_t image[B][H + 2][W + 2][C], filter[3][3][C][F];
static int32_t out[B][H][W][F];
int main(void) {
  uint32_t state = 1;
  for (size_t i = 0; i < sizeof image; ++i) ((int8_t *)image)[i] = (int8_t)((state = state * 1664525 + 1013904223) >> 24);
  for (size_t i = 0; i < sizeof filter; ++i) ((int8_t *)filter)[i] = (int8_t)((state = state * 1664525 + 1013904223) >> 24);
  void *operands[] = {image, filter, out};
  int64_t sizes[] = {B, H, W, F, C};
  TensmithServices services = {0, scratch, fail, 0};
  TensmithCall call = {operands, sizes, &services, 0};
  kernel(&call);
  for (int n = 0; n < B; ++n) for (int y = 0; y < H; ++y) for (int x = 0; x < W; ++x) for (int f = 0; f < F; ++f) {
    int32_t sum = 0;
    for (int r = 0; r < 3; ++r) for (int s = 0; s < 3; ++s) for (int c = 0; c < C; ++c)
      sum += (int32_t)image[n][y + r][x + s][c] * (int32_t)filter[r][s][c][f];
    if (sum != out[n][y][x][f]) { printf("%d %d %d %d is %d, not %d\n", n, y, x, f, out[n][y][x][f], sum); return 1; }
  }
  return 0;
}
)";

/// Runs the convolution on an emulated ARM, by one of its instructions, which must be in the code.
void expectOnArm(const std::string &machineName, const std::string &text,
                 const std::string &instruction) {
  auto machine = targets::cpu::parseCpu(machineName);
  ASSERT_TRUE(machine.ok());
  auto schedule =
      scheduled(convolutionOf(DataType::I8, DataType::I8), text,
                tileIntrinsics(targets::cpu::intrinsicsOf(*machine), machine->vectorBits / 8));
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  mlir::DialectRegistry registry;
  targets::cpu::registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto kernel = emitNest(*schedule, context);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  targets::cpu::CodegenOptions options;
  options.symbol = "kernel";
  auto object = targets::cpu::compileToObject(*kernel->module, *machine, options);
  ASSERT_TRUE(object.ok()) << object.status().message();
  targets::cpu::TemporaryFolder folder;
  std::ofstream(folder.path() + "/kernel.o", std::ios::binary) << *object;
  std::ofstream(folder.path() + "/main.c") << kConvolutionProgram;
  auto run = [](const std::string &command) { return std::system(command.c_str()); };
  std::string in = folder.path() + "/";
  EXPECT_EQ(run("llvm-objdump-19 -d --mattr=+all " + in + "kernel.o | grep -q '\\b" + instruction +
                "\\b'"),
            0);
  ASSERT_EQ(
      run("clang-19 --target=aarch64-linux-gnu -O1 -fuse-ld=lld-19 -static -I" TENSMITH_SOURCES
          " " +
          in + "main.c " + in + "kernel.o -o " + in + "program"),
      0);
  EXPECT_EQ(run("qemu-aarch64 -cpu max " + in + "program"), 0);
}

// Breaks if ARM's operands, of four lanes or of two rows and two columns, are not the program's.
TEST(Tensorize, TheSameConvolutionOnArm) {
  expectOnArm("aarch64:cortex-a76",
              "split f 4 -> f0 f1\nsplit c 4 -> c0 c1\nreorder n y x f0 r s c0 f1 c1\n"
              "tensorize f1 c1 by sdot packing",
              "sdot");
  expectOnArm("aarch64:neoverse-v1",
              "split x 2 -> x0 x1\nsplit f 2 -> f0 f1\nsplit c 8 -> c0 c1\n"
              "reorder n y x0 f0 r s c0 x1 f1 c1\ntensorize x1 f1 c1 by smmla packing",
              "smmla");
}

} // namespace
} // namespace tensmith::nest::test
