// Choosing a template for a region; see Kernel.h.
#include "compiler/kernel/Kernel.h"

#include "compiler/kernel/AttentionGradient.h"
#include "compiler/kernel/ChainKernel.h"
#include "compiler/kernel/ConcatKernel.h"
#include "compiler/kernel/ContractionKernel.h"
#include "compiler/kernel/DepthwiseKernel.h"
#include "compiler/kernel/FourierKernel.h"
#include "compiler/kernel/LoopKernel.h"
#include "compiler/kernel/PackKernel.h"
#include "compiler/kernel/PatchKernel.h"
#include "compiler/kernel/RecurrenceKernel.h"
#include "compiler/kernel/RowKernel.h"
#include "compiler/kernel/ScatterKernel.h"
#include "compiler/kernel/TransposeKernel.h"
#include "compiler/kernel/TreeKernel.h"
#include "compiler/kernel/WindowElement.h"
#include "compiler/kernel/WinogradKernel.h"
#include "compiler/libraries/Libraries.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr int64_t kManyRegisters = 32;

bool isKernelTensor(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked && graph::kernelElementType(ranked.getElementType());
}

/// Whether these dimensions are known at compile time to broadcast to the result's.
bool broadcastsForCertain(const graph::ShapeContext &shapes, ArrayRef<AffineExpr> dims,
                          ArrayRef<AffineExpr> result) {
  return llvm::all_of(llvm::zip_equal(dims, result.take_back(dims.size())), [&](auto pair) {
    auto [size, wanted] = pair;
    auto constant = dyn_cast<AffineConstantExpr>(size);
    return (constant && constant.getValue() == 1) || shapes.equal(size, wanted);
  });
}

/// Whether every operand's are.
bool broadcastsForCertain(Operation *op) {
  graph::ShapeContext shapes(op->getContext());
  auto result = shapes.dims(op->getResult(0).getType());
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isa<NoneType>(operand.getType()) ||
           broadcastsForCertain(shapes, shapes.dims(operand.getType()), result);
  });
}

/// Whether what the operator broadcasts is known to be 1 or as many: its code doesn't look which.
/// Other sizes that have to agree are checked before it runs (vm/FunctionBuilder.cpp).
bool agreesForCertain(Operation *op) {
  graph::ShapeContext shapes(op->getContext());
  auto dims = [&](unsigned operand) { return shapes.dims(op->getOperand(operand).getType()); };
  if (isa<graph::MatMulOp>(op)) {
    auto a = dims(0), b = dims(1), result = shapes.dims(op->getResult(0).getType());
    auto fits = [&](ArrayRef<AffineExpr> matrices) {
      return broadcastsForCertain(shapes, matrices.drop_back(2), ArrayRef(result).drop_back(2));
    };
    return a.size() < 2 || b.size() < 2 || (fits(a) && fits(b));
  }
  if (auto norm = dyn_cast<graph::LayerNormOp>(op)) {
    auto x = dims(0);
    for (Value operand : {norm.getScale(), norm.getBias()})
      if (isa<RankedTensorType>(operand.getType()))
        for (auto [size, wanted] :
             llvm::zip(llvm::reverse(shapes.dims(operand.getType())), llvm::reverse(x)))
          if (size != shapes.constant(1) && !shapes.equal(size, wanted))
            return false;
  }
  return true;
}

