// That machines are read and described as LLVM knows them.
#include "compiler/targets/cpu/machine/Cpu.h"
#include "compiler/targets/cpu/machine/KernelMachine.h"
#include "runtime/CpuFeatures.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tensmith::targets::cpu {
namespace {

TEST(Cpu, HostIsUsable) {
  Cpu machine = hostCpu();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_TRUE(machine.has("sse4.1"));
  EXPECT_GE(machine.l1Bytes, 8 << 10);
  EXPECT_LE(machine.l1Bytes, machine.l2Bytes);
  auto parsed = parseCpu("host");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, machine);
}

TEST(Cpu, NamedMachinesHaveTheirVectors) {
  auto v3 = parseCpu("x86-64-v3"), skylake = parseCpu("skylake-avx512"),
       zen = parseCpu("znver4,-avx512f");
  ASSERT_TRUE(v3.ok() && skylake.ok() && zen.ok());
  EXPECT_EQ(v3->vectorBits, 256);
  EXPECT_EQ(v3->vectorRegisters, 16);
  EXPECT_EQ(skylake->vectorBits, 512);
  EXPECT_EQ(skylake->vectorRegisters, 32);
  EXPECT_EQ(zen->vectorBits, 256); // taking avx512f away takes what needs it
  EXPECT_FALSE(zen->has("avx512vl"));
  EXPECT_NE(toJson(*v3), toJson(*skylake));
}

// Breaks if a machine has vectors of 512 bits and LLVM isn't told of their registers: it gives up.
TEST(Cpu, FeaturesOfAvx512BringItsRegisters) {
  std::string name = "x86_64:x86-64-v3,+avx512bw,+avx512dq,+avx512vl";
  auto long512 = parseCpu(name), short256 = parseCpu(name + ",-evex512");
  ASSERT_TRUE(long512.ok() && short256.ok());
  EXPECT_TRUE(long512->has("evex512"));
  EXPECT_EQ(long512->vectorBits, 512);
  EXPECT_FALSE(short256->has("evex512"));
  EXPECT_EQ(short256->vectorBits, 256);
}

TEST(Cpu, CodeFeaturesAreInstructionsAlone) {
  auto machine = parseCpu("skylake-avx512");
  ASSERT_TRUE(machine.ok());
  auto features = machine->codeFeatures();
  EXPECT_TRUE(std::count(features.begin(), features.end(), "avx512f"));
  EXPECT_TRUE(std::count(features.begin(), features.end(), "fma"));
  for (const std::string &feature : features)
    EXPECT_EQ(feature.find("slow"), std::string::npos) << feature;
  EXPECT_FALSE(std::count(features.begin(), features.end(), "clflushopt"));
}

// Breaks if a module could ask for a feature by a name that its reader doesn't know.
TEST(Cpu, TheRuntimeKnowsTheFeatures) {
  for (const std::string &feature : hostCpu().codeFeatures())
    EXPECT_EQ(runtime::cpuFeature(feature), runtime::FeatureState::Present) << feature;
  for (const char *name :
       {"x86-64-v4", "sapphirerapids", "znver4", "haswell", "alderlake", "bdver4"})
    for (const std::string &feature : parseCpu(name)->codeFeatures())
      EXPECT_NE(runtime::cpuFeature(feature), runtime::FeatureState::Unknown)
          << feature << " of " << name;
}

TEST(Cpu, LoneTilesFetchFarAheadWhereThatHelps) {
  auto skylake = parseCpu("skylake-avx512"), zen = parseCpu("znver4");
  ASSERT_TRUE(skylake.ok() && zen.ok());
  EXPECT_GT(kernelMachine(*skylake).linesAhead, 0);
  EXPECT_EQ(kernelMachine(*zen).linesAhead, 0);
}

TEST(Cpu, MistakesAreNamed) {
  auto cpu = parseCpu("skylane"), feature = parseCpu("host,+avx9"), old = parseCpu("x86-64"),
       empty = parseCpu("");
  EXPECT_EQ(cpu.status().code(), StatusCode::InvalidArgument);
  EXPECT_NE(cpu.status().message().find("skylane"), std::string::npos);
  EXPECT_EQ(feature.status().code(), StatusCode::InvalidArgument);
  EXPECT_NE(feature.status().message().find("avx9"), std::string::npos);
  EXPECT_EQ(old.status().code(), StatusCode::InvalidArgument);
  EXPECT_NE(old.status().message().find("SSE4.1"), std::string::npos);
  EXPECT_FALSE(empty.ok());
  for (const char *name : {"alpha:ev6", "aarch64:znver4", "aarch64:cortex-a53,+avx2",
                           "riscv64:rv64gcq", "riscv64:rv64gc", "aarch64:"})
    EXPECT_EQ(parseCpu(name).status().code(), StatusCode::InvalidArgument) << name;
}

TEST(Cpu, OtherFamiliesHaveTheirVectors) {
  struct Wanted {
    const char *name;
    int64_t bits;
    int registers;
  };
  for (Wanted wanted : {Wanted{"x86_64:x86-64-v3", 256, 16},
                        {"aarch64:cortex-a53", 128, 32},
                        {"aarch64:apple-m1", 128, 32},
                        {"aarch64:neoverse-v1", 256, 32}, // of SVE
                        {"aarch64:neoverse-v1,-sve", 128, 32},
                        {"aarch64:neoverse-v2", 128, 32},
                        {"aarch64:a64fx", 512, 32},
                        {"armv7:cortex-a7", 128, 16},
                        {"riscv64:rv64gcv", 128, 32},
                        {"riscv64:rv64gcv,zvl256b", 256, 32},
                        {"riscv64:sifive-x280", 512, 32}}) {
    auto machine = parseCpu(wanted.name);
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    EXPECT_EQ(machine->vectorBits, wanted.bits) << wanted.name;
    EXPECT_EQ(machine->vectorRegisters, wanted.registers) << wanted.name;
    EXPECT_TRUE(machine->fusesMultiplyAdds()) << wanted.name;
  }
  EXPECT_TRUE(parseCpu("aarch64:cortex-a53")->inOrder);
  EXPECT_FALSE(parseCpu("aarch64:neoverse-n1")->inOrder);
  EXPECT_FALSE(parseCpu("aarch64:carmel")->inOrder); // of which LLVM has no model
  EXPECT_GT(parseCpu("aarch64:apple-m1")->l1Bytes, parseCpu("aarch64:cortex-a53")->l1Bytes);
  EXPECT_TRUE(parseCpu("aarch64:cortex-a76")->has("dotprod"));
  EXPECT_FALSE(parseCpu("aarch64:cortex-a76,-dotprod")->has("dotprod"));
  EXPECT_TRUE(parseCpu("aarch64:neoverse-v1")->has("sve256"));
  EXPECT_FALSE(parseCpu("aarch64:neoverse-v1,-sve")->has("sve256"));
}

} // namespace
} // namespace tensmith::targets::cpu
