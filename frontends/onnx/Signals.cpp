// Fourier transforms, windows and filter banks.
#include "frontends/onnx/NodeImport.h"
#include "frontends/onnx/OperatorName.h"

namespace tensmith::onnx_import {
namespace {

/// The axis is an attribute in opset 17, an operand (of another default) since 20.
LogicalResult dft(NodeImport &n) {
  Value axis = n.opset < 20 ? n.integerScalar(n.intAttr("axis", 1)) : n.maybe(2);
  return n.give({n(
      "graph.dft", {n.input(0), n.maybe(1), axis},
      {n.boolean("inverse", n.intAttr("inverse")), n.boolean("onesided", n.intAttr("onesided"))})});
}

LogicalResult stft(NodeImport &n) {
  return n.give({n("graph.stft", {n.input(0), n.input(1), n.maybe(2), n.maybe(3)},
                   {n.boolean("onesided", n.intAttr("onesided", 1))})});
}

template <OperatorName kind> LogicalResult window(NodeImport &n) {
  Type to = n.typeAttr("output_datatype", 1);
  return to ? n.give({n("graph.window", {n.input(0)},
                        {n.text("kind", kind), n.type("to", to),
                         n.boolean("periodic", n.intAttr("periodic", 1))})})
            : failure();
}

LogicalResult melWeightMatrix(NodeImport &n) {
  Type to = n.typeAttr("output_datatype", 1);
  return to ? n.give({n("graph.mel_weight_matrix",
                        {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)},
                        n.type("to", to))})
            : failure();
}

constexpr Operator kOperators[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"BlackmanWindow", window<"blackman">},
    {"HannWindow", window<"hann">},
    {"HammingWindow", window<"hamming">},
    {"MelWeightMatrix", melWeightMatrix},
};

} // namespace

std::span<const Operator> signalOperators() { return kOperators; }

} // namespace tensmith::onnx_import
