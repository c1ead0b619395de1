// Sequences and optionals: the change of one is a sequence, or an optional, of as many changes.
//
// So building one and taking it apart are each other's transposes, and so are splitting and
// joining. All are linear in what they move. Positions and lengths are steps of whatever they are
// computed from. Where lengths are known, autodiff has resolved a sequence into its elements before
// (compiler/autodiff/Sequences.h).
#include "compiler/graph/Gradient.h"

using namespace mlir;

namespace tensmith::graph {
namespace {

Value elementAt(const GradientCode &code, Value sequence, Value position) {
  return code.op("graph.sequence_at", {sequence, position});
}
Value withElement(const GradientCode &code, Value sequence, Value element, Value position) {
  return code.op("graph.sequence_insert", {sequence, element, position});
}
Value withoutElement(const GradientCode &code, Value sequence, Value position) {
  return code.op("graph.sequence_erase", {sequence, position});
}
Value integer(const GradientCode &code, int64_t value) {
  return code.graph.scalar(code.builder.getI64Type(), double(value));
}

/// A position counted from the first element of a sequence of `sequence`'s length and so many more;
/// that of the last one where it is absent.
Value positionIn(const GradientCode &code, Value sequence, Value position, int64_t more = 0) {
  if (GraphCode::isAbsent(position))
    return integer(code, -1);
  Value length = code.add(code.op("graph.sequence_length", {sequence}), integer(code, more));
  position = code.reshape(code.cast(position, code.builder.getI64Type()), {});
  Value isFromEnd = code.op("graph.less", {position, integer(code, 0)});
  return code.where(isFromEnd, code.add(position, length), position);
}

Value constructing(const Pullback &pull, unsigned operand) {
  return elementAt(pull.code, pull.cotangent(), integer(pull.code, operand));
}

/// Zeros but for the element.
Value taking(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value sequence = pull.operand(0), at = positionIn(code, sequence, pull.operand(1));
  Value others = withoutElement(code, code.zerosLike(sequence), at);
  return withElement(code, others, pull.cotangent(), at);
}

/// By the cotangent's length alone, so that no loop need keep a sequence that it lets grow.
Value inserting(const Pullback &pull, unsigned operand) {
  const GradientCode &code = pull.code;
  Value g = pull.cotangent(), at = positionIn(code, g, pull.operand(2), -1);
  return operand == 0 ? withoutElement(code, g, at) : elementAt(code, g, at);
}

Value erasing(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value sequence = pull.operand(0), at = positionIn(code, sequence, pull.operand(1));
  Value zeros = code.zerosLike(elementAt(code, sequence, at));
  bool isLast = GraphCode::isAbsent(pull.operand(1));
  return withElement(code, pull.cotangent(), zeros, isLast ? code.graph.none() : at);
}

Value joined(const GradientCode &code, Value sequence, int64_t axis, bool isNew) {
  return code.op("graph.concat_from_sequence", {sequence},
                 {code.integer("axis", axis), code.flag("new_axis", isNew)});
}

Value splitting(const Pullback &pull, unsigned) {
  bool isNew = GraphCode::isAbsent(pull.operand(1)) && !flagOf(pull.op, "keepdims", true);
  Value whole = joined(pull.code, pull.cotangent(), integerOf(pull.op, "axis"), isNew);
  return pull.code.reshapeLike(whole, pull.operand(0));
}

Value joining(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  NamedAttribute axis = code.integer("axis", integerOf(pull.op, "axis"));
  bool isNew = flagOf(pull.op, "new_axis");
  Value lengths =
      isNew ? code.graph.none() : code.op("graph.sequence_sizes", {pull.operand(0)}, {axis});
  return code.op("graph.split_to_sequence", {pull.cotangent(), lengths},
                 {axis, code.flag("keepdims", !isNew)});
}

Value wrapping(const Pullback &pull, unsigned) {
  return pull.code.op("graph.optional_get_element", {pull.cotangent()});
}
/// Of anything that is no optional it takes itself.
Value unwrapping(const Pullback &pull, unsigned) {
  bool isOptional = isa<OptionalType>(pull.operand(0).getType());
  return isOptional ? pull.code.op("graph.optional", {pull.cotangent()}) : pull.cotangent();
}

Value both(const Pullback &pull, unsigned) { return pull.cotangent(); }

constexpr GradientRule moved(PullRule rule, uint32_t through) {
  return ofAnyRank(pulled(rule, Linear::Jointly, through));
}

} // namespace

std::span<const NamedGradientRule> sequenceGradients() {
  static const NamedGradientRule kRules[] = {
      {"sequence_construct", moved(constructing, ~0u)},
      {"sequence_at", moved(taking, 1)},
      {"sequence_insert", moved(inserting, 0b11)},
      {"sequence_erase", moved(erasing, 1)},
      {"sequence_length", kUnread},
      {"split_to_sequence", moved(splitting, 1)},
      {"concat_from_sequence", moved(joining, 1)},
      {"optional", moved(wrapping, 1)},
      {"optional_has_element", kUnread},
      {"optional_get_element", moved(unwrapping, 1)},
      {"sequence_zeros", kUnread},
      {"sequence_sum", moved(both, 0b11)},
      {"sequence_sizes", kUnread},
  };
  return kRules;
}

} // namespace tensmith::graph
