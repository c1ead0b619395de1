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

/// A signal [batch, length, 1 or 2]; real ones come without the last dimension, too, as torch.stft
/// is exported.
LogicalResult stft(NodeImport &n) {
  Value signal = n.input(0);
  if (signal && !n.isRanked(signal)) {
    signal =
        n("graph.dynamic_reshape", {signal, n.vector({0, 0, -1})}, {n.boolean("allowzero", false)});
  } else if (signal && n.rank(signal) == 2) {
    auto dims = n.dims(signal);
    dims.push_back(n.size(1));
    signal = n.reshape(signal, dims);
  }
  return n.give({n("graph.stft", {signal, n.input(1), n.maybe(2), n.maybe(3)},
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
