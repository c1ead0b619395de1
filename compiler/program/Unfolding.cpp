// Operators one after another, on what their operands stand for; see Unfolding.h. Which calls are
// unfolded is in UnfoldedCalls.cpp.
#include "compiler/program/Unfolding.h"

#include "base/Budget.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::program {

constexpr int64_t kMostFolded = 1 << 16; // bytes of operands and results

void Unfolding::build(Version &version) {
  version_ = &version;
  Frame root;
  root_ = &root;
  root.source = version.source;
  Block *block = version.residual.addEntryBlock();
  residual_.begin(block);
  SmallVector<Type> types = leafTypes(version.known);
  for (Type type : types)
    block->addArgument(typeIn(root, type), version.source.getLoc());
  root.arguments =
      rebuild(residual_.builder(), version.source.getLoc(), version.known, block->getArguments());
  root.mark = residual_.mark();
  for (auto [parameter, argument] :
       llvm::zip_equal(version.source.getArguments(), root.arguments)) {
    accept(root, parameter.getType(), argument.getType());
    root.values[parameter] = argument;
  }
  Value result = run(version.source.getBody().front(), root);
  if (unwinding_)
    return forward(version);
  residual_.builder().create<func::ReturnOp>(version.source.getLoc(), result);
}

Value Unfolding::run(Block &block, Frame &frame) {
  for (Operation &op : block.without_terminator()) {
    ++report_.steps;
    if (!step(op, frame))
      return {};
  }
  return frame.values.lookup(block.getTerminator()->getOperand(0));
}

bool Unfolding::step(Operation &op, Frame &frame) {
  if (isa<CallOp, ApplyOp>(op))
    return stepCall(op, frame);
  if (isa<MatchOp, IfOp>(op))
    return stepBranches(op, frame);
  if (isa<ReferenceOp, ReadOp, WriteOp>(op))
    return stepReference(op, frame);
  if (isa<FieldOp>(op))
    return stepField(op, frame);
  return stepTensors(op, frame);
}

Operation *Unfolding::copied(Operation &op, Frame &frame) {
  Operation *copy = op.clone();
  auto map = [&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (Value value = frame.values.lookup(operand.get()))
        operand.set(value);
  };
  map(copy);
  for (Region &region : copy->getRegions())
    region.walk(map);
  return copy;
}

Operation *Unfolding::write(Operation &op, Operation *copy, Frame &frame) {
  for (auto [result, original] : llvm::zip_equal(copy->getResults(), op.getResults()))
    result.setType(typeIn(frame, original.getType()));
  // Sizes have this code's names in regions too, where others would be those of other values.
  auto rename = [&](ValueRange values) {
    for (Value value : values)
      value.setType(typeIn(frame, value.getType()));
  };
  for (Region &region : copy->getRegions())
    region.walk([&](Block *block) {
      rename(block->getArguments());
      for (Operation &inner : *block)
        rename(inner.getResults());
    });
  Operation *written = residual_.insert(copy);
  for (auto [result, original] : llvm::zip_equal(written->getResults(), op.getResults()))
    frame.values[original] = result;
  return written;
}

bool Unfolding::stepTensors(Operation &op, Frame &frame) {
  Operation *copy = copied(op, frame);
  if (fold(op, *copy, frame))
    copy->destroy();
  else
    write(op, copy, frame);
  return true;
}

