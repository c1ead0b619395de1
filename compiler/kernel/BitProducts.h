// Whether a machine multiplies numbers bit by bit, and what that costs it.
#pragma once

#include "compiler/kernel/Machine.h"

namespace tensmith::kernel {

/// The template that multiplies bit planes (graph::BitConvOp), where a machine has it.
inline constexpr llvm::StringLiteral kBitSerialName = "bit serial";

/// The instruction that adds up products of bits, in words or in bytes; null: the machine has none.
const Intrinsic *bitProducts(const Machine &machine);

/// Whether products of numbers of so many bits, `channels` side by side, take less time bit by bit
/// than as bytes or pairs of them, by the rates of the machine's instructions.
bool bitsAreFaster(const Machine &machine, int64_t xBits, int64_t wBits, int64_t channels);

} // namespace tensmith::kernel
