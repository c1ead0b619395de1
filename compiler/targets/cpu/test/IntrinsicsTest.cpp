// That each instruction of the tables computes what it says: a kernel does the same sums twice, by
// the instruction and by its meaning. This machine's run here, those of others under qemu.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"
#include "compiler/targets/Target.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/TargetParser/Triple.h"

#include <csignal>
#include <fstream>
#include <set>
#include <sys/wait.h>

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

using kernel::Intrinsic;
using kernel::Number;

Type elementType(OpBuilder &builder, Number number) {
  switch (number) {
  case Number::U1: // eight of them
  case Number::U8:
  case Number::I8:
    return builder.getI8Type();
  case Number::I16:
    return builder.getI16Type();
  case Number::BF16:
    return builder.getBF16Type();
  case Number::I32:
    return builder.getI32Type();
  case Number::I64:
    return builder.getI64Type();
  case Number::F32:
    return builder.getF32Type();
  }
  llvm_unreachable("all numbers are above");
}

/// Of one that says "as many as make a vector".
int64_t lanesOf(const Intrinsic &intrinsic, const Cpu &machine) {
  return intrinsic.lanes ? intrinsic.lanes
                         : machine.vectorBits / bitsOf(intrinsic.sum) / intrinsic.rows;
}

int64_t bytesOf(Number number) { return std::max<int64_t>(kernel::bitsOf(number) / 8, 1); }

/// Elements of an operand's row: of bits, bytes of them.
int64_t depthOf(const Intrinsic &intrinsic) {
  return intrinsic.left == Number::U1 ? intrinsic.depth / 8 : intrinsic.depth;
}

/// Those that lie one behind the other in the machine's vectors.
int64_t blocksOf(const Intrinsic &intrinsic, const Cpu &machine) {
  int64_t ofOne = lanesOf(intrinsic, machine) * intrinsic.rows;
  return intrinsic.has(kernel::InBlocks) ? machine.vectorBits / bitsOf(intrinsic.sum) / ofOne : 1;
}

/// void SYMBOL(left, right, sums, left, right, meant): adds to `sums` by the instruction, all its
/// blocks, or to `meant` by what one of them means.
Result<std::string> objectOf(const Intrinsic &intrinsic, const Cpu &machine,
                             const std::string &symbol, bool byName) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  bool hasRows = intrinsic.rows > 1;
  int64_t lanes = lanesOf(intrinsic, machine), ofLeft = hasRows ? intrinsic.rows : lanes;
  auto matrix = [&](int64_t count, Number number) {
    return MemRefType::get({count, depthOf(intrinsic)}, elementType(builder, number));
  };
  MemRefType leftType = matrix(ofLeft, intrinsic.left), rightType = matrix(lanes, intrinsic.right);
  SmallVector<int64_t> shape{lanes};
  if (hasRows)
    shape = {intrinsic.rows, lanes};
  auto sums = MemRefType::get(shape, elementType(builder, intrinsic.sum));
  Type pointer = LLVM::LLVMPointerType::get(&context);
  // The meaning takes its operands as memrefs, the instruction as pointers: a function each.
  auto meaning =
      builder.create<func::FuncOp>(location, "tensmith_kernel.meaning",
                                   builder.getFunctionType({leftType, rightType, sums}, {}));
  meaning.setPrivate();
  builder.setInsertionPointToEnd(meaning.addEntryBlock());
  kernel::emitMeaning(builder, location, intrinsic, meaning.getArgument(0), meaning.getArgument(1),
                      meaning.getArgument(2));
  builder.create<func::ReturnOp>(location);
  builder.setInsertionPointToEnd(module->getBody());
  auto entry = builder.create<func::FuncOp>(
      location, "tensmith_kernel",
      builder.getFunctionType({pointer, pointer, pointer, leftType, rightType, sums}, {}));
  builder.setInsertionPointToEnd(entry.addEntryBlock());
  auto load = [&](unsigned number, Type element, int64_t count) -> Value {
    return builder.create<LLVM::LoadOp>(location, VectorType::get({count}, element),
                                        entry.getArgument(number), /*alignment=*/1);
  };
  auto bits = [&](Number number) -> Type {
    return number == Number::BF16 ? Type(builder.getI16Type()) : elementType(builder, number);
  };
  if (byName) {
    int64_t blocks = blocksOf(intrinsic, machine);
    Value left = load(0, bits(intrinsic.left), ofLeft * depthOf(intrinsic));
    Value right = load(1, bits(intrinsic.right), blocks * lanes * depthOf(intrinsic));
    Value sum = load(2, elementType(builder, intrinsic.sum), blocks * intrinsic.rows * lanes);
    Value result = intrinsic.emit(builder, location, left, right, sum);
    builder.create<LLVM::StoreOp>(location, result, entry.getArgument(2), /*alignment=*/1);
  } else {
    builder.create<func::CallOp>(location, meaning, entry.getArguments().drop_front(3));
  }
  builder.create<func::ReturnOp>(location);
  CodegenOptions options;
  options.symbol = symbol;
  return compileToObject(*module, machine, options);
}

