// What may be part of a kernel, and its emission by the template that takes it; see Kernel.h.
#include "compiler/kernel/Kernel.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/DepthwiseKernel.h"
#include "compiler/kernel/RecurrenceKernel.h"
#include "compiler/kernel/Template.h"
#include "compiler/kernel/TreeKernel.h"
#include "compiler/kernel/WindowElement.h"
#include "compiler/libraries/Libraries.h"

using namespace mlir;

namespace tensmith::kernel {
namespace {

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

/// Whether the kernel is the loop and gives what that gives.
bool isWholeRecurrence(graph::KernelOp kernel, graph::LoopOp loop, const Machine &machine) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  return isRecurrence(loop, machine) && loop.getNumResults() > 0 &&
         llvm::equal(yield.getValues(), loop.getResults()) &&
         llvm::equal(kernel.getResultTypes(), loop.getResultTypes());
}

} // namespace

bool storesAtPitch(graph::KernelOp kernel, const Machine &machine) {
  if (kernel->getNumResults() != 1 || !libraries::libraryOf(kernel).empty())
    return false;
  const Template *chosen = matchedTemplate(kernel, machine);
  return chosen && chosen->storesAtPitch &&
         chosen->storesAtPitch(scheduledOperator(kernel, machine));
}

Space spaceOf(graph::KernelOp kernel, const Machine &machine) {
  constexpr int64_t kMostGrain = 64;
  Space space;
  const Template *chosen = matchedTemplate(kernel, machine);
  if (chosen && chosen->space)
    chosen->space(kernel, scheduledOperator(kernel, machine), machine, space);
  space.addDoubling(choice::grain, kMostGrain);
  return space;
}

Operation *scheduledOperator(graph::KernelOp kernel, const Machine &machine) {
  Block &block = kernel.getBody().front();
  // Of attention's two products the second is the one that is built around.
  for (Operation &op : block)
    if (matchContraction(&op) && matchScores(&op))
      return &op;
  for (Operation &op : llvm::reverse(block)) // of a chain of convolutions the last
    if (templateOf(&op, machine))
      return &op;
  Operation *first = block.getTerminator()->getOperand(0).getDefiningOp();
  return first ? first : &block.front();
}

static bool hasKernelTypes(Operation *op) {
  auto usable = [](Type type) { return isa<NoneType>(type) || isKernelTensor(type); };
  return llvm::all_of(op->getOperandTypes(), usable) && llvm::all_of(op->getResultTypes(), usable);
}

bool canEmitElements(Operation *op) {
  if (!hasKernelTypes(op))
    return false;
  return isa<graph::Elementwise>(op) ? broadcastsForCertain(op)
                                     : isa<graph::Indexed>(op) && agreesForCertain(op);
}

bool canEmit(Operation *op, const Machine &machine) {
  if (isa<graph::Elementwise, graph::Indexed>(op))
    return canEmitElements(op);
  bool isRoot = hasWindowElement(op) || (op->getNumRegions() == 0 && templateBefore(op, machine));
  return isRoot && hasKernelTypes(op) && agreesForCertain(op);
}

Result<EmittedKernel> emitKernel(graph::KernelOp kernel, const Machine &machine,
                                 ArrayRef<SizedPoint> asked) {
  // A region may come from a file as it is.
  for (Operation &op : kernel.getBody().front()) {
    if (auto trees = dyn_cast<graph::TreeEnsembleOp>(op); trees && !canFollowTrees(trees))
      return unsupported("its trees lead astray");
    if (auto loop = dyn_cast<graph::LoopOp>(op); loop && !isWholeRecurrence(kernel, loop, machine))
      return unsupported("its loop is none that a kernel can hold");
    if (auto match = matchContraction(&op);
        match &&
        match->step != stepOf(machine, getElementTypeOrSelf(match->left.getType()),
                              getElementTypeOrSelf(match->panels.getType()), match->accumulator))
      return unsupported("its panels are not laid out for this machine");
    if (auto conv = dyn_cast<graph::ConvOp>(op);
        conv && isSmallGroupsRoot(conv) &&
        cast<RankedTensorType>(matchSmallGroupPanels(conv).getType()).getShape().back() !=
            machine.lanes(sizeof(float)) * stepOfGroups(machine, conv))
      return unsupported("its panels are not laid out for this machine");
  }
  const Template *chosen = matchedTemplate(kernel, machine);
  if (!chosen)
    return unsupported("its region is none for the template '" + kernel.getKind().str() + "'");
  Operation *main = scheduledOperator(kernel, machine);
  SmallVector<Variant, 1> variants;
  SizedPoint none;
  for (const SizedPoint &each : asked.empty() ? ArrayRef(none) : asked) {
    KernelParts parts = chosen->parts(kernel, main, machine, each.point);
    parts.grain = each.point[choice::grain];
    variants.push_back({std::move(parts), each.sizes});
  }
  auto emitted = emitFrame(kernel, variants, machine.checksBounds);
  if (!emitted.ok())
    return emitted;
  emitted->work = workOf(kernel);
  if (machine.flushesBfloats)
    (*emitted->module)->setAttr(kFlushesBfloatsAttribute, UnitAttr::get(kernel.getContext()));
  return emitted;
}

} // namespace tensmith::kernel
