// How changes go through an operator: the rules that compiler/autodiff/ makes derivatives from.
//
// An operator is found by the name of its record, in the table of its family
// (<Family>Gradient.cpp). One rule serves reverse and forward mode alike:
//
// - `scale`, of element-wise operators: a change times the partial derivative. It is its own
//   transpose, so that it takes tangents forward and cotangents backward.
// - `pull`, the reverse rule: from the cotangents of the results to that of an operand. Forward, an
//   operator that is linear is applied to the tangents; of any other, `pull` itself is transposed.
// - `expand`: an equal graph of operators that have rules, which is differentiated instead, for
//   what has no decomposition or whose decomposition is not the one to differentiate.
//
// An operator without a rule is differentiated by its decomposition. One that has neither says so:
// its derivative is zero, for one of the reasons of `Zero`, or there is `none`, and whoever asks
// for one that goes through it is told. See docs/gradients.md for what is assumed at kinks.
#pragma once

#include "base/Table.h"
#include "compiler/graph/GraphCode.h"

#include <span>

namespace tensmith::graph {

/// What rules are written with: values take the shapes of others, at sizes that the run alone tells
/// too. As everywhere in GraphCode, null is what an error left.
class GradientCode : public GraphCode {
public:
  using GraphCode::GraphCode;

  /// Values are to be those of the operators as they are, to the bit: a decomposition that is
  /// differentiated stands beside its operator, which gives the value.
  bool keepsBits = false;

  Value filledLike(Value x, double value) const;
  /// Of a sequence or an optional, one of zeros.
  Value zerosLike(Value x) const;
  /// The sum of two changes of a value: of sequences, of their elements.
  Value addChanges(Value a, Value b) const;
  Value reshapeLike(Value x, Value like) const;
  Value broadcastLike(Value x, Value like) const;
  /// The transpose of broadcasting a value of the shape of `like`.
  Value sumLike(Value x, Value like) const;
  /// Zeros of the shape of `like` with x at the elements that `slice` reads: its transpose.
  Value placeLike(Value x, Value like, llvm::ArrayRef<int64_t> starts,
                  llvm::ArrayRef<int64_t> steps) const;
  /// x with `steps - 1` zeros after each element of each dimension.
  Value spread(Value x, llvm::ArrayRef<int64_t> steps) const;
  /// x with zeros around it, or fewer elements where negative.
  Value pad(Value x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high) const;
  Value negate(Value x) const { return unary("graph.neg", x); }
  /// 0, 1, ... for the elements of a dimension of x, as i64.
  Value indicesOf(Value x, int64_t dim) const;
  /// The dimensions of x as a vector of i64.
  Value shapeOf(Value x) const { return op("graph.shape", {x}); }
  /// The diagonal matrix of ones of the element type and the size of x's dimension.
  Value identityOf(Value x, int64_t dim) const;
  mlir::NamedAttribute flag(llvm::StringRef name, bool value) const {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  }
  mlir::NamedAttribute text(llvm::StringRef name, llvm::StringRef value) const {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  }
  Value vectorOf(llvm::ArrayRef<int64_t> values) const {
    return op("graph.constant", {},
              {builder.getNamedAttr("value", builder.getI64TensorAttr(values))});
  }
  /// Elements first, first + step, ... of one dimension.
  Value sliceDim(Value x, int64_t dim, int64_t first, int64_t step, mlir::AffineExpr count) const;

private:
  Value sumRows(Value x, size_t count) const;
  Value sumUnknown(Value x, Value like, int64_t dim, int64_t likeDim) const;
};

/// Whether changes of values of the type are numbers: tensors of floats of 16 bits or more.
bool isDifferentiable(mlir::Type type);
/// Whether it is such a tensor, or a sequence, an optional or a map of such.
bool holdsDifferentiable(mlir::Type type);
/// Whether a dimension has no expression, so that only the value tells it.
bool hasUnknownSizes(mlir::Type type);

// Attributes of any operator, with what the record has for a default.
bool flagOf(mlir::Operation *op, llvm::StringRef name, bool otherwise = false);
int64_t integerOf(mlir::Operation *op, llvm::StringRef name, int64_t otherwise = 0);
llvm::StringRef textOf(mlir::Operation *op, llvm::StringRef name, llvm::StringRef otherwise = {});
llvm::ArrayRef<int64_t> integersOf(mlir::Operation *op, llvm::StringRef name);
/// The attribute `axis`, counted from the first dimension of the operand.
int64_t axisOf(mlir::Operation *op, int64_t rank);

struct Pullback {
  const GradientCode &code;
  mlir::Operation *op;
  llvm::ArrayRef<mlir::Value> cotangents; // null where zero

