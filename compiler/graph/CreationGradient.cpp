// Values from nothing depend on nothing; random choices are taken as they fell.
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

/// What was kept is scaled by 1 / (1 - ratio) where the operator trains, and by 1 where it doesn't.
Value dropping(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value g = pull.cotangent(), ratio = pull.operand(1), training = pull.operand(2);
  if (!g || GraphCode::isAbsent(training))
    return g;
  Value given =
      GraphCode::isAbsent(ratio) ? code.scalar(g, 0.5) : code.cast(ratio, GraphCode::element(g));
  Value one = code.scalar(g, 1);
  Value factor = code.where(training, code.div(one, code.sub(one, given)), one);
  return code.where(pull.op->getResult(1), code.mul(g, factor), code.scalar(g, 0));
}

} // namespace

std::span<const NamedGradientRule> creationGradients() {
  static const NamedGradientRule kRules[] = {
      {"constant", kZeroGradient},
      {"none", kZeroGradient},
      {"range", kNoGradient},
      {"iota", kZeroGradient},
      {"random_uniform", kZeroGradient},
      {"random_normal", kZeroGradient},
      {"bernoulli", kZeroGradient},
      {"multinomial", kZeroGradient},
      {"dropout", pulled(dropping, Linear::Jointly, 1)},
      {"dft", kNoGradient},
      {"stft", kNoGradient},
      {"window", kZeroGradient},
      {"mel_weight_matrix", kNoGradient},
  };
  return kRules;
}

std::span<const NamedGradientRule> otherGradients() {
  static const NamedGradientRule kRules[] = {
      {"quantize", kNoGradient},
      {"string_concat", kZeroGradient},
      {"string_split", kZeroGradient},
      {"string_normalize", kZeroGradient},
      {"regex_full_match", kZeroGradient},
      {"count_ngrams", kZeroGradient},
      {"look_up", kNoGradient},
      {"decode_image", kZeroGradient},
      {"sequence_construct", kNoGradient},
      {"sequence_at", kNoGradient},
      {"sequence_insert", kNoGradient},
      {"sequence_erase", kNoGradient},
      {"sequence_length", kZeroGradient},
      {"split_to_sequence", kNoGradient},
      {"concat_from_sequence", kNoGradient},
      {"optional", kNoGradient},
      {"optional_has_element", kZeroGradient},
      {"optional_get_element", kNoGradient},
      {"zip_map", kNoGradient},
      {"map_keys", kZeroGradient},
      {"map_values", kNoGradient},
      {"kernel", kNoGradient},
  };
  return kRules;
}

} // namespace tensmith::graph
