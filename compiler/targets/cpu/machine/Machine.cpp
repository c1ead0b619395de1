// Finding out what the host is, and what a named CPU has, from LLVM's tables.
#include "compiler/targets/cpu/machine/Machine.h"

#include "base/Cpus.h"
#include "compiler/targets/cpu/codegen/NativeTarget.h"
#include "compiler/targets/cpu/machine/HostCaches.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/JSON.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>

namespace tensmith::targets::cpu {
namespace {

/// What LLVM knows of the machine; null where it doesn't know the CPU.
std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const Machine &machine) {
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

/// Of LLVM's features, which are also instructions for system software and hints to its scheduler:
/// those of computing.
bool isCodeFeature(llvm::StringRef name) {
  static constexpr llvm::StringRef kFamilies[] = {"sse", "ssse", "avx", kMatrixUnit, "bmi"};
  static constexpr llvm::StringRef kSingle[] = {"adx",   "f16c",  "fma",    "fma4", "gfni",
                                                "lzcnt", "movbe", "popcnt", "tbm",  "xop"};
  return llvm::is_contained(kSingle, name) ||
         llvm::any_of(kFamilies, [&](llvm::StringRef family) { return name.starts_with(family); });
}

/// What follows from the CPU's name and features.
void deriveVectors(Machine &machine) {
  bool avx512 = machine.has("avx512f") && machine.has("avx512bw") && machine.has("avx512dq") &&
                machine.has("avx512vl");
  machine.vectorBits = avx512 ? 512 : machine.has("avx") ? 256 : 128;
  machine.vectorRegisters = avx512 ? 32 : 16;
}

Status complete(Machine &machine, std::string_view name) {
  initializeNativeTarget();
  auto info = subtarget(machine);
  if (!info)
    return invalidArgument("machine '" + std::string(name) +
                           "': no CPU of that name is known for " + machine.triple +
                           "; use 'host' or a name as clang's -march takes it, as x86-64-v3, "
                           "skylake-avx512 or znver4");
  machine.enabled.clear();
  for (const auto &feature : info->getEnabledProcessorFeatures())
    machine.enabled.emplace_back(feature.Key);
  llvm::sort(machine.enabled);
  if (!machine.has("sse4.1"))
    return unsupported("machine '" + std::string(name) +
                       "' lacks SSE4.1; the least that kernels are compiled for is x86-64-v2");
  deriveVectors(machine);
  return {};
}

/// "+avx2" or "-avx2"; a bare name is one to add.
Status applyFeature(Machine &machine, llvm::StringRef text, std::string_view name) {
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
  return {};
}

Machine bareHost() {
  Machine machine;
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

} // namespace

bool Machine::has(std::string_view feature) const {
  return std::binary_search(enabled.begin(), enabled.end(), feature, std::less<>());
}

std::vector<std::string> Machine::codeFeatures(bool matrixUnit) const {
  std::vector<std::string> result;
  llvm::copy_if(enabled, std::back_inserter(result), [&](llvm::StringRef name) {
    return isCodeFeature(name) && (matrixUnit || !name.starts_with(kMatrixUnit));
  });
  return result;
}

std::string Machine::featureString() const { return llvm::join(features, ","); }

Machine hostMachine() {
  Machine machine = bareHost();
  if (!complete(machine, "host").ok())
    machine.enabled.clear(); // a host below the least: compiling for it says so
  return machine;
}

Result<Machine> parseMachine(std::string_view name) {
  initializeNativeTarget();
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(name).split(parts, ',');
  Machine machine;
  if (parts[0] == "host") {
    machine = bareHost();
  } else {
    machine.triple = llvm::sys::getDefaultTargetTriple();
    machine.cpu = parts[0].str();
  }
  if (Status status = complete(machine, name); !status.ok())
    return status;
  for (llvm::StringRef feature : llvm::ArrayRef(parts).drop_front())
    if (Status status = applyFeature(machine, feature.trim(), name); !status.ok())
      return status;
  if (Status status = complete(machine, name); !status.ok())
    return status;
  return machine;
}

std::string toJson(const Machine &machine) {
  llvm::json::Object object{
      {"triple", machine.triple},          {"cpu", machine.cpu},
      {"vector_bits", machine.vectorBits}, {"vector_registers", machine.vectorRegisters},
      {"l1_bytes", machine.l1Bytes},       {"l2_bytes", machine.l2Bytes},
      {"features", machine.features},      {"enabled", machine.enabled}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

} // namespace tensmith::targets::cpu
