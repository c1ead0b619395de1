// Finding out what the host is, and what a named CPU has, from LLVM's tables.
#include "compiler/targets/cpu/machine/Cpu.h"

#include "base/Cpus.h"
#include "compiler/targets/cpu/codegen/NativeTarget.h"
#include "compiler/targets/cpu/machine/HostCaches.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/JSON.h"
#include "llvm/TargetParser/ARMTargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/RISCVISAInfo.h"
#include "llvm/TargetParser/Triple.h"

#include <algorithm>

namespace tensmith::targets::cpu {
namespace {

/// What LLVM knows of the machine; null where it doesn't know the CPU.
std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const Cpu &machine) {
  initializeTarget(machine.triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(machine.triple, error);
  if (!target)
    return nullptr;
  auto describe = [&](llvm::StringRef cpu, llvm::StringRef features) {
    return std::unique_ptr<llvm::MCSubtargetInfo>(
        target->createMCSubtargetInfo(machine.triple, cpu, features));
  };
  auto any =
      describe("", ""); // asked first, since LLVM writes to stderr where it doesn't know the CPU
  return any && any->isCPUStringValid(machine.cpu) ? describe(machine.cpu, machine.featureString())
                                                   : nullptr;
}

constexpr llvm::StringRef kMatrixUnit = "amx-"; // how the names of its features begin

/// What is different from one family of CPUs to the next.
struct Family {
  llvm::StringLiteral prefix; // of a machine's name, before the colon
  llvm::Triple::ArchType arch;
  llvm::StringLiteral triple;
  llvm::StringLiteral least; // features that kernels are compiled for at least, with commas between
  llvm::StringLiteral leastName;
  llvm::StringLiteral examples;
  /// Of LLVM's features, which are also instructions for system software and hints to its
  /// scheduler: those of computing. Where the last letter is a star, all that begin so.
  llvm::ArrayRef<llvm::StringLiteral> code;
  void (*derive)(Cpu &); // what follows from the features
};

/// AVX-512's registers of 512 bits, which LLVM takes for a feature apart from its instructions.
constexpr llvm::StringLiteral kLongRegisters = "evex512";

void deriveX86(Cpu &machine) {
  bool avx512 = machine.has("avx512f") && machine.has("avx512bw") && machine.has("avx512dq") &&
                machine.has("avx512vl") && machine.has(kLongRegisters);
  machine.vectorBits = avx512 ? 512 : machine.has("avx") ? 256 : 128;
  machine.vectorRegisters = avx512 ? 32 : 16;
}

/// CPUs whose vectors of SVE are longer than NEON's, by their makers' manuals. LLVM's tables don't
/// say how long they are.
struct ScalableVectors {
  llvm::StringLiteral cpu;
  int64_t bits;
};
constexpr ScalableVectors kScalableVectors[] = {
    {"neoverse-v1", 256}, {"neoverse-512tvb", 256}, {"a64fx", 512}};

/// Code for long vectors runs on machines of that very length alone: a feature says so, which LLVM
/// doesn't know.
void deriveArm64(Cpu &machine) {
  machine.vectorBits = 128;
  machine.vectorRegisters = 32;
  const ScalableVectors *known = llvm::find_if(
      kScalableVectors, [&](const ScalableVectors &one) { return one.cpu == machine.cpu; });
  if (!machine.has("sve") || known == std::end(kScalableVectors))
    return;
  machine.vectorBits = known->bits;
  std::string feature = "sve" + std::to_string(known->bits);
  machine.enabled.insert(llvm::upper_bound(machine.enabled, feature), feature);
}

void deriveArm(Cpu &machine) {
  machine.vectorBits = 128;
  machine.vectorRegisters = 16;
}

/// Vectors are as long as the machine has them at least.
void deriveRiscv(Cpu &machine) {
  constexpr int64_t kLeastBits = 128, kMostBits = 1024;
  machine.vectorBits = kLeastBits;
  machine.vectorRegisters = 32;
  for (int64_t bits = kLeastBits; bits <= kMostBits; bits *= 2)
    if (machine.has("zvl" + std::to_string(bits) + "b"))
      machine.vectorBits = bits;
}

constexpr llvm::StringLiteral kX86Code[] = {"sse*",  "ssse*", "avx*",   "amx-*", "bmi*",
                                            "adx",   "f16c",  "fma",    "fma4",  "gfni",
                                            "lzcnt", "movbe", "popcnt", "tbm",   "xop"};
constexpr llvm::StringLiteral kArm64Code[] = {
    "fp-armv8", "neon",      "fullfp16", "fp16fml", "dotprod", "rdm",   "i8mm",
    "bf16",     "complxnum", "sve",      "sve2",    "sve256",  "sve512"};
constexpr llvm::StringLiteral kArmCode[] = {"neon", "vfp3", "vfp4", "hwdiv", "hwdiv-arm"};
constexpr llvm::StringLiteral kRiscvCode[] = {"m",    "a",   "f",   "d",   "c",    "v",
                                              "zvl*", "zba", "zbb", "zbs", "zfh*", "zvfh*"};

constexpr Family kFamilies[] = {
    {"x86_64", llvm::Triple::x86_64, "x86_64-pc-linux-gnu", "sse4.1", "x86-64-v2",
     "x86-64-v3, skylake-avx512 or znver4", kX86Code, deriveX86},
    {"aarch64", llvm::Triple::aarch64, "aarch64-unknown-linux-gnu", "neon", "generic",
     "cortex-a53, neoverse-n1 or apple-m1", kArm64Code, deriveArm64},
    {"armv7", llvm::Triple::arm, "armv7-unknown-linux-gnueabihf", "neon,vfp4,hwdiv-arm",
     "cortex-a7", "cortex-a7 or cortex-a15", kArmCode, deriveArm},
    {"riscv64", llvm::Triple::riscv64, "riscv64-unknown-linux-gnu", "m,a,f,d,v", "rv64gcv",
     "rv64gcv, sifive-x280 or spacemit-x60", kRiscvCode, deriveRiscv}};

const Family &familyOf(const Cpu &machine) {
  auto arch = llvm::Triple(machine.triple).getArch();
  const Family *found =
      llvm::find_if(kFamilies, [&](const Family &family) { return family.arch == arch; });
  return found == std::end(kFamilies) ? kFamilies[0] : *found;
}

bool isCodeFeature(const Family &family, llvm::StringRef name) {
  return llvm::any_of(family.code, [&](llvm::StringRef one) {
    return one.consume_back("*") ? name.starts_with(one) : name == one;
  });
}

/// Caches of CPUs that are often in boards, in bytes of a core's data and of the second level, by
/// their makers' manuals; where the maker of a chip chooses, what most have.
struct Caches {
  llvm::StringLiteral cpu;
  int64_t l1Bytes, l2Bytes;
};
constexpr Caches kCaches[] = {
    {"cortex-a7", 32 << 10, 512 << 10}, {"cortex-a53", 32 << 10, 512 << 10},
    {"cortex-a72", 32 << 10, 1 << 20},  {"cortex-a76", 64 << 10, 512 << 10},
    {"neoverse-n1", 64 << 10, 1 << 20}, {"neoverse-v1", 64 << 10, 1 << 20},
    {"apple-m1", 128 << 10, 3 << 20}};

Status complete(Cpu &machine, std::string_view name) {
  const Family &family = familyOf(machine);
  auto info = subtarget(machine);
  if (!info)
    return invalidArgument(
        "machine '" + std::string(name) + "': no CPU of that name is known for " + machine.triple +
        "; use 'host' or a name as clang's -march takes it, as " + family.examples.str());
  machine.enabled.clear();
  for (const auto &feature : info->getEnabledProcessorFeatures())
    machine.enabled.emplace_back(feature.Key);
  llvm::sort(machine.enabled);
  llvm::SmallVector<llvm::StringRef> least;
  family.least.split(least, ',');
  for (llvm::StringRef feature : least)
    if (!machine.has(feature))
      return invalidArgument("machine '" + std::string(name) + "' lacks " + feature.upper() +
                             "; the least that kernels are compiled for is " +
                             family.leastName.str());
  family.derive(machine);
  if (family.arch == llvm::Triple::aarch64)
    machine.inOrder = info->getSchedModel().hasInstrSchedModel() && // else nothing is known
                      !info->getSchedModel().isOutOfOrder();
  return {};
}

/// "+avx2" or "-avx2"; a bare name is one to add.
Status applyFeature(Cpu &machine, llvm::StringRef text, std::string_view name) {
  std::string feature =
      (text.starts_with("+") || text.starts_with("-")) ? text.str() : "+" + text.str();
  auto info = subtarget(machine);
  llvm::StringRef bare = llvm::StringRef(feature).drop_front();
  bool known = info && llvm::any_of(info->getAllProcessorFeatures(),
                                    [&](const auto &entry) { return bare == entry.Key; });
  if (!known)
    return invalidArgument("machine '" + std::string(name) + "': '" + bare.str() +
                           "' is no feature of " + machine.triple);
  llvm::erase_if(machine.features,
                 [&](const std::string &given) { return given.substr(1) == bare; });
  machine.features.push_back(feature);
  // As clang does: LLVM gives up on instructions of 512 bits where it isn't told of the registers.
  bool isLong = llvm::StringRef(feature).starts_with("+avx512");
  if (isLong && llvm::none_of(machine.features, [](const std::string &given) {
        return given.substr(1) == kLongRegisters;
      }))
    machine.features.push_back("+" + kLongRegisters.str());
  return {};
}

Cpu bareHost() {
  Cpu machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  machine.cpu = llvm::sys::getHostCPUName().str();
  for (const auto &feature : llvm::sys::getHostCPUFeatures()) {
    // A version of AVX10 is a name for many features: those of AVX-512, which have their own names,
    // and by those a module says what it needs.
    bool isVersion = feature.getKey().starts_with("avx10.");
    bool isRefused = feature.getKey().starts_with(kMatrixUnit) && !mayUseTiles();
    machine.features.push_back((feature.getValue() && !isVersion && !isRefused ? "+" : "-") +
                               feature.getKey().str());
  }
  llvm::sort(machine.features);
  for (const HostCache &cache : hostCaches()) {
    if (cache.level == 1)
      machine.l1Bytes = cache.bytes;
    if (cache.level == 2)
      machine.l2Bytes = cache.bytes;
  }
  return machine;
}

std::vector<llvm::StringRef> unitOfArm(llvm::StringRef cpu) {
  std::vector<llvm::StringRef> features;
  llvm::ARM::getFPUFeatures(llvm::ARM::getDefaultFPU(cpu, llvm::ARM::parseCPUArch(cpu)), features);
  return features;
}

/// Of "host", "znver4", "aarch64:cortex-a53".
Result<Cpu> bareCpu(llvm::StringRef text, std::string_view name) {
  if (text == "host")
    return bareHost();
  Cpu machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  auto [prefix, cpu] = text.split(':');
  const Family *family =
      llvm::find_if(kFamilies, [&](const Family &one) { return one.prefix == prefix; });
  bool isFamily = family != std::end(kFamilies);
  if (cpu.empty() && isFamily)
    return invalidArgument("machine '" + std::string(name) + "': '" + prefix.str() +
                           "' is a family; name a CPU of it, as " + prefix.str() +
                           ":CPU where CPU is " + family->examples.str());
  if (cpu.empty()) {
    machine.cpu = text.str();
    return machine;
  }
  if (!isFamily) {
    auto names = llvm::map_range(kFamilies, [](const Family &one) { return one.prefix.str(); });
    return invalidArgument("machine '" + std::string(name) + "': '" + prefix.str() +
                           "' is no family of CPUs; there are " + llvm::join(names, ", "));
  }
  if (llvm::Triple(machine.triple).getArch() != family->arch)
    machine.triple = family->triple.str();
  machine.cpu = cpu.str();
  if (cpu.starts_with("rv64")) {
    auto set = llvm::RISCVISAInfo::parseArchString(cpu, /*EnableExperimentalExtension=*/false);
    if (!set)
      return invalidArgument("machine '" + std::string(name) +
                             "': " + llvm::toString(set.takeError()));
    machine.features = (*set)->toFeatures();
    machine.cpu = "generic-rv64";
  }
  if (family->arch ==
      llvm::Triple::arm) // whose floating-point unit LLVM's tables of CPUs leave open
    for (llvm::StringRef feature : unitOfArm(cpu))
      machine.features.push_back(feature.str());
  const Caches *caches = llvm::find_if(kCaches, [&](const Caches &one) { return one.cpu == cpu; });
  if (caches != std::end(kCaches)) {
    machine.l1Bytes = caches->l1Bytes;
    machine.l2Bytes = caches->l2Bytes;
  }
  return machine;
}

} // namespace

bool Cpu::has(std::string_view feature) const {
  return std::binary_search(enabled.begin(), enabled.end(), feature, std::less<>());
}

std::vector<std::string> Cpu::codeFeatures(bool matrixUnit) const {
  std::vector<std::string> result;
  const Family &family = familyOf(*this);
  llvm::copy_if(enabled, std::back_inserter(result), [&](llvm::StringRef name) {
    return isCodeFeature(family, name) && (matrixUnit || !name.starts_with(kMatrixUnit));
  });
  return result;
}

std::string Cpu::featureString() const { return llvm::join(features, ","); }

std::string Cpu::abi() const {
  return llvm::Triple(triple).getArch() == llvm::Triple::riscv64 ? "lp64d" : "";
}

bool Cpu::fusesMultiplyAdds() const {
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64:
    return has("fma");
  case llvm::Triple::arm:
    return has("vfp4");
  default: // always, with what kernels are compiled for at least
    return true;
  }
}

