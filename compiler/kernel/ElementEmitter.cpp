// Elements of a region's values, computed where they are used; see ElementEmitter.h.
#include "compiler/kernel/ElementEmitter.h"

#include "compiler/graph/Bounds.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/ScalarCode.h"
#include "compiler/kernel/WindowElement.h"
#include "runtime/KernelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace tensmith::kernel {
namespace {

bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

/// The elements of the dimensions behind the first `dims`, of those alone behind which all sizes
/// are known.
int64_t elementsBehind(RankedTensorType type, size_t dims) {
  int64_t product = 1;
  for (int64_t size : llvm::reverse(type.getShape().drop_front(dims))) {
    if (ShapedType::isDynamic(size))
      break;
    product *= size;
  }
  return product;
}

/// Whether an operator's code gave what its result is made of; an error says what it gave instead.
bool hasType(Value emitted, Value result, int64_t lanes) {
  Type wanted = withLanes(graph::kernelElementType(getElementTypeOrSelf(result.getType())), lanes);
  if (emitted.getType() == wanted)
    return true;
  Operation *op = result.getDefiningOp();
  emitError(op->getLoc()) << "the code of '" << op->getName() << "' gives " << emitted.getType()
                          << " where " << wanted << " is wanted";
  return false;
}

/// What an operator's emitElement sees of the emitter.
class OperatorContext final : public graph::ElementContext {
public:
  /// `addresses`: the first operand's elements, which the operator only moves, are given by their
  /// places in memory. `lanes`: what the operator carries are vectors of so many elements.
  OperatorContext(ElementEmitter &emitter, Operation *op, bool addresses = false, int64_t lanes = 1,
                  Value mask = {})
      : ElementContext(emitter.builder(), op->getLoc()), emitter_(emitter), op_(op),
        addresses_(addresses), lanes_(lanes), mask_(mask) {}

  Value operand(unsigned number, ValueRange indices) override {
    int64_t rank = cast<RankedTensorType>(op_->getOperand(number).getType()).getRank();
    if (int64_t(indices.size()) != rank) {
      emitError(op_->getLoc()) << "the code of '" << op_->getName() << "' reads operand "
                               << int64_t(number) << " at " << int64_t(indices.size())
                               << " indices, and it has " << rank << " dimensions";
      emitter_.failed = true;
      return emitter_.builder().create<LLVM::PoisonOp>(
          location, graph::kernelElementType(getElementTypeOrSelf(op_->getOperand(number))));
    }
    if (addresses_ && number == 0)
      return emitter_.address(op_->getOperand(0), indices);
    return emitter_.element(op_->getOperand(number), {SmallVector<Value>(indices), lanes_, mask_});
  }
  Value operandSize(unsigned number, unsigned dim) override {
    return size(op_->getOperand(number), dim);
  }
  Value resultSize(unsigned number, unsigned dim) override {
    return size(op_->getResult(number), dim);
  }
  int64_t lanes() const override { return lanes_; }
  void check(Value condition, StringRef message, Value detail) override {
    emitter_.check(condition, message, detail);
  }

  SmallVector<Value> loop(ValueRange extents, ValueRange initial, LoopBody body) override {
    SmallVector<Value> indices, carried(initial);
    if (lanes_ > 1)
      for (Value &value : carried)
        value = emitter_.splat(value, lanes_);
    if (unrollable(extents))
      return unrolled(extents, indices, carried, body);
    return nested(extents, indices, carried, body,
                  addsUp(carried) ? ValueRange(carried) : ValueRange());
  }

private:
  // A window of 3 x 3 or 4 x 4 becomes straight code, so that the loop around it can be vectorised.
  static constexpr int64_t kMaxUnrolled = 16;

  Value size(Value tensor, unsigned dim) {
    return dimValue(emitter_.math, emitter_.sizes, cast<RankedTensorType>(tensor.getType()), dim);
  }

  static bool unrollable(ValueRange extents) {
    int64_t product = 1;
    for (Value extent : extents) {
      auto constant = constantIndex(extent);
      if (!constant || (product *= *constant) > kMaxUnrolled)
        return false;
    }
    return true;
  }

