// The import rules: one for each ONNX operator that is not expanded through the standard's own
// definition of it.
#pragma once

#include "mlir/Support/LogicalResult.h"

#include <span>
#include <string_view>

namespace tensmith::onnx_import {
class NodeImport;

/// Builds the node's results and gives them (NodeImport::give). Fails with an error emitted at the
/// node's location.
using Rule = mlir::LogicalResult (*)(NodeImport &node);

struct Operator {
  std::string_view name;
  Rule rule;
  std::string_view domain = {}; ///< canonical: empty for the standard operators
  /// The graph operator that it is, where that has the same operands and attributes: such are
  /// exported by this row, too.
  std::string_view graph = {};
};

// The families, each in its file.
std::span<const Operator> elementwiseOperators();
std::span<const Operator> activationOperators();
std::span<const Operator> reductionOperators();
std::span<const Operator> movementOperators();
std::span<const Operator> dynamicMovementOperators();
std::span<const Operator> gatherOperators();
std::span<const Operator> contractionOperators();
std::span<const Operator> convolutionOperators();
std::span<const Operator> poolingOperators();
std::span<const Operator> resamplingOperators();
std::span<const Operator> normalizationOperators();
std::span<const Operator> attentionOperators();
std::span<const Operator> recurrentOperators();
std::span<const Operator> creationOperators();
std::span<const Operator> signalOperators();
std::span<const Operator> quantizationOperators();
std::span<const Operator> controlFlowOperators();
std::span<const Operator> sequenceOperators();
std::span<const Operator> lossOperators();
std::span<const Operator> stateOperators();
std::span<const Operator> trainingOperators();
std::span<const Operator> gradientOperators();
std::span<const Operator> textOperators();
std::span<const Operator> featureOperators();
std::span<const Operator> mapOperators();
std::span<const Operator> treeOperators();
std::span<const Operator> classifierOperators();
std::span<const Operator> supportVectorOperators();
std::span<const Operator> earlyOperators();
std::span<const Operator> contribStandardOperators();
std::span<const Operator> contribActivationOperators();
std::span<const Operator> contribNormalizationOperators();
std::span<const Operator> contribContractionOperators();
std::span<const Operator> contribQuantizationOperators();
std::span<const Operator> contribAttentionOperators();

/// Of an operator that a plug-in has named; null of others.
Rule findNamedRule(std::string_view domain, std::string_view name);
/// The rule of an operator, or null.
Rule findRule(std::string_view domain, std::string_view name);

} // namespace tensmith::onnx_import
