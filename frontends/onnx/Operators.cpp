// The table of all import rules; see Operators.h.
#include "frontends/onnx/Operators.h"

#include "frontends/onnx/Schemas.h"

#include <map>

namespace tensmith::onnx_import {
namespace {

using Name = std::pair<std::string_view, std::string_view>; // domain, operator

std::map<Name, Rule> allRules() {
  std::map<Name, Rule> rules;
  for (auto family : {elementwiseOperators(),
                      activationOperators(),
                      reductionOperators(),
                      movementOperators(),
                      dynamicMovementOperators(),
                      gatherOperators(),
                      contractionOperators(),
                      convolutionOperators(),
                      poolingOperators(),
                      resamplingOperators(),
                      normalizationOperators(),
                      attentionOperators(),
                      recurrentOperators(),
                      creationOperators(),
                      signalOperators(),
                      quantizationOperators(),
                      controlFlowOperators(),
                      sequenceOperators(),
                      lossOperators(),
                      stateOperators(),
                      trainingOperators(),
                      gradientOperators(),
                      textOperators(),
                      featureOperators(),
                      mapOperators(),
                      treeOperators(),
                      classifierOperators(),
                      supportVectorOperators(),
                      earlyOperators(),
                      contribStandardOperators(),
                      contribActivationOperators(),
                      contribNormalizationOperators(),
                      contribContractionOperators(),
                      contribQuantizationOperators(),
                      contribAttentionOperators()})
    for (const Operator &op : family)
      rules.emplace(Name(op.domain, op.name), op.rule);
  return rules;
}

} // namespace

Rule findRule(std::string_view domain, std::string_view name) {
  static const std::map<Name, Rule> rules = allRules();
  auto it = rules.find({canonicalDomain(domain), name});
  return it == rules.end() ? findNamedRule(domain, name) : it->second;
}

} // namespace tensmith::onnx_import
