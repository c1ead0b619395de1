// A CPU as data: what the kernel layer sizes its tiles by, and what the code generator compiles
// for.
//
// A machine is the host's, found out, or another's, named: "x86-64-v3", "znver4,-avx512f",
// "aarch64:cortex-a76", "riscv64:rv64gcv,zvl256b". It decides nothing by itself. Whatever changes
// the code is either in the text of a kernel, as tiles sized by caches are, or part of its key in
// KernelCompiler.cpp, as features are.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::targets::cpu {

struct Cpu {
  std::string triple; // "x86_64-pc-linux-gnu"
  std::string cpu;    // LLVM's name of it: "znver4"
  /// Signed, as LLVM takes them ("+avx2", "-avx512f"), sorted: of a host all that it has, of a
  /// named machine those asked for.
  std::vector<std::string> features;
  /// The features that code for it may use, by name, sorted: those of the CPU's model, with
  /// `features` applied.
  std::vector<std::string> enabled;
  int64_t vectorBits = 128; // of the widest vectors worth using
  int vectorRegisters = 16;
  bool inOrder = false;        // by LLVM's model of it; of ARM's alone
  int64_t l1Bytes = 32 << 10;  // of one core's data
  int64_t l2Bytes = 512 << 10; // of one core
  /// Of the measured limits that estimates count with (MachineLimits.h); empty: of none.
  std::string limits;

  bool has(std::string_view feature) const;
  /// Whether it is one of ARM's 64-bit kind, whose vectors are NEON's.
  bool isArm64() const { return triple.starts_with("aarch64"); }
  /// Of the enabled ones, those whose instructions may be in the code: what a module's reader has
  /// to check for.
  std::vector<std::string> codeFeatures(bool matrixUnit = true) const;
  std::string featureString() const; // "+avx,+avx2,-avx512f"
  std::string abi() const;           // LLVM's name of it; empty: the triple says it
  /// Whether a product and a sum can be one operation of f32 and f64.
  bool fusesMultiplyAdds() const;
  /// Whether f16 becomes f32, and back, by an instruction.
  bool convertsHalves() const;
  bool operator==(const Cpu &) const = default;
};

Cpu hostCpu();

/// "host", or a CPU's name, then features to add or take away: "host,-avx512f", "skylake-avx512",
/// "znver4,+sse4a". A CPU of another family than the host has that before it: "aarch64:cortex-a53",
/// "armv7:cortex-a7", "x86_64:znver4"; of RISC-V the instruction set may stand for the name:
/// "riscv64:rv64gcv,zvl256b". The caches of a machine that isn't the host are those of a common one
/// of its kind.
Result<Cpu> parseCpu(std::string_view name);

/// Whether that word alone begins names of CPUs: "host", a family, a CPU.
bool namesCpus(std::string_view word);

/// All that it is; not what was measured of it.
std::string toJson(const Cpu &machine);
} // namespace tensmith::targets::cpu
