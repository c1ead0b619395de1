// The table of all import rules; see Operators.h.
#include "frontends/onnx/Operators.h"

#include "frontends/onnx/Schemas.h"

#include <unordered_map>

namespace tensmith::onnx_import {
namespace {

std::unordered_map<std::string_view, Rule> standardRules() {
  std::unordered_map<std::string_view, Rule> rules;
  for (auto family :
       {elementwiseOperators(), activationOperators(), reductionOperators(), movementOperators(),
        dynamicMovementOperators(), gatherOperators(), contractionOperators(),
        convolutionOperators(), poolingOperators(), resamplingOperators(), normalizationOperators(),
        attentionOperators(), recurrentOperators(), creationOperators(), signalOperators(),
        quantizationOperators(), controlFlowOperators(), sequenceOperators(), lossOperators()})
    for (const Operator &op : family)
      rules.emplace(op.name, op.rule);
  return rules;
}

} // namespace

Rule findRule(std::string_view domain, std::string_view name) {
  static const std::unordered_map<std::string_view, Rule> rules = standardRules();
  if (!canonicalDomain(domain).empty())
    return nullptr;
  auto it = rules.find(name);
  return it == rules.end() ? nullptr : it->second;
}

} // namespace tensmith::onnx_import
