// Kernels that do one thing as fast as the machine can: what its limits are measured with.
//
// They are modules of vector code like any kernel's, in vectors as wide as the machine's, and go
// the same way to objects. Instructions that no operator of the vector dialect stands for
// (multiply-adds of small integers and of bf16) are chosen by the machine's features.
#pragma once

#include "compiler/targets/cpu/machine/Cpu.h"

#include <string>
#include <vector>

namespace tensmith::targets::cpu {

/// A probe's sizes, in the order in which its kernel takes them. It runs `rounds` parallel loops of
/// `items`; an item has `stride` bytes of the one operand to itself, and does its work `passes`
/// times on `count` vectors of them, or `count` times in registers.
struct ProbeSizes {
  int64_t rounds = 1, items = 1, passes = 1, count = 0, stride = 4096;
};

/// `count` of a probe of memory is a multiple of this.
inline constexpr int64_t kProbeUnroll = 8;

struct Probe {
  std::string text; // the module
  // Of arithmetic, what MachineLimits says of it.
  std::string type, instruction;
  int64_t operations = 0; // in one turn of an item
};

Probe readProbe(const Cpu &machine);
Probe writeProbe(const Cpu &machine);
/// From the first half of the item's bytes to the second.
Probe copyProbe(const Cpu &machine);
/// One for each type that the machine multiplies and adds in vectors.
std::vector<Probe> arithmeticProbes(const Cpu &machine);

} // namespace tensmith::targets::cpu