/// void SYMBOL(sums, wide): what the instruction that widens a vector of bytes makes of it.
Result<std::string> wideningOf(const Intrinsic &intrinsic, const Cpu &machine,
                               const std::string &symbol) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  Type pointer = LLVM::LLVMPointerType::get(&context);
  auto entry = builder.create<func::FuncOp>(location, "tensmith_kernel",
                                            builder.getFunctionType({pointer, pointer}, {}));
  builder.setInsertionPointToEnd(entry.addEntryBlock());
  auto bytes = VectorType::get({lanesOf(intrinsic, machine)}, builder.getI8Type());
  Value sums = builder.create<LLVM::LoadOp>(location, bytes, entry.getArgument(0), /*alignment=*/1);
  Value wide = intrinsic.widen(builder, location, sums);
  builder.create<LLVM::StoreOp>(location, wide, entry.getArgument(1), /*alignment=*/1);
  builder.create<func::ReturnOp>(location);
  CodegenOptions options;
  options.symbol = symbol;
  return compileToObject(*module, machine, options);
}

/// A program that gives the instructions numbers and says which differ from their meanings: numbers
/// that all types hold, so that sums are exact.
std::string programOf(llvm::ArrayRef<const Intrinsic *> all, const Cpu &machine) {
  std::string text = R"(
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static uint32_t state = 1;
static int draw(int low, int high) {
  state = state * 1664525 + 1013904223;
  return low + (int)((state >> 8) % (uint32_t)(high - low + 1));
}
static void put(void *at, int bytes, int isFloat, int value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, 4);
  if (isFloat && bytes == 2) bits >>= 16;
  if (!isFloat) bits = (uint32_t)value;
  memset(at, 0, (size_t)bytes);
  memcpy(at, &bits, (size_t)(bytes < 4 ? bytes : 4));
}
typedef void Kernel(void *, void *, void *, void *, void *, void *);
static int check(const char *name, Kernel *kernel, Kernel *meaning, int blocks, int ofLeft, int ofRight, int ofSums, int ofSum, int bytes,
                 int isFloat, int low, int high, int rightLow, int rightHigh) {
  for (int round = 0; round < 100; ++round) {
    uint8_t left[1024], right[1024], sums[256], meant[256];
    for (int i = 0; i < ofLeft; ++i) put(left + i * bytes, bytes, isFloat, draw(low, high));
    for (int i = 0; i < blocks * ofRight; ++i) put(right + i * bytes, bytes, isFloat, draw(rightLow, rightHigh));
    for (int i = 0; i < blocks * ofSums; ++i) put(sums + ofSum * i, ofSum, isFloat, draw(-1000, 1000));
    memcpy(meant, sums, sizeof sums);
    kernel(left, right, sums, 0, 0, 0);
    for (int i = 0; i < blocks; ++i) meaning(0, 0, 0, left, right + i * ofRight * bytes, meant + i * ofSums * ofSum);
    if (memcmp(sums, meant, (size_t)(blocks * ofSum * ofSums))) { printf("%s differs\n", name); return 1; }
  }
  return 0;
}
static int checkWidening(const char *name, void (*widen)(void *, void *), int count) {
  for (int round = 0; round < 100; ++round) {
    uint8_t sums[64];
    uint64_t wide[8], meant[8] = {0};
    for (int i = 0; i < count; ++i) meant[i / 8] += sums[i] = (uint8_t)draw(0, 255);
    widen(sums, wide);
    if (memcmp(wide, meant, (size_t)count)) { printf("%s widens otherwise\n", name); return 1; }
  }
  return 0;
}
)";
  std::string calls;
  for (auto [number, one] : llvm::enumerate(all)) {
    std::string symbol = "kernel" + std::to_string(number);
    bool isFloat = one->sum == Number::F32;
    auto range = [](Number of) -> std::string {
      return of == Number::U8 || of == Number::U1 ? "0, 255"
             : of == Number::I8                   ? "-128, 127"
             : of == Number::I16                  ? "-32768, 32767"
                                                  : "-128, 127";
    };
    int64_t lanes = lanesOf(*one, machine), ofLeft = one->rows > 1 ? one->rows : lanes;
    text += "Kernel " + symbol + ", " + symbol + "_meaning;\n";
    calls += "  failed += check(\"" + one->name.str() + "\", " + symbol + ", " + symbol +
             "_meaning, " + std::to_string(blocksOf(*one, machine)) + ", " +
             std::to_string(ofLeft * depthOf(*one)) + ", " + std::to_string(lanes * depthOf(*one)) +
             ", " + std::to_string(one->rows * lanes) + ", " + std::to_string(bytesOf(one->sum)) +
             ", " + std::to_string(bytesOf(one->left)) + ", " + std::to_string(isFloat) + ", " +
             range(one->left) + ", " + range(one->right) + ");\n";
    if (!one->widen)
      continue;
    text += "void " + symbol + "_widening(void *, void *);\n";
    calls += "  failed += checkWidening(\"" + one->name.str() + "\", " + symbol + "_widening, " +
             std::to_string(lanes) + ");\n";
  }
  return text + "int main(void) {\n  int failed = 0;\n" + calls + "  return failed;\n}\n";
}

