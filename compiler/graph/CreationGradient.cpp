// Values from nothing depend on nothing; random choices are taken as they fell; and transforms of
// signals.
//
// A Fourier transform is a matrix whose conjugate transpose is the inverse one's, but for the
// length: so a transform of the cotangent is the rule. What was filled with zeros is cut off again,
// what was cut off gets zeros, and what was left out of a spectrum, because its conjugate is there,
// counts twice.
#include "compiler/graph/FakeQuantization.h"
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

/// The dimension that is transformed; nothing where only the run tells which.
std::optional<int64_t> transformedAxis(const GradientCode &code, Operation *op) {
  int64_t rank = GraphCode::rank(op->getOperand(0));
  if (GraphCode::isAbsent(op->getOperand(2)))
    return rank - 2;
  auto known = code.graph.shapes.constants(op->getOperand(2));
  if (!known || known->size() != 1)
    return std::nullopt;
  return known->front() < 0 ? known->front() + rank : known->front();
}

/// The first half of a spectrum, but for what is its own conjugate, counted twice.
Value conjugatesAdded(const GradientCode &code, Value half, int64_t axis, Value length) {
  int64_t rank = GraphCode::rank(half);
  Value place = code.alongDimension(code.indicesOf(half, axis), axis, rank);
  Value last = code.op("graph.equal", {code.add(place, place), length});
  Value first = code.op("graph.equal", {place, code.scalar(place, 0)});
  Value isOwn = code.op("graph.or", {first, last});
  return code.mul(half, code.where(isOwn, code.scalar(half, 1), code.scalar(half, 2)));
}

/// x's elements along the transform, and the real part of each where x is real.
Value fittedTo(const GradientCode &code, Value change, Value x) {
  if (!change)
    return {};
  GraphCode::Dims dims = code.dims(x);
  int64_t last = GraphCode::rank(x) - 1;
  if (!code.graph.shapes.equal(dims.back(), code.dims(change).back()))
    change = code.sliceDim(change, last, 0, 1, dims.back());
  if (!change)
    return {};
  SmallVector<int64_t> starts(dims.size(), 0), steps(dims.size(), 1);
  return code.placeLike(change, x, starts, steps);
}

Value transforming(const Pullback &pull, unsigned) {
  const GradientCode &code = pull.code;
  Value x = pull.operand(0), given = pull.operand(1), g = pull.cotangent();
  auto axis = transformedAxis(code, pull.op);
  if (!g || !axis)
    return {};
  bool isInverse = flagOf(pull.op, "inverse"), isHalf = flagOf(pull.op, "onesided");
  // How many are written is how many are transformed, unless half of them is left out.
  bool isCut = isHalf && !isInverse;
  if (hasUnknownSizes(x.getType()) && !GraphCode::isAbsent(given))
    return {};
  Value length = !isCut                       ? code.sizeOf(pull.op->getResult(0), *axis)
                 : GraphCode::isAbsent(given) ? code.sizeOf(x, *axis)
                                              : code.reshape(given, {});
  length = code.cast(length, code.builder.getI64Type());
  Value along = code.graph.scalar(code.builder.getI64Type(), double(*axis));
  Value change =
      code.op("graph.dft", {g, isCut ? length : code.graph.none(), along},
              {code.flag("inverse", !isInverse), code.flag("onesided", isHalf && isInverse)});
  if (isHalf && isInverse)
    change = conjugatesAdded(code, change, *axis, length);
  Value count = code.cast(length, GraphCode::element(g));
  return fittedTo(code, isInverse ? code.div(change, count) : code.mul(change, count), x);
}

/// The frames, each times the window, transformed as a stack.
LogicalResult transformingFrames(const GradientCode &code, Operation *op,
                                 SmallVectorImpl<Value> &results) {
  Value signal = op->getOperand(0), window = op->getOperand(2), given = op->getOperand(3);
  if (!GraphCode::isRanked(signal) || hasUnknownSizes(op->getResult(0).getType()))
    return failure();
  AffineExpr length = code.dims(signal)[1], frames = code.dims(op->getResult(0))[1];
  auto known = GraphCode::isAbsent(given) ? std::nullopt : code.graph.shapes.constants(given);
  if (!GraphCode::isAbsent(window))
    length = code.dims(window)[0];
  else if (known)
    length = code.size(known->front());
  else if (!GraphCode::isAbsent(given))
    return failure();
  Value hop = code.cast(code.reshape(op->getOperand(1), {}), code.builder.getI64Type());
  Value places =
      code.add(code.mul(code.iota({frames, length}, 0), hop), code.iota({frames, length}, 1));
  Value stack = code.op("graph.gather", {signal, places}, {code.integer("axis", 1)});
  if (!GraphCode::isAbsent(window))
    stack = code.mul(stack, code.reshape(window, {length, code.size(1)}));
  Value spectra = code.op("graph.dft", {stack, code.graph.none(), code.graph.none()},
                          {code.flag("onesided", flagOf(op, "onesided", true))});
  return finish(code.reshapeLike(spectra, op->getResult(0)), results);
}

/// Of fake_quantize: what rounds by half a step at most is within the range of codes, and passes;
/// what is clamped errs by more. (A hair more than half, since x / scale is rounded, too.)
Value straightThrough(const GradientCode &code, Operation *op, Value change, unsigned) {
  constexpr double kHalfStep = 0.5 + 1e-5;
  Value x = op->getOperand(0);
  Value scale = alignParameter(code, op->getOperand(1), x, axisOf(op, GraphCode::rank(x)),
                               integerOf(op, "block_size"));
  if (!scale)
    return {};
  Value error = code.unary("graph.abs", code.sub(x, op->getResult(0)));
  Value reach = code.mul(scale, code.scalar(scale, kHalfStep));
  Value isWithin = code.op("graph.less_or_equal", {error, reach});
  return code.op("graph.where", {isWithin, change, code.zerosLike(change)});
}

} // namespace

std::span<const NamedGradientRule> creationGradients() {
  static const NamedGradientRule kRules[] = {
      {"constant", kUnread},
      {"keep_sizes", kUnread},
      {"none", kUnread},
      {"range", kNoGradient},
      {"iota", kUnread},
      {"run_key", kUnread},
      {"random_uniform", kUnread},
      {"random_normal", kUnread},
      {"bernoulli", kStep},
      {"multinomial", kStep},
      {"dropout", pulled(dropping, Linear::Jointly, 1)},
      {"dft", pulled(transforming, Linear::Jointly, 1)},
      {"stft", expanded(transformingFrames, 0b101)},
      {"window", kOfIntegers},
      {"mel_weight_matrix", kNoGradient},
  };
  return kRules;
}

std::span<const NamedGradientRule> otherGradients() {
  static const NamedGradientRule kRules[] = {
      {"quantize", kNoGradient},
      {"fake_quantize", {straightThrough, nullptr, nullptr, Linear::No, 1}},
      {"block_values", kOfIntegers},
      {"cached_attention", kNoGradient},
      {"bit_pack", kOfIntegers},
      {"bit_conv", kOfIntegers},
      {"string_concat", kOfIntegers},
      {"string_split", kOfIntegers},
      {"string_normalize", kOfIntegers},
      {"regex_full_match", kOfIntegers},
      {"count_ngrams", kOfIntegers},
      {"look_up", kNoGradient},
      {"decode_image", kOfIntegers},
      {"zip_map", kNoGradient},
      {"map_keys", kUnread},
      {"map_values", kNoGradient},
      {"kernel", kNoGradient},
      {"check", kNoGradient},
  };
  return kRules;
}

} // namespace tensmith::graph
