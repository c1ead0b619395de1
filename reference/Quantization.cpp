// Reference evaluation of quantize and dequantize: between numbers and their codes, x = (q -
// zero_point) * scale.
//
// A block of elements along the axis shares a scale: the axis is split in two, [blocks, block
// size], and the scale is repeated (stride 0) along the second; what remains after the full blocks
// is a box of its own. A vector of scales has blocks of one element, a scalar one block of all.
#include "base/Float.h"
#include "reference/Bits.h"
#include "reference/Blocks.h"
#include "reference/Elements.h"
#include "reference/Workspace.h"

#include <cmath>

namespace tensmith::reference {
namespace {

/// x as [outer, blocks, block, inner], the last block perhaps shorter, and how the scale lies along
/// it.
struct Blocks {
  int64_t outer = 1, size = 0, inner = 1, block = 1;
  int64_t outerStride = 0, blockStride = 0, innerStride = 0; // of the scale
};

bool isShapedLikeBlocks(const HostTensor &x, const HostTensor &scale, size_t axis, int64_t block) {
  Shape expected = x.shape();
  expected[axis] = expected[axis] / block + (expected[axis] % block != 0);
  return scale.shape() == expected;
}

Blocks blocksOf(Workspace &workspace, const Invocation &invocation, const HostTensor &x,
                const HostTensor &scale) {
  if (scale.size() == 1 && scale.rank() <= 1)
    return {1, x.size(), 1, std::max<int64_t>(x.size(), 1), 0, 0, 0};
  size_t axis = workspace.axis("axis", invocation.attributes.integer("axis", 1), x.rank());
  int64_t block = invocation.attributes.integer("block_size");
  if (!workspace.ok())
    return {};
  Blocks blocks{extent(x.shape(), 0, axis),
                x.shape()[axis],
                extent(x.shape(), axis + 1, x.shape().size()),
                1,
                0,
                1,
                0};
  if (block == 0) {
    workspace.require(scale.rank() == 1 && scale.size() == blocks.size, "scale",
                      "must be one number, or one for each entry of the axis");
    return blocks;
  }
  if (block < 0 || block > kLargestExtent || !isShapedLikeBlocks(x, scale, axis, block))
    workspace.rejectAttribute("block_size", "of " + std::to_string(block) + " doesn't split " +
                                                toString(x.shape()) + " into scales of " +
                                                toString(scale.shape()));
  blocks.block = std::max<int64_t>(block, 1);
  blocks.innerStride = 1;
  blocks.blockStride = blocks.inner;
  blocks.outerStride = scale.size() / std::max<int64_t>(blocks.outer, 1);
  return blocks;
}

/// `visit(offset in x, step in x, offset in scale, step in scale, count)` for runs that cover x
/// once.
template <typename Visit> void forEachScaledRun(const Blocks &blocks, Visit visit) {
  int64_t full = blocks.size / blocks.block, rest = blocks.size % blocks.block;
  auto visitBox = [&](int64_t first, int64_t count, int64_t block) {
    const Shape box{blocks.outer, count, block, blocks.inner};
    StridedLoop<2> loop = mergeDimensions<2>(
        box, {std::vector<int64_t>{blocks.size * blocks.inner, blocks.block * blocks.inner,
                                   blocks.inner, 1},
              std::vector<int64_t>{blocks.outerStride, blocks.blockStride, 0, blocks.innerStride}});
    int64_t x = first * blocks.block * blocks.inner, scale = first * blocks.blockStride;
    forEachRun(loop, [&](const auto &offsets, const auto &steps, int64_t count) {
      visit(x + offsets[0], steps[0], scale + offsets[1], steps[1], count);
    });
  };
  visitBox(0, full, blocks.block);
  if (rest > 0)
    visitBox(full, 1, rest);
}

/// The zero point, if there is one, of the scale's shape.
const HostTensor *zeroPoint(Workspace &workspace, const Invocation &invocation,
                            const HostTensor &scale, DataType type) {
  if (!invocation.present(2))
    return nullptr;
  const HostTensor &zero = workspace.operand(2, "zero_point");
  workspace.require(zero.size() == scale.size(), "zero_point", "is not shaped like the scale");
  workspace.require(zero.type() == type, "zero_point", "is not of the quantized type");
  return &zero;
}

/// Runs of x, of the scale and of the zero point (zeros without one), as doubles.
struct ScaledRun {
  std::array<double, kRun> x, scale, zero{};

  void load(const HostTensor &values, const HostTensor &scales, const HostTensor *zeros,
            int64_t xOffset, int64_t xStep, int64_t offset, int64_t step, int64_t count) {
    loadRun<double>(values, xOffset, xStep, count, x.data());
    loadRun<double>(scales, offset, step, count, scale.data());
    if (zeros)
      loadRun<double>(*zeros, offset, step, count, zero.data());
  }
};

/// Rounded to the type in which the specification divides: that of the scale.
double roundedTo(DataType type, double value) {
  if (type == DataType::F32)
    return float(value);
  const FloatFormat *format = floatFormat(type);
  return format ? decode(*format, encode(*format, value, /*saturate=*/false)) : value;
}

/// The code of a quotient: clamped to the integers of the type, or rounded to its floats.
class Quantizer {
public:
  Quantizer(DataType type, bool saturate)
      : format_(floatFormat(type)), saturate_(saturate), isInteger_(isInteger(type)) {
    bool isSigned = info(type).kind == TypeClass::Signed;
    int bits = info(type).bits;
    lowest_ = isSigned ? -std::ldexp(1.0, bits - 1) : 0;
    highest_ = std::ldexp(1.0, isSigned ? bits - 1 : bits) - 1;
  }

