// A graph of f32 as the same graph of f64: types, constants and conversions; see Calibration.h.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Calibration.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// Bits of floats, nodes of trees that are as wide as their features, and codes, whose rounding
/// falls on the other side here and there.
bool isOfSingles(Operation *op) {
  auto isCode = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isInteger(8) || element.isInteger(16);
  };
  return isa<graph::BitCastOp, graph::TreeEnsembleOp>(op) ||
         (isa<graph::ConvOp, graph::MatMulOp, graph::CastOp>(op) &&
          (llvm::any_of(op->getOperandTypes(), isCode) ||
           llvm::any_of(op->getResultTypes(), isCode)));
}

ElementsAttr widened(ElementsAttr value) {
  const auto narrow = graph::hostTensor(value);
  if (!narrow.ok() || narrow->type() != DataType::F32)
    return value;
  HostTensor wide(DataType::F64, narrow->shape());
  if (!wide.valid())
    return value;
  std::ranges::copy(narrow->as<float>(), wide.as<double>().begin());
  return graph::elementsAttr(value.getContext(), wide);
}

} // namespace

bool widenFloats(ModuleOp module) {
  bool isWidened = !module
                        .walk([](Operation *op) {
                          return isOfSingles(op) ? WalkResult::interrupt() : WalkResult::advance();
                        })
                        .wasInterrupted();
  if (!isWidened)
    return false;
  Builder builder(module.getContext());
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](Float32Type) -> Type { return builder.getF64Type(); });
  replacer.addReplacement([](ElementsAttr value) {
    return std::pair<mlir::Attribute, WalkResult>(widened(value), WalkResult::skip());
  });
  replacer.addReplacement([](FloatAttr value) {
    return std::pair<mlir::Attribute, WalkResult>(value, WalkResult::skip());
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  // What doesn't hold of doubles is no mistake of the model's.
  ScopedDiagnosticHandler silent(module.getContext(), [](Diagnostic &) { return success(); });
  return succeeded(verify(module));
}

} // namespace tensmith::pipeline
