// A graph of f32 as the same graph of f64: types, constants and conversions; see Calibration.h.
// Codes stay what they are: what makes them divides by the scale, and rounds, in doubles.
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Calibration.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

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
                          // Bits of floats, and nodes of trees that are as wide as their features.
                          return isa<graph::BitCastOp, graph::TreeEnsembleOp>(op)
                                     ? WalkResult::interrupt()
                                     : WalkResult::advance();
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