  /// The value that the code stands for; of NaN, an integer's is the zero point.
  double operator()(double quotient, double zero) const {
    if (isInteger_)
      return std::clamp(zero + (std::isnan(quotient) ? 0 : std::nearbyint(quotient)), lowest_,
                        highest_);
    return format_ ? decode(*format_, encode(*format_, quotient + zero, saturate_))
                   : quotient + zero;
  }

private:
  const FloatFormat *format_;
  bool saturate_, isInteger_;
  double lowest_, highest_;
};

bool isQuantizedType(DataType type) {
  return (isInteger(type) && info(type).bits <= 16) ||
         (isFloat(type) && byteSize(type) == 1 && type != DataType::F8E8M0);
}

/// As encode() gives it, also where infinity or NaN has no way through a saturating store.
void storeCodes(HostTensor &y, int64_t offset, int64_t step, int64_t count,
                std::span<const double> values) {
  const FloatFormat *format = floatFormat(y.type());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = offset + i * step;
    if (format)
      y.as<uint8_t>()[size_t(at)] = uint8_t(encode(*format, values[size_t(i)], /*saturate=*/false));
    else
      y.setDouble(at, values[size_t(i)]);
  }
}

Outcome evaluateQuantize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &scale = workspace.operand(1, "scale");
  DataType type = invocation.attributes.type("to");
  if (!isQuantizedType(type))
    workspace.rejectAttribute("to", "must be an integer of at most 16 bits or a float of 8");
  const HostTensor *zero = zeroPoint(workspace, invocation, scale, type);
  HostTensor y = workspace.allocate(type, x.shape());
  if (!workspace.ok())
    return workspace.status();
  Blocks blocks = blocksOf(workspace, invocation, x, scale);
  Quantizer quantizer(type, invocation.attributes.integer("saturate", 1) != 0);
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  ScaledRun run;
  forEachScaledRun(
      blocks, [&](int64_t at, int64_t atStep, int64_t offset, int64_t step, int64_t count) {
        run.load(x, scale, zero, at, atStep, offset, step, count);
        for (size_t i = 0; i < size_t(count); ++i)
          run.x[i] = quantizer(roundedTo(scale.type(), run.x[i] / run.scale[i]), run.zero[i]);
        storeCodes(y, at, atStep, count, run.x);
      });
  return workspace.finish(std::move(y));
}

Outcome evaluateDequantize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &scale = workspace.operand(1, "scale");
  DataType type = invocation.attributes.has("to") ? invocation.attributes.type("to") : scale.type();
  if (!isFloat(type))
    workspace.rejectAttribute("to", "must be a float");
  const HostTensor *zero = zeroPoint(workspace, invocation, scale, x.type());
  HostTensor y = workspace.allocate(type, x.shape());
  if (!workspace.ok())
    return workspace.status();
  Blocks blocks = blocksOf(workspace, invocation, x, scale);
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  ScaledRun run;
  forEachScaledRun(blocks,
                   [&](int64_t at, int64_t atStep, int64_t offset, int64_t step, int64_t count) {
                     run.load(x, scale, zero, at, atStep, offset, step, count);
                     for (size_t i = 0; i < size_t(count); ++i)
                       run.x[i] = (run.x[i] - run.zero[i]) * run.scale[i];
                     if (atStep == 1)
                       storeRun<double>(y, at, count, run.x.data());
                     else
                       for (int64_t i = 0; i < count; ++i)
                         y.setDouble(at + i * atStep, run.x[size_t(i)]);
                   });
  return workspace.finish(std::move(y));
}

/// Codes are integers, so that each is a float of the scale's type, and none needs to be stored.
Outcome evaluateFakeQuantize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &scale = workspace.operand(1, "scale");
  DataType type = invocation.attributes.type("to");
  if (!isInteger(type) || info(type).bits > 16)
    workspace.rejectAttribute("to", "must be an integer of at most 16 bits");
  const HostTensor *zero = zeroPoint(workspace, invocation, scale, type);
  HostTensor y = workspace.allocate(x.type(), x.shape());
  if (!workspace.ok())
    return workspace.status();
  Blocks blocks = blocksOf(workspace, invocation, x, scale);
  Quantizer quantizer(type, /*saturate=*/true);
  if (!workspace.ok() || x.size() == 0)
    return workspace.finish(std::move(y));
  ScaledRun run;
  forEachScaledRun(
      blocks, [&](int64_t at, int64_t atStep, int64_t offset, int64_t step, int64_t count) {
        run.load(x, scale, zero, at, atStep, offset, step, count);
        for (size_t i = 0; i < size_t(count); ++i) {
          double code = quantizer(roundedTo(scale.type(), run.x[i] / run.scale[i]), run.zero[i]);
          y.setDouble(at + int64_t(i) * atStep, (code - run.zero[i]) * run.scale[i]);
        }
      });
  return workspace.finish(std::move(y));
}

constexpr Entry kEntries[] = {
    {"quantize", evaluateQuantize},          {"dequantize", evaluateDequantize},
    {"fake_quantize", evaluateFakeQuantize}, {"block_values", evaluateBlockValues},
    {"block_product", evaluateBlockProduct}, {"cached_attention", evaluateCachedAttention},
    {"bit_pack", evaluateBitPack},           {"bit_conv", evaluateBitConv}};

} // namespace

std::span<const Entry> quantizationEntries() { return kEntries; }

} // namespace tensmith::reference