  SmallVector<Value> unrolled(ValueRange extents, SmallVector<Value> &indices,
                              SmallVector<Value> carried, LoopBody body) {
    if (indices.size() == extents.size())
      return body(indices, carried);
    int64_t extent = *constantIndex(extents[indices.size()]);
    for (int64_t i = 0; i < extent; ++i) {
      indices.push_back(emitter_.math.constant(i));
      carried = unrolled(extents, indices, carried, body);
      indices.pop_back();
    }
    return carried;
  }

  bool addsUp(ValueRange carried) {
    return isa<graph::ReduceSumOp>(op_) && isa<FloatType>(getElementTypeOrSelf(carried[0]));
  }

  /// Sums of floats begin at zero (`zeros`, else none) in each of the inner loops: rounding grows
  /// with the root of a chain's length.
  SmallVector<Value> nested(ValueRange extents, SmallVector<Value> &indices, ValueRange carried,
                            LoopBody body, ValueRange zeros) {
    if (indices.size() == extents.size())
      return body(indices, carried);
    Value zero = emitter_.math.constant(0), one = emitter_.math.constant(1);
    auto loop = builder.create<scf::ForOp>(location, zero, extents[indices.size()], one, carried);
    OpBuilder::InsertionGuard guard(builder);
    if (carried.empty())
      builder.setInsertionPoint(loop.getBody()->getTerminator());
    else
      builder.setInsertionPointToEnd(loop.getBody());
    indices.push_back(loop.getInductionVar());
    ValueRange before = loop.getRegionIterArgs();
    bool fromZero = !zeros.empty() && indices.size() < extents.size();
    SmallVector<Value> next = nested(extents, indices, fromZero ? zeros : before, body, zeros);
    indices.pop_back();
    if (fromZero)
      next[0] = graph::ScalarCode(builder, location).add(before[0], next[0]);
    if (!carried.empty())
      builder.create<scf::YieldOp>(location, next);
    return SmallVector<Value>(loop.getResults());
  }

  ElementEmitter &emitter_;
  Operation *op_;
  bool addresses_;
  int64_t lanes_;
  Value mask_;
};

} // namespace

bool keepsLanes(Operation *op) {
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return !slice.getSteps().empty() && slice.getSteps().back() == 1;
  auto transpose = dyn_cast<graph::TransposeOp>(op);
  int64_t rank = transpose ? int64_t(transpose.getPermutation().size()) : 0;
  return rank > 0 && transpose.getPermutation().back() == rank - 1;
}

/// A pool whose windows go over other dimensions than the channels, which come last.
static bool poolsLanesApart(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<graph::MaxPoolOp, graph::AveragePoolOp, graph::LpPoolOp>(
          [](auto pool) { return graph::isChannelsLast(pool); })
      .Default(false);
}

bool reducesLanesApart(Operation *op) {
  if (poolsLanesApart(op))
    return true;
  if (!isa<graph::ReduceSumOp, graph::ReduceProdOp, graph::ReduceMaxOp, graph::ReduceMinOp>(op))
    return false;
  auto x = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  return x && axes && !llvm::is_contained(axes.asArrayRef(), x.getRank() - 1);
}

bool Position::operator==(const Position &other) const {
  auto same = [](Value a, Value b) {
    auto constant = a == b ? std::nullopt : constantIndex(a);
    return a == b || (constant && constant == constantIndex(b));
  };
  return lanes == other.lanes && mask == other.mask &&
         std::equal(indices.begin(), indices.end(), other.indices.begin(), other.indices.end(),
                    same);
}

Type withLanes(Type scalar, int64_t lanes) {
  return lanes == 1 ? scalar : VectorType::get({lanes}, scalar);
}

Type storageType(Type tensorElement) {
  Type kernel = graph::kernelElementType(tensorElement);
  if (!kernel)
    return {};
  if (isHalf(tensorElement))
    return tensorElement;
  if (kernel.isInteger(1))
    return IntegerType::get(kernel.getContext(), 8);
  return kernel;
}

Value elementPointer(IndexMath &math, Type tensorElement, Value base, Value offset) {
  return math.builder.create<LLVM::GEPOp>(math.location, base.getType(), storageType(tensorElement),
                                          base, ValueRange{math.toI64(offset)}, true);
}

