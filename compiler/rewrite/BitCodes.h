// Operands of products that stand for codes of few bits, as bit-serial kernels take them.
#pragma once

#include "compiler/graph/Bits.h"
#include "compiler/rewrite/CodedOperands.h"

namespace tensmith::rewrite {

/// Codes of a dequantisation, of which no more bits are used than these: number = factor * code -
/// offset, with code = (stored - lowest) / step.
struct BitCodes {
  graph::Codes of;
  int64_t lowest = 0; // of activations relative to their zero point, of weights as they are stored
  int64_t step = 1;
};

/// Of a quantisation whose operand is bounded, as it is before it is rounded (a clip); nothing
/// where more than `most` bits are used, or none are known.
std::optional<BitCodes> bitsOfQuantised(graph::QuantizeOp op, int64_t most);

/// Of constant codes with one zero point.
std::optional<BitCodes> bitsOfConstant(graph::DequantizeOp op, int64_t most);

/// The codes themselves, as ui8.
HostTensor codesOfConstant(graph::DequantizeOp op, const BitCodes &bits);

} // namespace tensmith::rewrite