Template chooseTemplate(graph::KernelOp kernel, Operation *root, const MachineShape &machine,
                        const Schedule &asked) {
  if (auto gradient = matchAttentionGradient(kernel))
    return attentionGradientTemplate(kernel, *gradient, machine);
  if (auto chain = chainBehind(root); !chain.empty())
    return chainTemplate(kernel, chain, machine, asked);
  switch (rootKind(root)) {
  case RootKind::Contraction:
    return contractionTemplate(kernel, *matchContraction(root), machine, asked);
  case RootKind::Depthwise:
    return depthwiseTemplate(kernel, cast<graph::ConvOp>(root), machine, asked);
  case RootKind::Row:
    return rowTemplate(kernel, machine);
  case RootKind::Concat:
    return concatTemplate(kernel, cast<graph::ConcatOp>(root), machine);
  case RootKind::Winograd:
    return winogradTemplate(kernel, root, machine);
  case RootKind::Recurrence:
    return recurrenceTemplate(kernel, cast<graph::LoopOp>(root));
  case RootKind::Trees:
    return treeTemplate(kernel, cast<graph::TreeEnsembleOp>(root));
  case RootKind::Scatter:
    return scatterTemplate(root);
  case RootKind::Fourier:
    return fourierTemplate(kernel, root, machine);
  case RootKind::Loops:
    break;
  }
  if (auto packed = matchPairedRows(kernel, machine))
    return packTemplate(*packed, machine);
  if (auto turned = matchTransposition(kernel, machine))
    return transposeTemplate(kernel, *turned, machine);
  if (auto patches = matchPatches(kernel, machine))
    return patchTemplate(*patches, machine);
  return loopTemplate(kernel, machine, asked);
}

/// Whether the kernel is the loop and gives what that gives.
bool isWholeRecurrence(graph::KernelOp kernel, graph::LoopOp loop) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  return isRecurrence(loop) && loop.getNumResults() > 0 &&
         llvm::equal(yield.getValues(), loop.getResults()) &&
         llvm::equal(kernel.getResultTypes(), loop.getResultTypes());
}

} // namespace

/// The first of the machine's that are tiles or not, and of which it holds.
static const Intrinsic *find(const MachineShape &machine, bool tiles,
                             llvm::function_ref<bool(const Intrinsic &)> holds) {
  const auto *found = llvm::find_if(machine.intrinsics, [&](const Intrinsic *one) {
    return (one->rows > 1) == tiles && holds(*one);
  });
  return found == machine.intrinsics.end() ? nullptr : *found;
}

static auto ofNumbers(Number left, Number right, Number sum) {
  return [=](const Intrinsic &one) {
    return one.left == left && one.right == right && one.sum == sum;
  };
}

static auto ofTypes(Type left, Type right, Type sum) {
  return [=](const Intrinsic &one) {
    return isNumber(left, one.left) && isNumber(right, one.right) && isNumber(sum, one.sum);
  };
}

const Intrinsic *MachineShape::products(Type left, Type right, Type sum) const {
  return find(*this, false, ofTypes(left, right, sum));
}

const Intrinsic *MachineShape::products(Number left, Number right, Number sum) const {
  return find(*this, false, ofNumbers(left, right, sum));
}

const Intrinsic *MachineShape::tileProducts(Type left, Type right, Type sum) const {
  return find(*this, true, ofTypes(left, right, sum));
}

const Intrinsic *MachineShape::tileProducts(Number left, Number right, Number sum) const {
  return find(*this, true, ofNumbers(left, right, sum));
}

int64_t panelWidth(const MachineShape &machine, int64_t accumulatorBytes, const Schedule &asked) {
  int64_t vectors = machine.vectorRegisters >= kManyRegisters ? 4 : 2;
  return asked.panelVectors.value_or(vectors) * machine.lanes(accumulatorBytes);
}

bool storesAtPitch(graph::KernelOp kernel, const MachineShape &machine) {
  if (kernel->getNumResults() != 1 || !libraries::libraryOf(kernel).empty() ||
      matchAttentionGradient(kernel))
    return false;
  switch (rootKind(scheduledOperator(kernel))) {
  case RootKind::Contraction:
  case RootKind::Depthwise:
    return true;
  case RootKind::Concat: { // along the last dimension, so that what it copies are pieces of rows
    auto concat = cast<graph::ConcatOp>(scheduledOperator(kernel));
    return int64_t(concat.getAxis()) + 1 == cast<RankedTensorType>(concat.getType()).getRank();
  }
  case RootKind::Winograd:
    return isa<graph::WinogradOutputOp>(scheduledOperator(kernel));
  case RootKind::Loops:
    return !matchPairedRows(kernel, machine) && !matchTransposition(kernel, machine) &&
           !matchPatches(kernel, machine);
  default:
    return false;
  }
}

