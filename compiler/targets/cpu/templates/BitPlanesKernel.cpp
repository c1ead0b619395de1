// The planes of codes whose words lie along the last dimension: a vector of codes is tested for
// each bit, and the lanes' answers are a part of a word. What is element-wise before the planes, as
// the rounding to codes, is computed here, so that codes of a few bits are never stored as bytes.
//
// Several of the machine's vectors are one, since operators before it are long chains (RowSweep.h).
// Lanes behind the last code are zero, and so are parts of a word that have none.
#include "compiler/targets/cpu/templates/BitSerialKernel.h"

#include "compiler/graph/Bits.h"
#include "compiler/kernel/KernelFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kVectors = 4; // of 32-bit numbers, of which a part is made

class PlaneEmitter {
public:
  PlaneEmitter(ElementEmitter &emitter, graph::BitPackOp op, const Machine &machine, Value result)
      : emitter_(emitter), math_(emitter.math), op_(op), result_(result),
        dims_(emitter.dims(op.getX())), bits_(int64_t(op.getBits())), word_(int64_t(op.getWord())),
        lanes_(std::min(word_, kVectors * machine.lanes(sizeof(float)))),
        size_(cast<RankedTensorType>(op.getX().getType()).getShape().back()) {}

  void emit(Value row) {
    SmallVector<Value> at = math_.delinear(row, ArrayRef(dims_).drop_back());
    int64_t words = int64_t(llvm::divideCeil(size_, word_)), parts = word_ / lanes_ * words;
    Value start = math_.mul(row, bits_ * parts);
    int64_t whole = size_ / lanes_;
    emitFor(math_, math_.constant(0), math_.constant(whole), math_.constant(1), [&](Value part) {
      Position position{at, lanes_};
      position.indices.push_back(math_.mul(part, lanes_));
      store(emitter_.element(op_.getX(), position), math_.add(start, part), parts);
    });
    if (whole * lanes_ < size_) {
      Position position{at, lanes_};
      position.indices.push_back(math_.constant(whole * lanes_));
      position.mask = emitter_.maskBelow(math_.constant(size_ - whole * lanes_), lanes_);
      Value codes = emitter_.element(op_.getX(), position);
      Value zero = make<arith::ConstantOp>(emitter_.builder().getZeroAttr(codes.getType()));
      codes = make<arith::SelectOp>(position.mask, codes, zero);
      store(codes, math_.add(start, whole++), parts);
    }
    Value none = make<arith::ConstantOp>(emitter_.builder().getZeroAttr(partType()));
    for (; whole < parts; ++whole)
      for (int64_t plane = 0; plane < bits_; ++plane)
        storePart(none, math_.add(start, plane * parts + whole));
  }

private:
  void store(Value codes, Value place, int64_t parts) {
    auto type = cast<VectorType>(codes.getType());
    auto splat = [&](int64_t value) -> Value {
      return make<arith::ConstantOp>(DenseElementsAttr::get(type, llvm::APInt(8, uint64_t(value))));
    };
    for (int64_t plane = 0; plane < bits_; ++plane) {
      Value bit = make<arith::AndIOp>(codes, splat(int64_t(1) << plane));
      Value isSet = make<arith::CmpIOp>(arith::CmpIPredicate::ne, bit, splat(0));
      storePart(make<LLVM::BitcastOp>(partType(), isSet), math_.add(place, plane * parts));
    }
  }
  void storePart(Value part, Value place) {
    emitter_.builder().create<LLVM::StoreOp>(
        math_.location, part, elementPointer(math_, partType(), result_, place), /*alignment=*/1u);
  }
  Type partType() { return emitter_.builder().getIntegerType(unsigned(lanes_)); }

  template <typename Op, typename... Operands> Value make(Operands... operands) {
    return emitter_.builder().create<Op>(math_.location, operands...);
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  graph::BitPackOp op_;
  Value result_;
  SmallVector<Value> dims_;
  int64_t bits_, word_, lanes_, size_;
};

bool isPlanes(Operation *op) {
  auto pack = dyn_cast<graph::BitPackOp>(op);
  auto x = pack ? dyn_cast<RankedTensorType>(pack.getX().getType()) : RankedTensorType();
  if (!x || x.getRank() == 0 || x.getShape().back() <= 0)
    return false;
  int64_t last = x.getRank() - 1;
  return int64_t(pack.getAxis()) == last && int64_t(pack.getPlanes()) == last;
}

} // namespace

const Template kBitPlanes = {
    .name = "bit planes",
    .mayBeRoot = isPlanes,
    .isRoot = isPlanes,
    .takes =
        [](graph::KernelOp kernel, Operation *main, const Machine &) {
          auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
          return isPlanes(main) && yield.getValues().size() == 1 &&
                 yield.getValues()[0].getDefiningOp() == main;
        },
    .parts =
        [](graph::KernelOp, Operation *main, const Machine &machine, const Point &) {
          auto root = cast<graph::BitPackOp>(main);
          KernelParts parts;
          parts.summary = "bit planes";
          parts.items = [=](IndexMath &math, const SizeValues &sizes) mutable -> WorkItems {
            auto dims = dimValues(math, sizes, root.getX().getType());
            return {math.product(ArrayRef(dims).drop_back()), grainOf(math, dims.back())};
          };
          parts.body = [=, &machine](ElementEmitter &emitter, ValueRange results, Value begin,
                                     Value end) {
            PlaneEmitter planes(emitter, root, machine, results[0]);
            emitFor(emitter.math, begin, end, emitter.math.constant(1),
                    [&](Value row) { planes.emit(row); });
          };
          return parts;
        },
    .computesOperands = true,
    .completesAtEnd = true,
};

} // namespace tensmith::kernel