Value bytePointer(IndexMath &math, Value base, Value bytes) {
  return elementPointer(math, math.builder.getI8Type(), base, bytes);
}

Value sumOfLanes(IndexMath &math, Value sum) {
  auto type = dyn_cast<VectorType>(sum.getType());
  if (!type)
    return sum;
  OpBuilder &builder = math.builder;
  for (int64_t lanes = type.getDimSize(0) / 2; lanes > 0; lanes /= 2) {
    auto half = [&](int64_t first) -> Value {
      auto taken = llvm::to_vector(llvm::seq(first, first + lanes));
      return builder.create<vector::ShuffleOp>(math.location, sum, sum, taken);
    };
    Value low = half(0), high = half(lanes);
    sum = builder.create<arith::AddFOp>(math.location, low, high);
  }
  return builder.create<vector::ExtractOp>(math.location, sum, int64_t(0));
}

Value loadPointerField(IndexMath &math, Value base, int64_t bytes) {
  auto &builder = math.builder;
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto number = int32_t(bytes / int64_t(sizeof(void *)));
  Value at = builder.create<LLVM::GEPOp>(math.location, pointer, pointer, base,
                                         ArrayRef<LLVM::GEPArg>{number}, true);
  return builder.create<LLVM::LoadOp>(math.location, pointer, at);
}

int64_t contiguousRun(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (isa<BlockArgument>(value))
    return elementsBehind(type, 0);
  Operation *op = value.getDefiningOp();
  auto within = [&](RankedTensorType moved, size_t dims) {
    int64_t run = contiguousRun(op->getOperand(0));
    return run ? std::gcd(run, elementsBehind(moved, dims)) : 0;
  };
  if (isa<graph::ReshapeOp>(op))
    return contiguousRun(op->getOperand(0));
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    size_t moved = type.getRank();
    while (moved > 0 && transpose.getPermutation()[moved - 1] == int64_t(moved - 1))
      --moved;
    return moved == size_t(type.getRank()) ? 0 : within(type, moved);
  }
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    auto table = cast<RankedTensorType>(gather.getX().getType());
    size_t axis = gather.getAxis();
    // Where the dimension may be empty, the element is a branch.
    bool branches = !gather->hasAttr(graph::kInRange) &&
                    (table.isDynamicDim(axis) || table.getDimSize(axis) == 0);
    return branches || axis + 1 == size_t(table.getRank()) ? 0 : within(table, axis + 1);
  }
  return 0;
}

Position broadcastPosition(IndexMath &math, const Position &position, RankedTensorType operand) {
  Position result{{}, position.lanes, position.mask};
  size_t missing = position.indices.size() - operand.getRank();
  for (int64_t dim = 0; dim < operand.getRank(); ++dim)
    result.indices.push_back(operand.getDimSize(dim) == 1 ? math.constant(0)
                                                          : position.indices[missing + dim]);
  if (operand.getRank() == 0 || operand.getShape().back() == 1) {
    result.lanes = 1;
    result.mask = {};
  }
  return result;
}

void ElementEmitter::defineBuffer(Value value, Value pointer) {
  buffers_[value] = pointer;
  define(value, [this, value, pointer](const Position &position) {
    Value offset = math.linear(position.indices, dims(value));
    return load(pointer, getElementTypeOrSelf(value.getType()), offset, position.lanes,
                position.mask);
  });
}

Value ElementEmitter::pixel(Value image, ValueRange indices) {
  Type element = getElementTypeOrSelf(image.getType());
  SmallVector<Value> at(indices), sizes = dims(image);
  auto lines = lines_.find(image);
  if (lines == lines_.end())
    return elementPointer(math, element, buffer(image), math.linear(at, sizes));
  if (constantIndex(sizes[0]) != 1)
    at[1] = math.add(math.mul(at[0], sizes[1]), at[1]);
  at[0] = math.constant(0);
  at[1] = math.rem(at[1], math.constant(lines->second.lines));
  return elementPointer(math, element, lines->second.pointer, math.linear(at, sizes));
}

