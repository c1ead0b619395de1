// Steps of training in mixed precision: factors of products are of 16 bits, everything else of 32.
//
//   y = matmul(x, w)   ->   y = cast(cast(matmul(cast(x16, f32), cast(w16, f32)), bf16), f32)
//                           with x16 = cast(x, bf16), w16 = cast(w, bf16)
//
// The kernels read x16 and w16 as they lie in memory, and add up in f32. Parameters stay f32 (the
// master weights), as do their gradients and updates. What is rounded say the operators' rules
// (graph/Precision.h), or the user:
//
// - Always: operands are rounded. So is the result, unless no product depends on it: what is kept
//   for the way back is half as much, but a gradient that goes to an update loses nothing.
// - Follow: a value whose rounded form is read has that form for all its readers, so that it is in
//   memory once.
// - Never: other readers of such a value see it as it is.
//
// What is moved before it is multiplied is rounded first and moved in 16 bits.
//
// Attention's products of rows of scores stay f32 where its gradient is one kernel then, which has
// no scores in memory: rounded scores are kept by all products. Unless a user asks for them.
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/graph/Precision.h"
#include "compiler/graph/States.h"
#include "compiler/kernel/Contraction.h"
#include "compiler/rewrite/AttentionGradient.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tensmith::rewrite {
namespace {

bool isF32(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.getElementType().isF32();
}

/// Whether the function is a step of training: it gives the next values of states.
bool isStep(func::FuncOp function) {
  return llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
    return function.getArgAttr(argument.getArgNumber(), graph::kState);
  });
}

/// Products that a kernel takes. Winograd's transforms multiply errors, and Fourier's mix what has
/// large and small spectra: their products stay.
bool isProduct(Operation *op) {
  if (!isa<graph::MatMulOp, graph::ConvOp>(op))
    return false;
  auto isTransform = [](Operation *other) {
    return other && isa<graph::WinogradInputOp, graph::WinogradWeightsOp, graph::WinogradOutputOp,
                        graph::FourierInputOp>(other);
  };
  if (isTransform(op->getOperand(0).getDefiningOp()))
    return false;
  if (auto conv = dyn_cast<graph::ConvOp>(op);
      conv && (!graph::isChannelsLast(conv) || kernel::isDepthwise(conv)))
    return false;
  return isF32(op->getOperand(0)) && isF32(op->getOperand(1)) && isF32(op->getResult(0));
}

/// The operands that are rounded: factors, or all that an operator reads of which the user says so.
SmallVector<unsigned> roundedOperands(Operation *op) {
  SmallVector<unsigned> operands;
  if (graph::castRule(op) != graph::CastRule::Always)
    return operands;
  if (isProduct(op))
    return {0, 1};
  if (!graph::askedCastRule(op))
    return operands;
  for (OpOperand &operand : op->getOpOperands())
    if (isF32(operand.get()))
      operands.push_back(operand.getOperandNumber());
  return operands;
}

class MixedPrecision {
public:
  MixedPrecision(func::FuncOp function, Type low, llvm::SetVector<Operation *> attention)
      : block_(function.getBody().front()), low_(low), shapes_(function.getContext()),
        attention_(std::move(attention)) {}

  void run() {
    SmallVector<std::pair<Operation *, SmallVector<unsigned>>> readers;
    for (Operation &op : block_)
      if (auto operands = roundedOperands(&op); !operands.empty() && !attention_.contains(&op))
        readers.emplace_back(&op, std::move(operands));
    findFactors(readers);
    for (auto &[op, operands] : readers)
      for (unsigned operand : operands)
        op->setOperand(operand, widened(rounded(op->getOperand(operand))));
    for (auto &[op, operands] : readers)
      for (Value result : op->getResults())
        if (isF32(result) && factors_.contains(op))
          roundForAll(result);
    for (Value value : origins_)
      if (Operation *op = value.getDefiningOp();
          op && graph::castRule(op) == graph::CastRule::Follow)
        roundForAll(value);
  }

private:
  /// The operators that some reader of rounded values depends on.
  void findFactors(ArrayRef<std::pair<Operation *, SmallVector<unsigned>>> readers) {
    SmallVector<Operation *> open(llvm::make_first_range(readers));
    while (!open.empty())
      for (Value operand : open.pop_back_val()->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && factors_.insert(producer))
          open.push_back(producer);
  }

  graph::GraphBuilder builderBehind(Value value) {
    if (Operation *op = value.getDefiningOp()) {
      builder_.setInsertionPointAfter(op);
      return {builder_, shapes_, op->getLoc()};
    }
    builder_.setInsertionPointToStart(&block_);
    return {builder_, shapes_, value.getLoc()};
  }

  Value widened(Value value) {
    Value &wide = widened_[value];
    if (!wide)
      wide = builderBehind(value).cast(value, Float32Type::get(value.getContext()));
    return wide;
  }

  /// The value in 16 bits; rounded where it was computed, and then moved as it was.
  Value rounded(Value value) {
    if (Value known = rounded_.lookup(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (auto cast = dyn_cast_or_null<graph::CastOp>(op);
        cast && getElementTypeOrSelf(cast.getX().getType()) == low_)
      return cast.getX();
    Value result;
    if (op && isa<graph::TransposeOp, graph::ReshapeOp, graph::SliceOp>(op)) {
      Value inner = rounded(op->getOperand(0));
      graph::GraphBuilder graph = builderBehind(value);
      Operation *moved = graph.builder.clone(*op);
      moved->setOperand(0, inner);
      moved->getResult(0).setType(cast<RankedTensorType>(value.getType()).clone(low_));
      result = moved->getResult(0);
    } else {
      result = builderBehind(value).cast(value, low_);
      origins_.insert(value);
    }
    rounded_[value] = result;
    return result;
  }

  /// All other readers see the rounded value, too; results of the function stay as they are.
  void roundForAll(Value value) {
    Value narrow = rounded(value);
    if (!narrow.getDefiningOp() || narrow.getDefiningOp()->getOperand(0) != value)
      return;
    Value wide = widened(narrow);
    value.replaceUsesWithIf(wide, [&](OpOperand &use) {
      return use.getOwner() != narrow.getDefiningOp() &&
             !use.getOwner()->hasTrait<OpTrait::IsTerminator>();
    });
  }

  Block &block_;
  Type low_;
  graph::ShapeContext shapes_;
  llvm::SetVector<Operation *> attention_;
  OpBuilder builder_{low_.getContext()};
  llvm::SetVector<Operation *> factors_;
  llvm::SetVector<Value> origins_; // of which there is a rounded form
  llvm::DenseMap<Value, Value> rounded_, widened_;
};

Type lowType(Precision precision, MLIRContext *context) {
  if (precision == Precision::Bfloat)
    return BFloat16Type::get(context);
  return precision == Precision::Half ? Type(Float16Type::get(context)) : Type();
}

/// How many times as fast products of rounded factors are: those of f16 are made in f32.
double roundedRate(Type low, const kernel::Machine &machine) {
  return low.isBF16() ? kernel::bfloatRate(machine) : 1;
}

} // namespace

LogicalResult mixPrecision(func::FuncOp function, const Options &options) {
  if (Type low = lowType(options.precision, function.getContext()); low && isStep(function))
    MixedPrecision(function, low,
                   productsOfAttention(function, options, roundedRate(low, options.machine)))
        .run();
  return success();
}

} // namespace tensmith::rewrite