int run(const std::string &command) { return std::system(command.c_str()); }

/// Whether a program ended with an instruction that the machine lacks, as the shell says it.
bool isIllegal(int status) {
  return (WIFSIGNALED(status) && WTERMSIG(status) == SIGILL) ||
         (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGILL);
}

bool hasAllOf(const Cpu &machine, const Cpu &other) {
  return llvm::all_of(other.codeFeatures(/*matrixUnit=*/true),
                      [&](const std::string &feature) { return machine.has(feature); });
}

/// Of all of a machine's that are vectors, run by a command; empty: as they are. The row that is
/// named must be one of them. Where the program has an instruction that this machine lacks, that
/// row's test is skipped.
void expectMeanings(const std::string &name, const std::string &compile, const std::string &runBy,
                    llvm::StringRef row = {}) {
  auto machine = parseCpu(name);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  TemporaryFolder folder;
  std::string objects;
  llvm::SmallVector<const Intrinsic *> vectors;
  for (const Intrinsic *one : intrinsicsOf(*machine))
    if (!one->has(kernel::OfTiles))
      vectors.push_back(one);
  ASSERT_TRUE(row.empty() || llvm::any_of(vectors, [&](auto *one) { return one->name == row; }))
      << name << " hasn't " << row.str() << ": it lacks a feature of the row, or a vector of its "
      << machine->vectorBits << " bits has more lanes or fewer";
  for (auto [number, one] : llvm::enumerate(vectors)) {
    std::string symbol = "kernel" + std::to_string(number);
    auto add = [&](const std::string &name, const Result<std::string> &object) {
      ASSERT_TRUE(object.ok()) << one->name.str() << ": " << object.status().message();
      std::string path = folder.path() + "/" + name + ".o";
      std::ofstream(path, std::ios::binary) << *object;
      objects += " " + path;
    };
    add(symbol, objectOf(*one, *machine, symbol, /*byName=*/true));
    add(symbol + "_meaning", objectOf(*one, *machine, symbol + "_meaning", /*byName=*/false));
    if (one->widen)
      add(symbol + "_widening", wideningOf(*one, *machine, symbol + "_widening"));
  }
  ASSERT_FALSE(vectors.empty());
  std::ofstream(folder.path() + "/main.c") << programOf(vectors, *machine);
  std::string program = folder.path() + "/program";
  ASSERT_EQ(run(compile + " -O1 -fuse-ld=lld-19 -static " + folder.path() + "/main.c" + objects +
                " -o " + program),
            0);
  int status = run(runBy + " " + program);
  if (!row.empty() && runBy.empty() && isIllegal(status) && !hasAllOf(hostCpu(), *machine))
    GTEST_SKIP() << "this machine lacks an instruction of " << name;
  EXPECT_EQ(status, 0) << name;
}

// Breaks if a row names an instruction that computes something else.
TEST(Intrinsics, ThisMachinesComputeWhatTheyMean) {
  if (intrinsicsOf(hostCpu()).empty())
    GTEST_SKIP() << "this machine has none";
  expectMeanings("host", "clang-19", "");
  if (hostCpu().has("avx512f"))
    expectMeanings("host,-avx512f", "clang-19", "");
}