Value ElementEmitter::pixel(Value image, Value number) {
  Type element = getElementTypeOrSelf(image.getType());
  SmallVector<Value> sizes = dims(image);
  Value pointer = buffer(image), channels = sizes.pop_back_val();
  if (auto lines = lines_.find(image); lines != lines_.end()) {
    pointer = lines->second.pointer;
    Value pixelsOfLine = math.product(ArrayRef(sizes).drop_front(2));
    number = math.rem(number, math.mul(pixelsOfLine, lines->second.lines));
  }
  return elementPointer(math, element, pointer, math.mul(number, channels));
}

Value ElementEmitter::address(Value value, ValueRange indices) {
  if (Value pointer = buffer(value))
    return elementPointer(math, getElementTypeOrSelf(value.getType()), pointer,
                          math.linear(indices, dims(value)));
  OperatorContext context(*this, value.getDefiningOp(), /*addresses=*/true);
  return cast<graph::Indexed>(value.getDefiningOp()).emitElement(context, 0, indices);
}

Value ElementEmitter::element(Value value, const Position &position) {
  // Results are remembered by block: those of enclosing blocks dominate the insertion point, which
  // is at a block's end.
  for (Block *block = builder().getInsertionBlock(); block;
       block = block->getParentOp() ? block->getParentOp()->getBlock() : nullptr) {
    auto it = emitted_.find(block);
    if (it == emitted_.end())
      continue;
    for (const Emitted &emitted : it->second)
      if (emitted.value == value && emitted.position == position)
        return emitted.result;
  }
  Value result = compute(value, position);
  emitted_[builder().getInsertionBlock()].push_back({value, position, result});
  return result;
}

Value ElementEmitter::compute(Value value, const Position &position) {
  if (auto it = definitions_.find(value); it != definitions_.end())
    return it->second(position);
  Operation *op = value.getDefiningOp();
  assert(op && "a block argument without a buffer");
  if (isa<graph::ConstantOp>(op))
    return fromConstant(op, position);
  if (isa<graph::Elementwise>(op))
    return fromElementwise(op, position);
  auto result = cast<OpResult>(value);
  if (position.lanes > 1 && (reducesLanesApart(op) || keepsLanes(op)))
    return fromLanes(result, position);
  if (position.lanes == 1)
    return fromIndexed(result, position);
  auto iota = dyn_cast<graph::IotaOp>(op);
  return iota ? fromIota(iota, position) : gatherLanes(result, position);
}

/// Numbers along the last dimension follow one another; along others all lanes have one. Of 16 bits
/// the lanes' are added before they are rounded: what is next to 2048 in f16 is 2050.
Value ElementEmitter::fromIota(graph::IotaOp op, const Position &position) {
  auto type = cast<RankedTensorType>(op.getType());
  Type scalar = graph::kernelElementType(type.getElementType());
  if (int64_t(op.getAxis()) != type.getRank() - 1)
    return splat(element(op, Position{position.indices}), position.lanes);
  OperatorContext context(*this, op);
  Value number = op.emitElement(context, 0, position.indices);
  if (!number || !hasType(number, op->getResult(0), 1))
    return noCode(op->getResult(0), position.lanes);
  Value first = splat(number, position.lanes);
  auto vector = VectorType::get({position.lanes}, scalar);
  SmallVector<mlir::Attribute> numbers;
  for (int64_t lane = 0; lane < position.lanes; ++lane) {
    if (isa<FloatType>(scalar))
      numbers.push_back(builder().getFloatAttr(scalar, double(lane)));
    else
      numbers.push_back(builder().getIntegerAttr(scalar, lane));
  }
  Value lanes =
      builder().create<arith::ConstantOp>(math.location, DenseElementsAttr::get(vector, numbers));
  if (!isa<FloatType>(scalar))
    return builder().create<arith::AddIOp>(math.location, first, lanes);
  return roundToStorage(builder().create<arith::AddFOp>(math.location, first, lanes),
                        type.getElementType());
}

Value ElementEmitter::fromIndexed(OpResult value, const Position &position) {
  Operation *op = value.getOwner();
  OperatorContext context(*this, op);
  Value result = emitElement(context, value, position.indices);
  if (!result || !hasType(result, value, 1))
    return noCode(value, 1);
  return roundToStorage(result, getElementTypeOrSelf(value.getType()));
}

