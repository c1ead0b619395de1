// A forest's constants are looked up here, so that what is derived of them may be part of the code;
// and sums become results. See TreeCode.h.
#include "compiler/targets/cpu/templates/TreeCode.h"

#include "compiler/graph/Constants.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;

namespace tensmith::kernel {

namespace {

/// Also where it is an argument of a kernel's region.
std::optional<HostTensor> constantOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto kernel = dyn_cast<graph::KernelOp>(argument.getOwner()->getParentOp()))
      value = kernel.getInputs()[argument.getArgNumber()];
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto tensor = graph::hostTensor(constant.getValue());
  return tensor.ok() ? std::optional(*tensor) : std::nullopt;
}

} // namespace

std::optional<reference::PackedForest> packedForest(graph::TreeEnsembleOp op) {
  auto columns = constantOf(op.getColumns()), nodes = constantOf(op.getNodes()),
       trees = constantOf(op.getTrees());
  bool isTable = !isa<NoneType>(op.getWeights().getType());
  auto weights = isTable ? constantOf(op.getWeights()) : HostTensor();
  if (!columns || !nodes || !trees || !weights)
    return std::nullopt;
  return reference::PackedForest{*columns,
                                 *nodes,
                                 *trees,
                                 *weights,
                                 int64_t(op.getTargets()),
                                 int64_t(op.getColumnBits()),
                                 int64_t(op.getDepth())};
}

TreeCode::TreeCode(ElementEmitter &emitter, graph::KernelOp kernel, graph::TreeEnsembleOp root,
                   ValueRange results)
    : emitter_(emitter), math_(emitter.math), builder_(emitter.builder()), kernel_(kernel),
      root_(root), results_(results), x_(emitter.buffer(root.getX())),
      columns_(emitter.buffer(root.getColumns())),
      element_(getElementTypeOrSelf(root.getX().getType())), targets_(int64_t(root.getTargets())),
      columnCount_(cast<RankedTensorType>(root.getColumns().getType()).getDimSize(0)),
      rows_(emitter.dims(root.getX())[0]), features_(emitter.dims(root.getX())[1]) {}

Value TreeCode::load(Type type, Value base, Value offset) {
  return builder_.create<LLVM::LoadOp>(math_.location, type,
                                       elementPointer(math_, type, base, offset),
                                       type.getIntOrFloatBitWidth() / 8);
}

void TreeCode::store(Value value, Value base, Value offset) {
  builder_.create<LLVM::StoreOp>(math_.location, value,
                                 elementPointer(math_, value.getType(), base, offset),
                                 value.getType().getIntOrFloatBitWidth() / 8);
}

Value TreeCode::number(double value) {
  return builder_.create<arith::ConstantOp>(math_.location, builder_.getFloatAttr(element_, value));
}

Value TreeCode::toIndex(Value integer) {
  return builder_.create<arith::IndexCastUIOp>(math_.location, builder_.getIndexType(), integer);
}

void TreeCode::checkColumns(Value begin, Value &end) {
  int64_t last = 0;
  HostTensor columns = packedForest(root_)->columns; // a constant, as canFollowTrees says
  for (int64_t at = 0; at < columns.size(); ++at)
    last = std::max(last, columns.getInt(at));
  Value isThere = math_.less(math_.constant(last), features_);
  emitter_.check(isThere, "a tree tests a feature that the operand does not have");
  end = math_.select(isThere, end, begin);
}

Value TreeCode::nothing() {
  double largest = element_.isF64() ? std::numeric_limits<double>::max()
                                    : double(std::numeric_limits<float>::max());
  return number(root_.getAggregate() == "sum"   ? 0
                : root_.getAggregate() == "min" ? largest
                                                : -largest);
}

Value TreeCode::combined(Value sum, Value weight) {
  if (root_.getAggregate() == "sum")
    return builder_.create<arith::AddFOp>(math_.location, sum, weight);
  if (root_.getAggregate() == "min")
    return builder_.create<arith::MinNumFOp>(math_.location, sum, weight);
  return builder_.create<arith::MaxNumFOp>(math_.location, sum, weight);
}

void TreeCode::clearSums(Value sums, Value row) {
  Value first = math_.mul(row, targets_);
  forEach(targets_, [&](Value i) { store(nothing(), sums, math_.add(first, i)); });
}

void TreeCode::giveRow(Value sums, Value to, Value from) {
  forEach(targets_, [&](Value target) {
    Value sum = loadElement(sums, math_.add(math_.mul(from, targets_), target));
    emitter_.define(root_.getY(), [sum](const Position &) { return sum; });
    Position position{{to, target}};
    auto yield = cast<graph::YieldOp>(kernel_.getBody().front().getTerminator());
    Values elements;
    for (Value value : yield.getValues())
      elements.push_back(emitter_.element(value, position));
    Value offset = math_.add(math_.mul(to, targets_), target);
    for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results_))
      emitter_.store(pointer, getElementTypeOrSelf(value.getType()), offset, element);
  });
}

} // namespace tensmith::kernel
