// Tables from LLVM's feature names to CPUID bits (Intel's Software Developer's Manual, volume 2,
// CPUID; AMD's manual, volume 3, appendix E), to the bits of Linux's auxiliary vector on Arm
// (Documentation/arch/arm64/elf_hwcaps.rst) and to those of its riscv_hwprobe on RISC-V
// (Documentation/arch/riscv/hwprobe.rst).
#include "runtime/CpuFeatures.h"

#include "base/Cpus.h"

#include <algorithm>
#include <cstdint>
#include <span>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#elif defined(__riscv)
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tensmith::runtime {
namespace {

#if defined(__x86_64__)

enum Register : uint8_t { EAX, EBX, ECX, EDX };

// What the operating system must save (bits of XCR0) for a feature to be usable.
constexpr uint64_t kNone = 0, kYmm = 0x6, kZmm = 0xe6, kTile = 0x60000;

struct Feature {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  uint8_t bit;
  uint64_t state;
};

constexpr Feature kFeatures[] = {
    {"sse3", 1, 0, ECX, 0, kNone},
    {"pclmul", 1, 0, ECX, 1, kNone},
    {"ssse3", 1, 0, ECX, 9, kNone},
    {"fma", 1, 0, ECX, 12, kYmm},
    {"cx16", 1, 0, ECX, 13, kNone},
    {"sse4.1", 1, 0, ECX, 19, kNone},
    {"sse4.2", 1, 0, ECX, 20, kNone},
    {"crc32", 1, 0, ECX, 20, kNone},
    {"movbe", 1, 0, ECX, 22, kNone},
    {"popcnt", 1, 0, ECX, 23, kNone},
    {"aes", 1, 0, ECX, 25, kNone},
    {"xsave", 1, 0, ECX, 27, kNone},
    {"avx", 1, 0, ECX, 28, kYmm},
    {"f16c", 1, 0, ECX, 29, kYmm},
    {"rdrnd", 1, 0, ECX, 30, kNone},
    {"cx8", 1, 0, EDX, 8, kNone},
    {"cmov", 1, 0, EDX, 15, kNone},
    {"mmx", 1, 0, EDX, 23, kNone},
    {"fxsr", 1, 0, EDX, 24, kNone},
    {"sse", 1, 0, EDX, 25, kNone},
    {"sse2", 1, 0, EDX, 26, kNone},
    {"fsgsbase", 7, 0, EBX, 0, kNone},
    {"bmi", 7, 0, EBX, 3, kNone},
    {"avx2", 7, 0, EBX, 5, kYmm},
    {"bmi2", 7, 0, EBX, 8, kNone},
    {"invpcid", 7, 0, EBX, 10, kNone},
    {"rtm", 7, 0, EBX, 11, kNone},
    {"avx512f", 7, 0, EBX, 16, kZmm},
    {"evex512", 7, 0, EBX, 16, kZmm},
    {"avx512dq", 7, 0, EBX, 17, kZmm},
    {"rdseed", 7, 0, EBX, 18, kNone},
    {"adx", 7, 0, EBX, 19, kNone},
    {"avx512ifma", 7, 0, EBX, 21, kZmm},
    {"clflushopt", 7, 0, EBX, 23, kNone},
    {"clwb", 7, 0, EBX, 24, kNone},
    {"avx512cd", 7, 0, EBX, 28, kZmm},
    {"sha", 7, 0, EBX, 29, kNone},
    {"avx512bw", 7, 0, EBX, 30, kZmm},
    {"avx512vl", 7, 0, EBX, 31, kZmm},
    {"avx512vbmi", 7, 0, ECX, 1, kZmm},
    {"pku", 7, 0, ECX, 4, kNone},
    {"waitpkg", 7, 0, ECX, 5, kNone},
    {"avx512vbmi2", 7, 0, ECX, 6, kZmm},
    {"shstk", 7, 0, ECX, 7, kNone},
    {"gfni", 7, 0, ECX, 8, kNone},
    {"vaes", 7, 0, ECX, 9, kYmm},
    {"vpclmulqdq", 7, 0, ECX, 10, kYmm},
    {"avx512vnni", 7, 0, ECX, 11, kZmm},
    {"avx512bitalg", 7, 0, ECX, 12, kZmm},
    {"avx512vpopcntdq", 7, 0, ECX, 14, kZmm},
    {"rdpid", 7, 0, ECX, 22, kNone},
    {"cldemote", 7, 0, ECX, 25, kNone},
    {"movdiri", 7, 0, ECX, 27, kNone},
    {"movdir64b", 7, 0, ECX, 28, kNone},
    {"enqcmd", 7, 0, ECX, 29, kNone},
    {"uintr", 7, 0, EDX, 5, kNone},
    {"avx512vp2intersect", 7, 0, EDX, 8, kZmm},
    {"serialize", 7, 0, EDX, 14, kNone},
    {"tsxldtrk", 7, 0, EDX, 16, kNone},
    {"amx-bf16", 7, 0, EDX, 22, kTile},
    {"avx512fp16", 7, 0, EDX, 23, kZmm},
    {"amx-tile", 7, 0, EDX, 24, kTile},
    {"amx-int8", 7, 0, EDX, 25, kTile},
    {"sha512", 7, 1, EAX, 0, kYmm},
    {"sm3", 7, 1, EAX, 1, kYmm},
    {"sm4", 7, 1, EAX, 2, kYmm},
    {"avxvnni", 7, 1, EAX, 4, kYmm},
    {"avx512bf16", 7, 1, EAX, 5, kZmm},
    {"cmpccxadd", 7, 1, EAX, 7, kNone},
    {"amx-fp16", 7, 1, EAX, 21, kTile},
    {"hreset", 7, 1, EAX, 22, kNone},
    {"avxifma", 7, 1, EAX, 23, kYmm},
    {"avxvnniint8", 7, 1, EDX, 4, kYmm},
    {"avxneconvert", 7, 1, EDX, 5, kYmm},
    {"amx-complex", 7, 1, EDX, 8, kTile},
    {"avxvnniint16", 7, 1, EDX, 10, kYmm},
    {"prefetchi", 7, 1, EDX, 14, kNone},
    {"xsaveopt", 0xd, 1, EAX, 0, kNone},
    {"xsavec", 0xd, 1, EAX, 1, kNone},
    {"xsaves", 0xd, 1, EAX, 3, kNone},
    {"ptwrite", 0x14, 0, EBX, 4, kNone},
    {"sahf", 0x80000001, 0, ECX, 0, kNone},
    {"lzcnt", 0x80000001, 0, ECX, 5, kNone},
    {"sse4a", 0x80000001, 0, ECX, 6, kNone},
    {"prfchw", 0x80000001, 0, ECX, 8, kNone},
    {"xop", 0x80000001, 0, ECX, 11, kYmm},
    {"lwp", 0x80000001, 0, ECX, 15, kNone},
    {"fma4", 0x80000001, 0, ECX, 16, kYmm},
    {"tbm", 0x80000001, 0, ECX, 21, kNone},
    {"mwaitx", 0x80000001, 0, ECX, 29, kNone},
    {"64bit", 0x80000001, 0, EDX, 29, kNone},
    {"clzero", 0x80000008, 0, EBX, 0, kNone},
    {"rdpru", 0x80000008, 0, EBX, 4, kNone},
    {"wbnoinvd", 0x80000008, 0, EBX, 9, kNone},
};

uint32_t registerOf(const Feature &feature) {
  uint32_t values[4] = {};
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &values[EAX], &values[EBX], &values[ECX],
                         &values[EDX]))
    return 0;
  return values[feature.reg];
}