/// Small operators on constants, by their reference evaluation.
bool Unfolding::fold(Operation &op, Operation &made, Frame &frame) {
  if (!graph::isOperator(&op) || op.getNumRegions() || op.getNumOperands() == 0 ||
      !isMemoryEffectFree(&op))
    return false;
  int64_t bytes = 0;
  std::vector<HostTensor> operands;
  for (Value operand : made.getOperands()) {
    auto constant = operand.getDefiningOp<graph::ConstantOp>();
    if (!constant && !operand.getDefiningOp<graph::NoneOp>())
      return false;
    auto tensor = constant ? graph::hostTensor(constant.getValue()) : Result(HostTensor());
    if (!tensor.ok())
      return false;
    bytes += tensor->bytes();
    operands.push_back(std::move(*tensor));
  }
  for (Type type : op.getResultTypes()) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || !ranked.hasStaticShape() ||
        graph::dataType(ranked.getElementType()) == DataType::Undefined)
      return false;
    bytes += ranked.getNumElements() *
             std::max<int64_t>(byteSize(graph::dataType(ranked.getElementType())), 1);
  }
  if (bytes > kMostFolded)
    return false;
  auto results = graph::evaluate(&made, operands);
  if (!results.ok() || results->size() < op.getNumResults())
    return false; // it fails when it is run, too
  SmallVector<ElementsAttr> constants;
  for (auto [result, tensor] : llvm::zip(op.getResults(), *results)) {
    constants.push_back(graph::elementsAttr(op.getContext(), tensor));
    if (constants.back().getType() != result.getType())
      return false;
  }
  OpBuilder builder(op.getContext());
  for (auto [result, constant] : llvm::zip_equal(op.getResults(), constants))
    frame.values[result] =
        residual_
            .insert(builder.create<graph::ConstantOp>(op.getLoc(), constant.getType(), constant))
            ->getResult(0);
  return true;
}

bool Unfolding::stepField(Operation &op, Frame &frame) {
  auto field = cast<FieldOp>(op);
  auto construct = frame.values.lookup(field.getValue()).getDefiningOp<ConstructOp>();
  if (construct && field.getIndex() < construct.getFields().size() &&
      adopt(frame, field.getResult(), construct.getFields()[field.getIndex()]))
    return true;
  write(op, copied(op, frame), frame);
  return true;
}

bool Unfolding::stepReference(Operation &op, Frame &frame) {
  Value first = frame.values.lookup(op.getOperand(0));
  if (isa<ReadOp>(op))
    if (Value content = residual_.contentOf(first);
        content && adopt(frame, op.getResult(0), content))
      return true;
  Operation *written = write(op, copied(op, frame), frame);
  if (isa<ReferenceOp>(op))
    residual_.noteReference(written->getResult(0), first);
  else if (isa<ReadOp>(op))
    residual_.noteRead(first, written->getResult(0));
  else
    residual_.noteWrite(first, written->getOperand(1));
  return true;
}

// ---- branches ----

std::optional<unsigned> Unfolding::chosenRegion(Operation &op, Value value) {
  Operation *source = value.getDefiningOp();
  if (isa<IfOp>(op)) {
    auto constant = dyn_cast_or_null<graph::ConstantOp>(source);
    auto tensor = constant ? graph::hostTensor(constant.getValue())
                           : Result<HostTensor>(Status(StatusCode::Unsupported, ""));
    if (!tensor.ok() || tensor->size() != 1)
      return std::nullopt;
    return tensor->getInt(0) ? 0 : 1;
  }
  uint64_t tag = op.getNumRegions();
  if (auto construct = dyn_cast_or_null<ConstructOp>(source))
    tag = construct.getTag();
  for (auto &[known, own] : tags_)
    if (known == value)
      tag = own;
  return tag < op.getNumRegions() ? std::optional(unsigned(tag)) : std::nullopt;
}

bool Unfolding::stepBranches(Operation &op, Frame &frame) {
  auto chosen = chosenRegion(op, frame.values.lookup(op.getOperand(0)));
  if (!chosen)
    return leaveBranches(op, frame);
  Residual::Mark mark = residual_.mark();
  auto sizes = frame.sizes;
  Value value = run(op.getRegion(*chosen).front(), frame);
  if (!value)
    return false;
  if (adopt(frame, op.getResult(0), value))
    return true;
  residual_.rollBack(mark);
  frame.sizes = std::move(sizes);
  return leaveBranches(op, frame);
}

