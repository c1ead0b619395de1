// How many bits codes use; see BitCodes.h.
//
// ONNX stores codes of 1 to 3 bits in bytes. What the rounding leaves of a bounded number is a run
// of codes, from its lower bound to its upper one; constants are looked at. Those of one bit that
// are -z and z are bipolar.
#include "compiler/rewrite/BitCodes.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"

#include <cmath>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

/// Bits for so many codes; nothing above `most`.
std::optional<int64_t> bitsFor(int64_t codes, int64_t most) {
  auto bits = int64_t(llvm::Log2_64_Ceil(uint64_t(std::max<int64_t>(codes, 2))));
  return bits <= most ? std::optional(bits) : std::nullopt;
}

std::optional<int64_t> zeroPoint(Value zero) {
  if (isZero(zero))
    return 0;
  auto known = graph::constantTensor(zero);
  return known && known->size() == 1 ? std::optional(known->getInt(0)) : std::nullopt;
}

} // namespace

std::optional<BitCodes> bitsOfQuantised(graph::QuantizeOp op, int64_t most) {
  auto scale = graph::constantTensor(op.getScale());
  auto type = dyn_cast<IntegerType>(op.getTo());
  auto zero = zeroPoint(op.getZeroPoint());
  if (!scale || scale->size() != 1 || !zero || !type || type.getWidth() != 8)
    return std::nullopt;
  graph::Bounds bounds = graph::boundsOf(op.getX());
  double step = scale->getDouble(0);
  // Of a bound between two codes the rounding of its quotient would decide.
  constexpr double kSure = 0.25;
  auto code = [&](double bound) -> std::optional<int64_t> {
    double quotient = bound / step, whole = std::nearbyint(quotient);
    bool isSure = std::abs(whole) <= 256 && std::abs(quotient - whole) <= kSure;
    return isSure ? std::optional(int64_t(whole)) : std::nullopt;
  };
  if (!(step > 0) || !std::isfinite(bounds.low) || !std::isfinite(bounds.high))
    return std::nullopt;
  auto low = code(bounds.low), high = code(bounds.high);
  if (!low || !high || *low > *high)
    return std::nullopt;
  int64_t least = type.isUnsigned() ? -*zero : -128 - *zero;
  low = std::clamp(*low, least, least + 255);
  high = std::clamp(*high, least, least + 255);
  auto bits = bitsFor(*high - *low + 1, most);
  // Offsets are not negative: 0 is among the numbers.
  if (!bits || *low > 0)
    return std::nullopt;
  return BitCodes{{*bits, 1, -*low}, *low, 1};
}

std::optional<BitCodes> bitsOfConstant(graph::DequantizeOp op, int64_t most) {
  auto zero = zeroPoint(op.getZeroPoint());
  auto codes = graph::constantTensor(op.getX());
  if (!zero || !codes || codes->size() == 0)
    return std::nullopt;
  int64_t low = codes->getInt(0), high = low;
  for (int64_t i = 0; i < codes->size(); ++i) {
    low = std::min(low, codes->getInt(i));
    high = std::max(high, codes->getInt(i));
  }
  bool isBipolar = high - low == 2 && low + 1 == *zero;
  for (int64_t i = 0; i < codes->size() && isBipolar; ++i)
    isBipolar = codes->getInt(i) != *zero;
  if (isBipolar)
    return BitCodes{graph::Codes::bipolar(1), low, 2};
  low = std::min(low, *zero);
  auto bits = bitsFor(high - low + 1, most);
  if (!bits)
    return std::nullopt;
  return BitCodes{{*bits, 1, *zero - low}, low, 1};
}

HostTensor codesOfConstant(graph::DequantizeOp op, const BitCodes &bits) {
  auto codes = graph::constantTensor(op.getX());
  HostTensor result(DataType::U8, codes->shape());
  if (result.valid())
    for (int64_t i = 0; i < codes->size(); ++i)
      result.setInt(i, (codes->getInt(i) - bits.lowest) / bits.step);
  return result;
}

} // namespace tensmith::rewrite