/// The register states that the operating system saves, or 0 where it says nothing.
uint64_t savedStates() {
  uint32_t a, b, c, d;
  constexpr uint32_t osxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

bool present(const Feature &feature) {
  static const uint64_t saved = savedStates();
  return (saved & feature.state) == feature.state && (registerOf(feature) >> feature.bit & 1) &&
         (feature.state != kTile || mayUseTiles());
}

#elif defined(__aarch64__)

struct Feature {
  std::string_view name;
  int word; // AT_HWCAP or AT_HWCAP2
  uint64_t mask;
  int vector = 0; // how long a vector register has to be, in bits; 0: as long as it is
};

constexpr Feature kFeatures[] = {
    {"fp-armv8", AT_HWCAP, HWCAP_FP},
    {"neon", AT_HWCAP, HWCAP_ASIMD},
    {"aes", AT_HWCAP, HWCAP_AES | HWCAP_PMULL},
    {"sha2", AT_HWCAP, HWCAP_SHA1 | HWCAP_SHA2},
    {"crc", AT_HWCAP, HWCAP_CRC32},
    {"lse", AT_HWCAP, HWCAP_ATOMICS},
    {"fullfp16", AT_HWCAP, HWCAP_FPHP | HWCAP_ASIMDHP},
    {"rdm", AT_HWCAP, HWCAP_ASIMDRDM},
    {"jsconv", AT_HWCAP, HWCAP_JSCVT},
    {"complxnum", AT_HWCAP, HWCAP_FCMA},
    {"rcpc", AT_HWCAP, HWCAP_LRCPC},
    {"ccpp", AT_HWCAP, HWCAP_DCPOP},
    {"sha3", AT_HWCAP, HWCAP_SHA3 | HWCAP_SHA512},
    {"sm4", AT_HWCAP, HWCAP_SM3 | HWCAP_SM4},
    {"dotprod", AT_HWCAP, HWCAP_ASIMDDP},
    {"sve", AT_HWCAP, HWCAP_SVE},
    {"sve256", AT_HWCAP, HWCAP_SVE, 256},
    {"sve512", AT_HWCAP, HWCAP_SVE, 512},
    {"fp16fml", AT_HWCAP, HWCAP_ASIMDFHM},
    {"dit", AT_HWCAP, HWCAP_DIT},
    {"lse2", AT_HWCAP, HWCAP_USCAT},
    {"rcpc-immo", AT_HWCAP, HWCAP_ILRCPC},
    {"flagm", AT_HWCAP, HWCAP_FLAGM},
    {"ssbs", AT_HWCAP, HWCAP_SSBS},
    {"sb", AT_HWCAP, HWCAP_SB},
    {"pauth", AT_HWCAP, HWCAP_PACA | HWCAP_PACG},
    {"ccdp", AT_HWCAP2, HWCAP2_DCPODP},
    {"sve2", AT_HWCAP2, HWCAP2_SVE2},
    {"sve2-aes", AT_HWCAP2, HWCAP2_SVEAES | HWCAP2_SVEPMULL},
    {"sve2-bitperm", AT_HWCAP2, HWCAP2_SVEBITPERM},
    {"sve2-sha3", AT_HWCAP2, HWCAP2_SVESHA3},
    {"sve2-sm4", AT_HWCAP2, HWCAP2_SVESM4},
    {"altnzcv", AT_HWCAP2, HWCAP2_FLAGM2},
    {"fptoint", AT_HWCAP2, HWCAP2_FRINT},
    {"f32mm", AT_HWCAP2, HWCAP2_SVEF32MM},
    {"f64mm", AT_HWCAP2, HWCAP2_SVEF64MM},
    {"i8mm", AT_HWCAP2, HWCAP2_I8MM},
    {"bf16", AT_HWCAP2, HWCAP2_BF16},
    {"rand", AT_HWCAP2, HWCAP2_RNG},
    {"bti", AT_HWCAP2, HWCAP2_BTI},
    {"mte", AT_HWCAP2, HWCAP2_MTE},
};

/// Of SVE's vectors, in bits, as the process has them; 0 where there are none.
int vectorBits() {
  constexpr int kGetLength = 51, kBytes = 0xffff; // PR_SVE_GET_VL
  int length = prctl(kGetLength, 0, 0, 0, 0);
  return length < 0 ? 0 : 8 * (length & kBytes);
}

bool present(const Feature &feature) {
  return (getauxval(feature.word) & feature.mask) == feature.mask &&
         (feature.vector == 0 || vectorBits() == feature.vector);
}

#elif defined(__arm__)

struct Feature {
  std::string_view name;
  int word; // AT_HWCAP or AT_HWCAP2
  unsigned long mask;
};

// Younger than the headers that this may be built with.
constexpr unsigned long kHalfPrecision = 1 << 22 | 1 << 23, kDotProducts = 1 << 24, // since 6.2
    kWidening = 1 << 25, kBrainFloat = 1 << 26, kByteProducts = 1 << 27;

constexpr Feature kFeatures[] = {
    {"dsp", AT_HWCAP, HWCAP_EDSP},
    {"vfp2", AT_HWCAP, HWCAP_VFP},
    {"vfp3d16", AT_HWCAP, HWCAP_VFPv3},
    {"vfp3", AT_HWCAP, HWCAP_VFPv3 | HWCAP_VFPD32},
    {"vfp4d16", AT_HWCAP, HWCAP_VFPv4},
    {"vfp4", AT_HWCAP, HWCAP_VFPv4 | HWCAP_VFPD32},
    {"fp16", AT_HWCAP, HWCAP_VFPv4}, // conversions, which came with it
    {"fp64", AT_HWCAP, HWCAP_VFPv3},
    {"d32", AT_HWCAP, HWCAP_VFPD32},
    {"neon", AT_HWCAP, HWCAP_NEON},
    {"hwdiv-arm", AT_HWCAP, HWCAP_IDIVA},
    {"hwdiv", AT_HWCAP, HWCAP_IDIVT},
    {"fullfp16", AT_HWCAP, kHalfPrecision},
    {"dotprod", AT_HWCAP, kDotProducts},
    {"fp16fml", AT_HWCAP, kWidening},
    {"bf16", AT_HWCAP, kBrainFloat},
    {"i8mm", AT_HWCAP, kByteProducts},
    {"aes", AT_HWCAP2, HWCAP2_AES | HWCAP2_PMULL},
    {"sha2", AT_HWCAP2, HWCAP2_SHA1 | HWCAP2_SHA2},
    {"crc", AT_HWCAP2, HWCAP2_CRC32},
};

bool present(const Feature &feature) {
  return (getauxval(feature.word) & feature.mask) == feature.mask;
}

#elif defined(__riscv)

struct Feature {
  std::string_view name;
  char letter; // of AT_HWCAP; 0: none
  int probed;  // bit of hwprobe's IMA_EXT_0; -1: none
  int vector;  // what it needs of the length of a vector register, in bits; 0: nothing
};

constexpr Feature kFeatures[] = {
    {"64bit", 'i', -1, 0},
    {"m", 'm', -1, 0},
    {"a", 'a', -1, 0},
    {"f", 'f', 0, 0},
    {"d", 'd', 0, 0},
    {"c", 'c', 1, 0},
    {"v", 'v', 2, 0},
    {"zicsr", 'f', 0, 0},
    {"zifencei", 'i', -1, 0},
    {"zmmul", 'm', -1, 0},
    {"zba", 0, 3, 0},
    {"zbb", 0, 4, 0},
    {"zbs", 0, 5, 0},
    {"zicboz", 0, 6, 0},
    {"zbc", 0, 7, 0},
    {"zbkb", 0, 8, 0},
    {"zbkc", 0, 9, 0},
    {"zbkx", 0, 10, 0},
    {"zvbb", 0, 17, 0},
    {"zvbc", 0, 18, 0},
    {"zfh", 0, 27, 0},
    {"zfhmin", 0, 28, 0},
    {"zvfh", 0, 30, 0},
    {"zvfhmin", 0, 31, 0},
    {"zfa", 0, 32, 0},
    {"zicond", 0, 35, 0},
    {"zve32x", 'v', 37, 0},
    {"zve32f", 'v', 38, 0},
    {"zve64x", 'v', 39, 0},
    {"zve64f", 'v', 40, 0},
    {"zve64d", 'v', 41, 0},
    {"zvl32b", 'v', 37, 32},
    {"zvl64b", 'v', 37, 64},
    {"zvl128b", 'v', 37, 128},
    {"zvl256b", 'v', 37, 256},
    {"zvl512b", 'v', 37, 512},
    {"zvl1024b", 'v', 37, 1024},
};

/// What hwprobe says of the base instruction set's extensions; 0 before Linux 6.4, and where the
/// process is emulated.
uint64_t probedExtensions() {
  constexpr long kProbe = 258;
  struct {
    int64_t key = 4; // RISCV_HWPROBE_KEY_IMA_EXT_0
    uint64_t value = 0;
  } pair;
  return syscall(kProbe, &pair, 1, 0, nullptr, 0) == 0 && pair.key == 4 ? pair.value : 0;
}

/// Of a vector register, in bits. Only where there are such.
int vectorBits() {
  unsigned long bytes;
  __asm__ volatile("csrr %0, 0xc22" : "=r"(bytes)); // vlenb
  return int(8 * bytes);
}

bool present(const Feature &feature) {
  static const uint64_t probed = probedExtensions();
  bool has = feature.letter && (getauxval(AT_HWCAP) >> (feature.letter - 'a') & 1);
  has |= feature.probed >= 0 && (probed >> feature.probed & 1);
  return has && (feature.vector == 0 || vectorBits() >= feature.vector);
}

#endif

} // namespace

FeatureState cpuFeature(std::string_view llvmName) {
  for (const Feature &feature : kFeatures)
    if (feature.name == llvmName)
      return present(feature) ? FeatureState::Present : FeatureState::Absent;
  return FeatureState::Unknown;
}

std::vector<std::string> cpuFeatures() {
  std::vector<std::string> names;
  for (const Feature &feature : kFeatures)
    if (present(feature))
      names.emplace_back(feature.name);
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace tensmith::runtime
