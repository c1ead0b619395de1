// That limits survive their file, that damaged ones are none, and that what is decided by them
// doesn't follow every measurement's noise.
#include "compiler/targets/cpu/machine/MachineLimits.h"
#include "compiler/targets/cpu/machine/HostCaches.h"
#include "compiler/targets/cpu/machine/Probes.h"
#include "compiler/targets/cpu/test/KernelHarness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>

namespace tensmith::targets::cpu {
namespace {

MachineLimits someLimits(double scale = 1) {
  auto rate = [&](double one) { return Rate{one * scale, 1.9 * one * scale}; };
  auto level = [&](const char *name, int64_t bytes, double one) {
    return MemoryLimit{name, bytes, 1, {rate(one), rate(one / 2), rate(one)}};
  };
  return {"a processor",
          "znver3",
          2,
          {{"f32", "fma", rate(100e9)}, {"i8", "vpdpbusd", rate(400e9)}},
          {level("L1", 32 << 10, 200e9), level("L2", 512 << 10, 90e9), level("memory", 0, 12e9)},
          2e-6 * scale,
          5e-9 * scale};
}

/// The variable, for as long as this lives.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name_(name) {
    const char *before = std::getenv(name);
    before_ = before ? std::optional<std::string>(before) : std::nullopt;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

private:
  const char *name_;
  std::optional<std::string> before_;
};

TEST(MachineLimits, SurviveTheirFile) {
  TemporaryFolder folder;
  Environment cache("TENSMITH_CACHE", folder.path() + "/new");
  Cpu machine = hostCpu(), other = *parseCpu("x86-64-v2");
  EXPECT_FALSE(keptLimits(machine));
  ASSERT_TRUE(keepLimits(someLimits(), machine).ok());
  auto kept = keptLimits(machine);
  ASSERT_TRUE(kept);
  EXPECT_EQ(toJson(*kept), toJson(someLimits()));
  EXPECT_EQ(kept->identity(), someLimits().identity());
  EXPECT_NE(kept->identity(), someLimits(1.001).identity());
  EXPECT_FALSE(keptLimits(other)); // of another machine, other limits
}

// Two threads that are as fast as one had half of the machine each.
TEST(MachineLimits, ThoseOfADisturbedMachineAreDoubted) {
  MachineLimits limits = someLimits();
  EXPECT_EQ(limits.doubt(), "");
  EXPECT_NE(describe(hostCpu(), &limits).find("\"doubt\": null"), std::string::npos);
  limits.arithmetic[1].operations.all = 1.4 * limits.arithmetic[1].operations.one;
  EXPECT_NE(limits.doubt().find("2 threads together do i8 arithmetic only 1.40 times"),
            std::string::npos);
  EXPECT_NE(describe(hostCpu(), &limits).find("i8 arithmetic only"), std::string::npos);
  limits.memory[0].sharedBy = 2; // two threads of one core
  EXPECT_EQ(limits.doubt(), "");
  limits.threads = 1;
  limits.memory[0].sharedBy = 1;
  EXPECT_EQ(limits.doubt(), "");
  EXPECT_TRUE(plausible({1, 30}, 64));
  EXPECT_FALSE(plausible({1, 20}, 64));
}

TEST(MachineLimits, DamagedOnesAreNone) {
  std::string text = toJson(someLimits());
  ASSERT_TRUE(limitsFromJson(text).ok());
  for (size_t length = 0; length + 3 < text.size(); length += 7)
    EXPECT_FALSE(limitsFromJson(text.substr(0, length)).ok()) << length;
  auto replaced = [&](const std::string &what, const std::string &with) {
    std::string changed = text;
    size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return limitsFromJson(changed.replace(at, what.size(), with)).ok();
  };
  EXPECT_FALSE(replaced("\"format\": 1", "\"format\": 2"));
  EXPECT_FALSE(replaced("\"threads\": 2", "\"threads\": 0"));
  EXPECT_FALSE(replaced("\"threads\": 2", "\"threads\": \"two\""));
  EXPECT_FALSE(replaced("\"all\": 1", "\"all\": -1"));
  EXPECT_FALSE(replaced("\"memory\": [", "\"memories\": ["));

  TemporaryFolder folder;
  Environment cache("TENSMITH_CACHE", folder.path());
  std::ofstream(limitsPath(hostCpu())) << text.substr(0, text.size() / 2);
  EXPECT_FALSE(keptLimits(hostCpu()));
}

TEST(MachineLimits, EstimatesCountInRoundedFigures) {
  Cpu machine = *parseCpu("x86-64-v3"); // 8 lanes: 32 operations a cycle
  auto figures = costFigures(someLimits(), machine);
  ASSERT_TRUE(figures);
  double cycles = 100e9 / 32;
  EXPECT_NEAR(figures->nearBytesPerCycle, 90e9 / cycles, 0.1 * 90e9 / cycles);
  EXPECT_NEAR(figures->farBytesPerCycle, 12e9 / cycles, 0.1 * 12e9 / cycles);
  double share = someLimits().memory.back().bandwidth.read.one / cycles;
  EXPECT_NEAR(figures->memoryBytesPerCycle, share, 0.1 * share);
  auto slower = costFigures(someLimits(0.9), machine); // all of it: the same in cycles
  EXPECT_EQ(slower->nearBytesPerCycle, figures->nearBytesPerCycle);
  MachineLimits noisy = someLimits();
  noisy.memory.back().bandwidth.copy.one *= 1.02;
  EXPECT_EQ(costFigures(noisy, machine)->farBytesPerCycle, figures->farBytesPerCycle);
  MachineLimits without = someLimits();
  without.arithmetic.erase(without.arithmetic.begin());
  EXPECT_FALSE(costFigures(without, machine));
}

TEST(MachineLimits, CpusOfLists) {
  EXPECT_EQ(cpusOfList("0"), 1);
  EXPECT_EQ(cpusOfList("0-3"), 4);
  EXPECT_EQ(cpusOfList("0-3,8,10-11"), 7);
  EXPECT_EQ(cpusOfList(""), 0);
  EXPECT_EQ(cpusOfList("none"), 0);
}

/// Each machine's probes compile; those of this one's are also right where that can be told.
TEST(Probes, CompileForEveryMachine) {
  for (const char *name : {"host", "x86-64-v2", "x86-64-v3", "skylake-avx512", "znver4",
                           "sapphirerapids", "alderlake"}) {
    auto machine = parseCpu(name);
    ASSERT_TRUE(machine.ok());
    std::vector<Probe> probes = arithmeticProbes(*machine);
    EXPECT_GE(probes.size(), 2u);
    for (auto make : {readProbe, writeProbe, copyProbe})
      probes.push_back(make(*machine));
    for (const Probe &probe : probes) {
      auto object = compileText(probe.text, *machine);
      EXPECT_TRUE(object.ok()) << name << ' ' << probe.type << '\n'
                               << (object.ok() ? "" : object.status().message() + probe.text);
    }
  }
}

TEST(Probes, CopyTheFirstHalf) {
  Cpu machine = hostCpu();
  auto loaded = LoadedKernel::of(copyProbe(machine).text, machine);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  TensmithKernel kernel = (*loaded)->entry();
  constexpr int64_t kBytes = 4096;
  alignas(64) static unsigned char buffer[2 * kBytes];
  std::iota(std::begin(buffer), std::end(buffer), 0);
  for (int64_t i = kBytes / 2; i < kBytes; ++i)
    buffer[i] = buffer[kBytes + i] = 7;
  EXPECT_EQ(callKernel(kernel, {buffer}, {1, 2, 1, kBytes * 8 / machine.vectorBits, kBytes}), 0);
  for (int64_t i = 0; i < kBytes; ++i)
    EXPECT_EQ(buffer[kBytes + i], static_cast<unsigned char>(i % (kBytes / 2))) << i;
}

} // namespace
} // namespace tensmith::targets::cpu
