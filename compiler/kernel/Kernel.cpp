// What may be part of a kernel, and its emission by the template that takes it; see Kernel.h.
#include "compiler/kernel/Kernel.h"

#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/LoopKernel.h"
#include "compiler/kernel/Template.h"
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

} // namespace

bool storesAtPitch(graph::KernelOp kernel, const Machine &machine) {
  if (kernel->getNumResults() != 1 || !libraries::libraryOf(kernel).empty())
    return false;
  const Template *chosen = matchedTemplate(kernel, machine);
  return chosen && chosen->storesAtPitch &&
         chosen->storesAtPitch(scheduledOperator(kernel, machine));
}

bool multiplies(graph::KernelOp kernel, const Machine &machine) {
  const Template *noted = machine.templates->find(kernel.getKind());
  return noted ? noted->multiplies : !libraries::libraryOf(kernel).empty();
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

bool saysElement(Operation *op) { return canEmitElements(op) || hasWindowElement(op); }

bool mayBeInNest(Operation *op) { return saysElement(op) || isa<graph::Decomposable>(op); }

bool canEmit(Operation *op, const Machine &machine) {
  if (isa<graph::Elementwise, graph::Indexed>(op))
    return canEmitElements(op);
  bool isRoot = hasWindowElement(op) || (op->getNumRegions() == 0 && templateBefore(op, machine));
  return isRoot && hasKernelTypes(op) && agreesForCertain(op);
}

static Result<EmittedKernel> emitParts(graph::KernelOp kernel, const Template &chosen,
                                       const Machine &machine, ArrayRef<SizedPoint> asked) {
  Operation *main = scheduledOperator(kernel, machine);
  SmallVector<Variant, 1> variants;
  SizedPoint none;
  for (const SizedPoint &each : asked.empty() ? ArrayRef(none) : asked) {
    KernelParts parts = chosen.parts(kernel, main, machine, each.point);
    parts.grain = each.point[choice::grain];
    variants.push_back({std::move(parts), each.sizes});
  }
  return emitFrame(kernel, variants, machine.checksBounds);
}

static Result<EmittedKernel> emitWhole(graph::KernelOp kernel, const Template &chosen,
                                       const Machine &machine, ArrayRef<SizedPoint> asked) {
  auto emitted = chosen.emit(kernel, scheduledOperator(kernel, machine), machine, asked);
  StatusCode code = emitted.status().code();
  if (code != StatusCode::Unsupported && code != StatusCode::ResourceExhausted)
    return emitted;
  std::string why = emitted.status().message();
  auto plain = emitParts(kernel, kLoops, machine, {});
  if (plain.ok())
    plain->summary += ", for want of a " + chosen.name.str() + ": " + why;
  return plain;
}

/// Whether a function of f64 is in it that no instruction computes: those of f32 are polynomials.
static bool callsFunctionsOfF64(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        bool isFunction =
            isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
            !isa<math::SqrtOp, math::AbsFOp, math::FloorOp, math::CeilOp, math::RoundEvenOp,
                 math::TruncOp, math::CopySignOp, math::FmaOp, math::RsqrtOp, math::RoundOp>(op);
        return isFunction && getElementTypeOrSelf(op->getResult(0)).isF64()
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

Result<EmittedKernel> emitKernel(graph::KernelOp kernel, const Machine &machine,
                                 ArrayRef<SizedPoint> asked) {
  for (Operation &op : kernel.getBody().front()) // which may come from a file as it is
    for (const Template *one : machine.templates->rows())
      if (const char *why = one->distrusts ? one->distrusts(kernel, &op, machine) : nullptr)
        return unsupported(why);
  const Template *chosen = matchedTemplate(kernel, machine);
  if (!chosen)
    return unsupported("its region is none for the template '" + kernel.getKind().str() + "'");
  auto emitted = chosen->emit ? emitWhole(kernel, *chosen, machine, asked)
                              : emitParts(kernel, *chosen, machine, asked);
  if (!emitted.ok())
    return emitted;
  if (callsFunctionsOfF64(*emitted->module))
    return unsupported("there is no code for a function of its element types");
  emitted->work = workOf(kernel);
  if (machine.flushesBfloats)
    (*emitted->module)->setAttr(kFlushesBfloatsAttribute, UnitAttr::get(kernel.getContext()));
  return emitted;
}

} // namespace tensmith::kernel