TEST(Intrinsics, ArmsComputeWhatTheyMean) {
  const char *compile = "clang-19 --target=aarch64-linux-gnu";
  expectMeanings("aarch64:neoverse-v1", compile, "qemu-aarch64 -cpu max,sve-max-vq=2");
  expectMeanings("aarch64:neoverse-v1,-sve", compile, "qemu-aarch64 -cpu max");
  expectMeanings("aarch64:a64fx", compile, "qemu-aarch64 -cpu a64fx");
}

TEST(Intrinsics, RiscvsComputeWhatTheyMean) {
  for (const char *bits : {"128", "256"})
    expectMeanings("riscv64:rv64gcv,zvl" + std::string(bits) + "b",
                   "clang-19 --target=riscv64-linux-gnu -march=rv64gc",
                   "qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0,vlen=" + std::string(bits));
}

// Breaks if a machine is given what it lacks, or the wider of two is not the first. The lists are
// of the instructions that they name: one that none of them names may be added to the tables.
TEST(Intrinsics, MachinesHaveTheirOwn) {
  using Names = std::vector<std::string>;
  const std::pair<const char *, Names> kExpected[] = {
      {"x86_64:x86-64-v2", {"pshufb of 16"}},
      {"x86_64:x86-64-v3", {"vpmaddwd of 8", "vpshufb of 32"}},
      {"x86_64:alderlake", {"vpdpbusd of 8", "vpmaddwd of 8", "vpshufb of 32"}},
      {"x86_64:znver4",
       {"vpdpbusd of 16", "vpmaddwd of 16", "vdpbf16ps of 16", "vpopcntq of 8", "vpshufb of 64"}},
      {"x86_64:sapphirerapids",
       {"vpdpbusd of 16", "vpmaddwd of 16", "vdpbf16ps of 16", "vpopcntq of 8", "vpshufb of 64",
        "tdpbusd of 16", "tdpbf16ps of 16"}},
      {"aarch64:cortex-a53", {"cnt of 0"}},
      {"aarch64:cortex-a76", {"sdot of 4", "udot of 4", "cnt of 0"}},
      {"aarch64:neoverse-v1,-sve",
       {"usdot of 4", "sdot of 4", "udot of 4", "bfdot of 4", "usmmla of 2", "smmla of 2",
        "ummla of 2", "bfmmla of 2", "cnt of 0"}},
      {"aarch64:neoverse-v1",
       {"cnt of 0", "usdot of 0", "sdot of 0", "udot of 0", "bfdot of 0", "usmmla of 2",
        "smmla of 2", "ummla of 2", "bfmmla of 2", "fmla of 0"}},
      {"aarch64:a64fx", {"cnt of 0", "sdot of 0", "udot of 0", "fmla of 0"}},
      {"riscv64:rv64gcv,zvl256b", {"vwmacc of 0"}}};
  std::set<llvm::StringRef> named;
  for (const auto &[machine, rows] : kExpected)
    for (llvm::StringRef row : rows)
      named.insert(row.split(' ').first);
  for (const auto &[machine, rows] : kExpected) {
    Names found;
    for (const Intrinsic *one : intrinsicsOf(*parseCpu(machine)))
      if (named.count(one->name))
        found.push_back(one->name.str() + " of " + std::to_string(one->lanes));
    EXPECT_EQ(found, rows) << machine;
  }
}

// Breaks if what a plug-in registers is in a table that nobody looks into.
TEST(Intrinsics, OfFamiliesThatAreAddedAreFound) {
  static const Intrinsic kOwn[] = {
      {"muladd", "wide", Number::I8, Number::I8, Number::I32, 1, 4, 4, 1, kernel::AddsToSum,
       nullptr},
      {"other", "", Number::I8, Number::I8, Number::I32, 1, 8, 4, 1, kernel::AddsToSum, nullptr}};
  static const IntrinsicFamily kFamily = {"toy", "toy-", kOwn};
  const IntrinsicFamily *added = &kFamily;
  ASSERT_TRUE(intrinsicFamilies().add({&added, 1}).ok());
  Cpu machine;
  machine.triple = "toy-unknown-elf";
  machine.vectorBits = 128;
  EXPECT_TRUE(intrinsicsOf(machine).empty()); // it lacks the one's feature, and the other's width
  machine.enabled = {"wide"};
  EXPECT_EQ(intrinsicsOf(machine).size(), 1u);
  EXPECT_FALSE(intrinsicFamilies().add({&added, 1}).ok()); // there is one of that name
}

} // namespace
} // namespace tensmith::targets::cpu
