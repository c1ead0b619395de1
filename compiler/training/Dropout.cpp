// Philox (base/Philox.h) as graph code, of the elements of a tensor at once; see Dropout.h.
#include "compiler/training/Dropout.h"

#include "base/Philox.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

constexpr double kWord = 0xffffffff;

Value shiftedRight(const GraphCode &code, Value x, double bits) {
  return code.op("graph.bit_shift", {x, x ? code.scalar(x, bits) : x},
                 {code.builder.getNamedAttr("left", code.builder.getBoolAttr(false))});
}

/// Words of 32 bits in integers of 64, whose products with a multiplier wrap around to the right
/// bits.
class Philox {
public:
  explicit Philox(const GraphCode &code) : code_(code) {}

  /// The first word of the counter (low, 0, step, 0), where `low` and `step` are below 2^32.
  Value firstWord(Value low, Value step, uint64_t seed) const {
    auto key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
    Value zero = code_.scalar(low, 0);
    std::array<Value, 4> counter{low, zero, step, zero};
    for (int round = 0; round < kPhiloxRounds; ++round) {
      Value product0 = multiply(counter[0], kPhiloxMultiplier0),
            product1 = multiply(counter[2], kPhiloxMultiplier1);
      counter = {mix(product1, counter[1], key0), lowHalf(product1),
                 mix(product0, counter[3], key1), lowHalf(product0)};
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    return counter[0];
  }

private:
  Value multiply(Value word, uint32_t by) const { return code_.mul(word, double(by)); }
  Value lowHalf(Value x) const {
    return code_.op("graph.bitwise_and", {x, x ? code_.scalar(x, kWord) : x});
  }
  Value mix(Value product, Value word, uint32_t key) const {
    if (!product)
      return {};
    Value high = lowHalf(shiftedRight(code_, product, 32));
    Value mixed = code_.op("graph.bitwise_xor", {high, word});
    return code_.op("graph.bitwise_xor", {mixed, code_.scalar(product, double(key))});
  }

  const GraphCode &code_;
};

/// What a process's numbers depend on.
struct Counter {
  Value step, process; // the latter null where there is one process
};

/// The numbers of the elements of x in the batch of all processes, below 2^32.
Value elementsOf(Value x, Value process, const GraphCode &code) {
  Value elements = code.iota({code.graph.shapes.product(code.dims(x))}, 0);
  if (!process)
    return elements;
  Value before = process;
  for (int64_t dim = 0; dim < GraphCode::rank(x); ++dim)
    before = code.mul(before, code.sizeOf(x, dim));
  elements = code.add(elements, before);
  return code.op("graph.bitwise_and", {elements, code.scalar(elements, kWord)});
}

/// Whether each element is kept.
Value maskOf(graph::DropoutOp op, Value ratio, const Counter &counter, const GraphCode &code) {
  Value x = op.getX();
  auto dims = code.dims(x);
  Value elements = elementsOf(x, counter.process, code);
  Value word = Philox(code).firstWord(elements, counter.step, uint64_t(op.getSeed()));
  // 24 bits are exact in f32, and so never rounded up to 1.
  Value bits = code.cast(shiftedRight(code, word, 8), code.builder.getF32Type());
  Value kept = code.op("graph.greater_or_equal", {code.mul(bits, 0x1p-24), ratio});
  return code.reshape(kept, dims);
}

Status replace(graph::DropoutOp op, const Counter &counter, GraphCode &code) {
  code.builder.setInsertionPoint(op);
  code.graph.location = op.getLoc();
  Value x = op.getX();
  if (!GraphCode::isRanked(x))
    return invalidArgument("dropout of a tensor of unknown rank can't be trained");
  Value given = GraphCode::isAbsent(op.getRatio())
                    ? code.graph.scalar(code.builder.getF32Type(), 0.5)
                    : op.getRatio();
  Value ratio = code.reshape(code.cast(given, code.builder.getF32Type()), {});
  Value mask = maskOf(op, ratio, counter, code);
  Value one = ratio ? code.scalar(ratio, 1) : ratio;
  // Where all are dropped no factor is asked for: a gradient of zero times infinity would be none.
  Value keepsSome = code.op("graph.less", {ratio, one});
  Value scale = code.where(keepsSome, code.div(one, code.sub(one, ratio)),
                           ratio ? code.scalar(ratio, 0) : ratio);
  Value factor = code.cast(scale, GraphCode::element(x));
  Value y = code.where(mask, code.mul(x, factor), code.scalar(x, 0));
  if (!y)
    return {StatusCode::Internal, "dropout can't be built"};
  op.getY().replaceAllUsesWith(y);
  op.getMask().replaceAllUsesWith(mask);
  op.erase();
  return {};
}

} // namespace

Status replaceDropout(StepFunction &function, Value step, Value process, GraphCode &code) {
  SmallVector<graph::DropoutOp> all;
  for (auto op : function.block().getOps<graph::DropoutOp>())
    all.push_back(op);
  if (all.empty())
    return {};
  code.builder.setInsertionPointToStart(&function.block());
  Value low = code.op("graph.bitwise_and", {step, code.scalar(step, kWord)});
  for (graph::DropoutOp op : all)
    if (Status status = replace(op, {low, process}, code); !status.ok())
      return status;
  return {};
}

} // namespace tensmith::training