bool Unfolding::leaveBranches(Operation &op, Frame &frame) {
  Value chooser = frame.values.lookup(op.getOperand(0));
  Operation *made = op.cloneWithoutRegions();
  made->setOperand(0, chooser);
  made = write(op, made, frame);
  OpBuilder &builder = residual_.builder();
  OpBuilder::InsertPoint after = builder.saveInsertionPoint();
  Residual::Branches branches = residual_.beginBranches();
  ++branches_;
  for (auto [index, region] : llvm::enumerate(op.getRegions())) {
    builder.createBlock(&made->getRegion(unsigned(index)));
    tags_.push_back({isa<MatchOp>(op) ? chooser : Value(), index});
    Value value = run(region.front(), frame);
    if (!value)
      return false;
    tags_.pop_back();
    residual_.escape(value);
    builder.create<YieldOp>(op.getLoc(), value);
    residual_.endBranch(branches);
  }
  --branches_;
  builder.restoreInsertionPoint(after);
  residual_.endBranches(branches);
  return true;
}

// ---- types ----

void Unfolding::noteNames(Type type) {
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    for (StringAttr name : graph::symbolNames(ranked))
      shapes_.symbol(name);
}

/// A size of the frame's code. Null where it isn't known, unless one is to be made.
AffineExpr Unfolding::sizeIn(Frame &frame, RankedTensorType type, unsigned dim, bool make) {
  if (!type.isDynamicDim(dim))
    return shapes_.constant(type.getDimSize(dim));
  AffineExpr own = graph::dimExpression(type, dim);
  if (!own)
    return make ? shapes_.freshSymbol("unknown") : AffineExpr();
  SmallVector<AffineExpr> symbols;
  bool known = true;
  for (auto [position, name] : llvm::enumerate(graph::symbolNames(type))) {
    if (!isLocalSize(name)) {
      symbols.push_back(shapes_.symbol(name));
      continue;
    }
    AffineExpr &size = frame.sizes[name];
    if (!size && make)
      size = shapes_.freshSymbol("unknown");
    known &= size || !own.isFunctionOfSymbol(unsigned(position));
    symbols.push_back(size ? size : shapes_.constant(0));
  }
  return known ? own.replaceSymbols(symbols) : AffineExpr();
}

Type Unfolding::typeIn(Frame &frame, Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || ranked.hasStaticShape())
    return type;
  SmallVector<AffineExpr> dims;
  for (unsigned dim = 0; dim < ranked.getRank(); ++dim)
    dims.push_back(sizeIn(frame, ranked, dim, /*make=*/true));
  return shapes_.tensorType(ranked.getElementType(), dims);
}

/// Whether what has the one type may stand where the frame's code has the other; sizes that the
/// code has a name for, and nothing else, are then that value's.
bool Unfolding::accept(Frame &frame, Type expected, Type given) {
  auto to = dyn_cast<RankedTensorType>(expected), from = dyn_cast<RankedTensorType>(given);
  if (!to || !from)
    return bool(to) == bool(from) &&
           (expected == given || (isa<ObjectType>(expected) && isa<ObjectType>(given)));
  if (to.getRank() != from.getRank() || to.getElementType() != from.getElementType())
    return false;
  SmallVector<AffineExpr> dims = shapes_.dims(from);
  for (unsigned dim = 0; dim < to.getRank(); ++dim) {
    if (AffineExpr size = sizeIn(frame, to, dim, /*make=*/false)) {
      if (!shapes_.equal(size, dims[dim]))
        return false;
      continue;
    }
    auto symbol = dyn_cast_or_null<AffineSymbolExpr>(graph::dimExpression(to, dim));
    if (!symbol)
      return false;
    frame.sizes[graph::symbolNames(to)[symbol.getPosition()]] = dims[dim];
  }
  return true;
}

bool Unfolding::adopt(Frame &frame, Value original, Value value) {
  if (!accept(frame, original.getType(), value.getType()))
    return false;
  frame.values[original] = value;
  return true;
}

bool Unfolding::isSpent() {
  return report_.steps > mostSteps_ || residual_.size() > mostSize_ || !checkTime().ok();
}

} // namespace tensmith::program