bool Cpu::convertsHalves() const {
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64:
    return has("f16c");
  case llvm::Triple::aarch64:
    return true;
  default:
    return false;
  }
}

Cpu hostCpu() {
  Cpu machine = bareHost();
  if (!complete(machine, "host").ok())
    machine.enabled.clear(); // a host below the least: compiling for it says so
  return machine;
}

Result<Cpu> parseCpu(std::string_view name) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(name).split(parts, ',');
  auto machineOr = bareCpu(parts[0], name);
  if (!machineOr.ok())
    return machineOr.status();
  Cpu machine = std::move(*machineOr);
  if (Status status = complete(machine, name); !status.ok())
    return status;
  for (llvm::StringRef feature : llvm::ArrayRef(parts).drop_front())
    if (Status status = applyFeature(machine, feature.trim(), name); !status.ok())
      return status;
  if (Status status = complete(machine, name); !status.ok())
    return status;
  return machine;
}

bool namesCpus(std::string_view word) {
  bool isFamily = llvm::any_of(
      kFamilies, [&](const Family &one) { return one.prefix == llvm::StringRef(word); });
  return isFamily || parseCpu(word).ok();
}

std::string toJson(const Cpu &machine) {
  llvm::json::Object object{
      {"triple", machine.triple},          {"cpu", machine.cpu},
      {"vector_bits", machine.vectorBits}, {"vector_registers", machine.vectorRegisters},
      {"l1_bytes", machine.l1Bytes},       {"l2_bytes", machine.l2Bytes},
      {"in_order", machine.inOrder},       {"features", machine.features},
      {"enabled", machine.enabled}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

} // namespace tensmith::targets::cpu