Operation *scheduledOperator(graph::KernelOp kernel) {
  Block &block = kernel.getBody().front();
  // Of attention's two products the second is the one that is built around.
  for (Operation &op : block)
    if (matchContraction(&op) && matchScores(&op))
      return &op;
  for (Operation &op : llvm::reverse(block)) // of a chain of convolutions the last
    if (rootKind(&op) != RootKind::Loops)
      return &op;
  Operation *first = block.getTerminator()->getOperand(0).getDefiningOp();
  return first ? first : &block.front();
}

RootKind rootKind(Operation *op) {
  if (matchContraction(op))
    return RootKind::Contraction;
  if (auto conv = dyn_cast<graph::ConvOp>(op);
      conv && (isDepthwiseRoot(conv) || isSmallGroupsRoot(conv)))
    return RootKind::Depthwise;
  if (isRowRoot(op))
    return RootKind::Row;
  if (isWinogradTransform(op))
    return RootKind::Winograd;
  if (isa<graph::LoopOp>(op))
    return RootKind::Recurrence;
  if (isTreeRoot(op))
    return RootKind::Trees;
  if (isScatterRoot(op))
    return RootKind::Scatter;
  if (isFourierRoot(op))
    return RootKind::Fourier;
  return isConcatRoot(op) ? RootKind::Concat : RootKind::Loops;
}

StringRef name(RootKind kind) {
  constexpr StringRef kNames[] = {"loops",    "contraction", "depthwise", "rows",    "concat",
                                  "winograd", "recurrence",  "trees",     "scatter", "fourier"};
  return kNames[size_t(kind)];
}

bool canEmit(Operation *op) {
  auto usable = [](Type type) { return isa<NoneType>(type) || isKernelTensor(type); };
  if (!llvm::all_of(op->getOperandTypes(), usable) || !llvm::all_of(op->getResultTypes(), usable))
    return false;
  if (auto trees = dyn_cast<graph::TreeEnsembleOp>(op))
    return canFollowTrees(trees);
  if (isa<graph::Elementwise>(op))
    return broadcastsForCertain(op);
  if (!agreesForCertain(op))
    return false;
  return isa<graph::Indexed>(op) || hasWindowElement(op) || isRowRoot(op) ||
         isWinogradTransform(op) || isFourierRoot(op) || isScatterRoot(op);
}

Result<EmittedKernel> emitKernel(graph::KernelOp kernel, const MachineShape &machine,
                                 const Schedule &asked) {
  // A region may come from a file as it is.
  for (Operation &op : kernel.getBody().front()) {
    if (auto trees = dyn_cast<graph::TreeEnsembleOp>(op); trees && !canFollowTrees(trees))
      return unsupported("its trees lead astray");
    if (auto loop = dyn_cast<graph::LoopOp>(op); loop && !isWholeRecurrence(kernel, loop))
      return unsupported("its loop is none that a kernel can hold");
    if (auto match = matchContraction(&op);
        match &&
        match->step != stepOf(machine, getElementTypeOrSelf(match->left.getType()),
                              getElementTypeOrSelf(match->panels.getType()), match->accumulator))
      return unsupported("its panels are not laid out for this machine");
    if (auto conv = dyn_cast<graph::ConvOp>(op);
        conv && isSmallGroupsRoot(conv) &&
        cast<RankedTensorType>(matchSmallGroupPanels(conv).getType()).getShape().back() !=
            machine.lanes(sizeof(float)) * stepOf(machine, conv))
      return unsupported("its panels are not laid out for this machine");
  }
  auto emitted =
      emitFrame(kernel, chooseTemplate(kernel, scheduledOperator(kernel), machine, asked),
                machine.checksBounds);
  if (!emitted.ok())
    return emitted;
  emitted->work = workOf(kernel);
  if (machine.flushesBfloats)
    (*emitted->module)->setAttr(kFlushesBfloatsAttribute, UnitAttr::get(kernel.getContext()));
  return emitted;
}

} // namespace tensmith::kernel