Value ElementEmitter::fromLanes(OpResult value, const Position &position) {
  Operation *op = value.getOwner();
  OperatorContext context(*this, op, /*addresses=*/false, position.lanes, position.mask);
  Value result = cast<graph::Indexed>(op).emitElement(context, 0, position.indices);
  if (!result || !hasType(result, value, position.lanes))
    return noCode(value, position.lanes);
  return roundToStorage(result, getElementTypeOrSelf(value.getType()));
}

Value ElementEmitter::gatherLanes(OpResult value, const Position &position) {
  Type scalar = graph::kernelElementType(getElementTypeOrSelf(value.getType()));
  Value vector = builder().create<arith::ConstantOp>(
      math.location, builder().getZeroAttr(withLanes(scalar, position.lanes)));
  Value last = math.sub(dims(value).back(), math.constant(1));
  for (int64_t lane = 0; lane < position.lanes; ++lane) {
    Position at{position.indices};
    at.indices.back() = math.add(at.indices.back(), lane);
    // A lane that is masked off reads the last element that exists.
    if (position.mask)
      at.indices.back() = math.min(at.indices.back(), last);
    vector = builder().create<vector::InsertOp>(math.location, element(value, at), vector, lane);
  }
  return vector;
}

Value ElementEmitter::noCode(Value value, int64_t lanes) {
  failed = true;
  Type type = graph::kernelElementType(getElementTypeOrSelf(value.getType()));
  return builder().create<LLVM::PoisonOp>(math.location,
                                          withLanes(type ? type : builder().getI8Type(), lanes));
}

Value ElementEmitter::fromElementwise(Operation *op, const Position &position) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (isa<NoneType>(operand.getType()))
      continue;
    auto type = cast<RankedTensorType>(operand.getType());
    Position at = broadcastPosition(math, position, type);
    // Where the result has one column as well, nothing is broadcast: the one lane that the mask
    // leaves is the operand's, and a root's result is there as a vector alone.
    auto own = cast<RankedTensorType>(op->getResult(0).getType());
    if (position.mask && type.getRank() > 0 && own.getShape().back() == 1) {
      at.lanes = position.lanes;
      at.mask = position.mask;
      at.indices.back() = position.indices.back();
    }
    operands.push_back(splat(element(operand, at), position.lanes));
  }
  Value result = cast<graph::Elementwise>(op).emitScalar(builder(), op->getLoc(), operands);
  if (!result || !hasType(result, op->getResult(0), position.lanes))
    return noCode(op->getResult(0), position.lanes);
  return roundToStorage(result, getElementTypeOrSelf(op->getResult(0).getType()));
}

Value ElementEmitter::fromConstant(Operation *op, const Position &position) {
  auto constant = cast<graph::ConstantOp>(op);
  Type type = graph::kernelElementType(getElementTypeOrSelf(constant.getType()));
  auto tensor = graph::hostTensor(constant.getValue());
  assert(tensor.ok() && tensor->size() == 1 && "only scalars stay in kernels; others are operands");
  TypedAttr attribute;
  if (isa<FloatType>(type))
    attribute = builder().getFloatAttr(type, tensor->getDouble(0));
  else
    attribute = builder().getIntegerAttr(type, tensor->getInt(0));
  return splat(builder().create<arith::ConstantOp>(math.location, attribute), position.lanes);
}

Value ElementEmitter::load(Value pointer, Type tensorElement, Value offset, int64_t lanes,
                           Value mask) {
  Type storage = storageType(tensorElement), type = withLanes(storage, lanes);
  auto loc = math.location;
  Value address = elementPointer(math, tensorElement, pointer, offset);
  unsigned align = std::max<unsigned>(1, storage.getIntOrFloatBitWidth() / 8);
  Value value;
  if (mask) {
    Value none = builder().create<arith::ConstantOp>(loc, builder().getZeroAttr(type));
    value = builder().create<LLVM::MaskedLoadOp>(loc, type, address, mask, ValueRange{none}, align);
  } else {
    value = builder().create<LLVM::LoadOp>(loc, type, address, align);
  }
  if (isHalf(tensorElement))
    return builder().create<arith::ExtFOp>(loc, withLanes(builder().getF32Type(), lanes), value);
  if (!tensorElement.isInteger(1))
    return value;
  Value zero = builder().create<arith::ConstantOp>(loc, builder().getZeroAttr(type));
  return builder().create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, value, zero);
}

