// What LLVM would call a library for on 32-bit ARM, where a kernel has none: done by instructions.
//
// These are divisions of 64-bit integers, conversions between them and floats, and, below ARMv8,
// rounding to whole numbers. The index arithmetic of all kernels is of 64 bits, since sizes are.
//
// - A division becomes a call of a function of the module's own, one for each kind. Operands that
//   fit 32 bits, which nearly all do, take the instruction for those; else it goes bit by bit.
// - A conversion goes by the two halves, as doubles. One to f32 first gathers the bits that are too
//   many for a double in the last that it has, so that rounding twice gives what rounding once does
//   (Boldo & Melquiond, "When double rounding is odd", 2005).
// - A number is rounded by adding 2^23 (2^52 for f64) and subtracting it again, where it is less.
#pragma once

#include "compiler/targets/cpu/machine/Cpu.h"

namespace llvm {
class Module;
}

namespace tensmith::targets::cpu {

/// Of optimised code, to which it does nothing where the machine needs none of it.
void replaceLibraryCalls(llvm::Module &module, const Cpu &machine);

} // namespace tensmith::targets::cpu