  /// Of a result, zeros where there is none.
  mlir::Value cotangent(unsigned result = 0) const {
    return cotangents[result] ? cotangents[result] : code.zerosLike(op->getResult(result));
  }
  mlir::Value operand(unsigned number) const { return op->getOperand(number); }
};

/// In what an operator is linear: in nothing; in each operand, the others kept; in all together.
enum class Linear : uint8_t { No, Each, Jointly };

using ScaleRule = mlir::Value (*)(const GradientCode &, mlir::Operation *op, mlir::Value change,
                                  unsigned operand);
using PullRule = mlir::Value (*)(const Pullback &, unsigned operand);
using ExpandRule = mlir::LogicalResult (*)(const GradientCode &, mlir::Operation *op,
                                           llvm::SmallVectorImpl<mlir::Value> &results);

/// Why a derivative is zero.
enum class Zero : uint8_t {
  No,
  Step,     // the result is constant but for jumps: roundings, comparisons, places of the largest
  Unread,   // no element of an operand counts: shapes, lengths, constants
  Integers, // what changes are of integers, booleans or text, which follow nothing differentiable
};

struct GradientRule {
  ScaleRule scale = nullptr;
  PullRule pull = nullptr;
  ExpandRule expand = nullptr; // tried first; may fail where there is a pull
  Linear linear = Linear::No;
  uint32_t through = ~0u; // bits of the operands with respect to which there is a derivative
  Zero zero = Zero::No;
  /// `expand` gives the operator's own bits, so that its graph stands for the value as well. Of
  /// others the operator itself gives the value, and the graph only its change.
  bool givesValue = false;
  bool takesAnyRank = false; // `pull` needs no number of dimensions

  bool isZero() const { return zero != Zero::No; }
  bool isNone() const { return !scale && !pull && !expand && !isZero(); }
  bool reaches(unsigned operand) const { return operand >= 32 || (through >> operand) & 1; }
};

// What the tables are written with.
constexpr GradientRule scaled(ScaleRule rule) { return {rule}; }
constexpr GradientRule pulled(PullRule rule, Linear linear = Linear::No, uint32_t through = ~0u) {
  return {nullptr, rule, nullptr, linear, through};
}
constexpr GradientRule expanded(ExpandRule rule, uint32_t through = ~0u) {
  return {nullptr, nullptr, rule, Linear::No, through};
}
constexpr GradientRule expandedOrPulled(ExpandRule rule, PullRule pull, Linear linear,
                                        uint32_t through = ~0u) {
  return {nullptr, pull, rule, linear, through};
}
/// One that only moves elements or chooses among them.
constexpr GradientRule sameBits(GradientRule rule) {
  rule.givesValue = true;
  return rule;
}
constexpr GradientRule ofAnyRank(GradientRule rule) {
  rule.takesAnyRank = true;
  return rule;
}
constexpr GradientRule zeroed(Zero why) {
  return {nullptr, nullptr, nullptr, Linear::No, ~0u, why};
}
inline constexpr GradientRule kStep = zeroed(Zero::Step), kUnread = zeroed(Zero::Unread),
                              kOfIntegers = zeroed(Zero::Integers);
inline constexpr GradientRule kNoGradient{};

struct NamedGradientRule {
  llvm::StringRef name;
  GradientRule rule;
};
/// The families' tables, each defined in the file that it is named after.
std::span<const NamedGradientRule> elementwiseGradients();
std::span<const NamedGradientRule> reductionGradients();
std::span<const NamedGradientRule> movementGradients();
std::span<const NamedGradientRule> gatherGradients();
std::span<const NamedGradientRule> contractionGradients();
std::span<const NamedGradientRule> convolutionGradients();
std::span<const NamedGradientRule> poolingGradients();
std::span<const NamedGradientRule> resamplingGradients();
std::span<const NamedGradientRule> normalizationGradients();
std::span<const NamedGradientRule> creationGradients();
std::span<const NamedGradientRule> sequenceGradients();
/// Of the families that nothing is differentiated in: quantisation, text, maps.
std::span<const NamedGradientRule> otherGradients();

/// All rules, by operator (operatorName).
Table<NamedGradientRule> &gradientRules();
/// The rule of an operator; null where its decomposition is the rule, and for control flow, which
/// autodiff knows.
const GradientRule *findGradientRule(mlir::OperationName name);
/// The same of an operator at its types: a cast to integers is a step, and one to text or to floats
/// of fewer than 16 bits has no derivative.
const GradientRule *findGradientRule(mlir::Operation *op);

} // namespace tensmith::graph