void ElementEmitter::store(Value pointer, Type tensorElement, Value offset, Value value,
                           Value mask) {
  Type storage = storageType(tensorElement);
  auto loc = math.location;
  auto vector = dyn_cast<VectorType>(value.getType());
  Type type = withLanes(storage, vector ? vector.getNumElements() : 1);
  if (isHalf(tensorElement))
    value = builder().create<arith::TruncFOp>(loc, type, value);
  else if (tensorElement.isInteger(1))
    value = builder().create<arith::ExtUIOp>(loc, type, value);
  Value address = elementPointer(math, tensorElement, pointer, offset);
  unsigned align = std::max<unsigned>(1, storage.getIntOrFloatBitWidth() / 8);
  if (mask)
    builder().create<LLVM::MaskedStoreOp>(loc, value, address, mask, align);
  else
    builder().create<LLVM::StoreOp>(loc, value, address, align);
}

/// A 16-bit float is held as f32: each operator's result is rounded to what storage could hold, as
/// its reference does.
Value ElementEmitter::roundToStorage(Value value, Type tensorElement) {
  if (!isHalf(tensorElement))
    return value;
  auto vector = dyn_cast<VectorType>(value.getType());
  Type narrow = withLanes(tensorElement, vector ? vector.getNumElements() : 1);
  Value rounded = builder().create<arith::TruncFOp>(math.location, narrow, value);
  return builder().create<arith::ExtFOp>(math.location, value.getType(), rounded);
}

Value ElementEmitter::splat(Value scalar, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  return builder().createOrFold<vector::BroadcastOp>(
      math.location, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value ElementEmitter::maskBelow(Value count, int64_t lanes) {
  auto type = VectorType::get({lanes}, builder().getI32Type());
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, int32_t(lanes)));
  Value lane = builder().create<arith::ConstantOp>(math.location,
                                                   DenseElementsAttr::get(type, ArrayRef(numbers)));
  // Signed: of the vectors of a tile those beyond the end have fewer than no lanes.
  Value few = builder().createOrFold<arith::MinSIOp>(math.location, count, math.constant(lanes));
  few = builder().createOrFold<arith::MaxSIOp>(math.location, few, math.constant(0));
  Value limit =
      builder().createOrFold<arith::IndexCastOp>(math.location, builder().getI32Type(), few);
  return builder().create<arith::CmpIOp>(math.location, arith::CmpIPredicate::ult, lane,
                                         splat(limit, lanes));
}

void ElementEmitter::check(Value condition, StringRef message, Value detail) {
  auto known = llvm::find(messages, message.str());
  int32_t code = known - messages.begin();
  if (known == messages.end())
    messages.push_back(message.str());
  reportUnless(condition, code, detail);
}

void ElementEmitter::reportUnless(Value condition, int32_t code, Value detail) {
  auto loc = math.location;
  Value yes = builder().create<arith::ConstantIntOp>(loc, 1, 1);
  Value bad = builder().create<arith::XOrIOp>(loc, condition, yes);
  auto branch = builder().create<scf::IfOp>(loc, bad, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder());
  builder().setInsertionPoint(branch.thenBlock()->getTerminator());
  Value services = loadPointerField(math, call, offsetof(TensmithCall, services));
  Value fail = loadPointerField(math, services, offsetof(TensmithServices, fail));
  Type pointer = call.getType(), i32 = builder().getI32Type(), i64 = builder().getI64Type();
  auto signature = LLVM::LLVMFunctionType::get(i32, {pointer, i32, i64});
  Value number = builder().create<arith::ConstantIntOp>(loc, code, 32);
  Value told = detail ? Value(builder().create<arith::IndexCastOp>(loc, i64, detail))
                      : builder().create<arith::ConstantIntOp>(loc, 0, 64);
  builder().create<LLVM::CallOp>(loc, signature, ValueRange{fail, call, number, told});
}

} // namespace tensmith::kernel
