// Recurrent layers as loops over time (Decomposable::decompose).
//
// The input's products with its weights don't depend on the state: one matrix product makes them
// for all steps, and the loop multiplies the state alone. A backward direction runs forward over
// the reversed sequence; with sequence lengths, each image's own part of it is reversed, and steps
// beyond its length keep the state and give zeros.
//
// In groups, a loop over groups of steps multiplies the inputs of one and runs through it.
#include "compiler/graph/Bounds.h"
#include "compiler/graph/CodedLstm.h"
#include "compiler/graph/Gradient.h"
#include "compiler/graph/RangeCodes.h"
#include "compiler/graph/RecurrentGroups.h"

#include "reference/Indexing.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
// ---- activation functions --------------------------------------------------------------------

struct Activation {
  std::string name; // in lower case
  double alpha = 0, beta = 0;
};

struct ActivationRule {
  int parameters; // how many of alpha and beta it takes from the lists
  double alpha, beta;
};

std::optional<ActivationRule> activationRule(StringRef name) {
  return llvm::StringSwitch<std::optional<ActivationRule>>(name)
      .Cases("relu", "tanh", "sigmoid", "softsign", "softplus", ActivationRule{0, 0, 0})
      .Case("affine", ActivationRule{2, 1, 0})
      .Case("leakyrelu", ActivationRule{1, 0.01, 0})
      .Case("thresholdedrelu", ActivationRule{1, 1, 0})
      .Case("scaledtanh", ActivationRule{2, 1, 1})
      .Case("hardsigmoid", ActivationRule{2, 0.2, 0.5})
      .Case("elu", ActivationRule{1, 1, 0})
      .Default(std::nullopt);
}

/// The functions of all directions; alpha and beta are taken in order by those that have them.
std::optional<SmallVector<Activation>> activationsOf(ArrayAttr given,
                                                     std::optional<ArrayRef<double>> alphas,
                                                     std::optional<ArrayRef<double>> betas,
                                                     ArrayRef<StringRef> defaults,
                                                     int64_t directions) {
  SmallVector<StringRef> names;
  for (int64_t d = 0; d < directions; ++d)
    llvm::append_range(names, defaults);
  if (!given.empty()) {
    if (given.size() != names.size() || !llvm::all_of(given, llvm::IsaPred<StringAttr>))
      return std::nullopt;
    for (auto [name, attribute] : llvm::zip_equal(names, given))
      name = cast<StringAttr>(attribute).getValue();
  }
  SmallVector<Activation> functions;
  ArrayRef<double> alpha = alphas.value_or(ArrayRef<double>());
  ArrayRef<double> beta = betas.value_or(ArrayRef<double>());
  for (StringRef name : names) {
    auto rule = activationRule(name.lower());
    if (!rule)
      return std::nullopt;
    Activation function{name.lower(), rule->alpha, rule->beta};
    if (rule->parameters > 0 && !alpha.empty()) {
      function.alpha = alpha.front();
      alpha = alpha.drop_front();
    }
    if (rule->parameters > 1 && !beta.empty()) {
      function.beta = beta.front();
      beta = beta.drop_front();
    }
    functions.push_back(function);
  }
  return functions;
}

Value maximum(const GraphCode &code, Value x, double bound) {
  return x ? code.op("graph.max", {x, code.scalar(x, bound)}) : x;
}
Value minimum(const GraphCode &code, Value x, double bound) {
  return x ? code.op("graph.min", {x, code.scalar(x, bound)}) : x;
}

Value activate(const GraphCode &code, const Activation &f, Value x) {
  if (!x)
    return x;
  Value zero = code.scalar(x, 0), one = code.scalar(x, 1);
  if (f.name == "tanh" || f.name == "sigmoid")
    return code.unary("graph." + f.name, x);
  if (f.name == "relu")
    return maximum(code, x, 0);
  if (f.name == "affine")
    return code.add(code.mul(x, f.alpha), f.beta);
  if (f.name == "scaledtanh")
    return code.mul(code.unary("graph.tanh", code.mul(x, f.beta)), f.alpha);
  if (f.name == "hardsigmoid")
    return minimum(code, maximum(code, code.add(code.mul(x, f.alpha), f.beta), 0), 1);
  Value magnitude = code.unary("graph.abs", x);
  if (f.name == "softsign")
    return code.div(x, code.add(magnitude, one));
  if (f.name == "softplus") {
    Value tail = code.unary("graph.exp", code.unary("graph.neg", magnitude));
    return code.add(maximum(code, x, 0), code.unary("graph.log1p", tail));
  }
  if (f.name == "thresholdedrelu")
    return code.where(code.op("graph.greater_or_equal", {x, code.scalar(x, f.alpha)}), x, zero);
  Value isPositive = code.op("graph.greater_or_equal", {x, zero});
  Value below = x; // leakyrelu
  if (f.name == "elu")
    below = code.sub(code.unary("graph.exp", minimum(code, x, 0)), one);
  return code.where(isPositive, x, code.mul(below, f.alpha));
}

// ---- the layer -------------------------------------------------------------------------------

/// One direction, with its weights as matrices to multiply by from the right.
struct Direction {
  Value w, r;                 // [input, gates * hidden], [hidden, gates * hidden]
  Value inputBias, stateBias; // [gates * hidden], null where absent
  Value peephole;             // [3 * hidden], null where absent
  ArrayRef<Activation> activations;
  SmallVector<Value> initial; // [batch, hidden] for each state
  bool isBackward = false;
};

struct Layer {
  int64_t gates = 1, hidden = 0;
  std::optional<double> clip;
  bool isLinearBeforeReset = false, isCoupled = false;
  Steps steps = Steps::Together;
  ArrayRef<LstmWeights>
      coded; // in place of the operands, of a direction each; the state is rounded
};

/// One step: the gates' sums from the input [batch, gates * hidden] and the states to new states.
using Cell = SmallVector<Value> (*)(const GraphCode &, const Layer &, const Direction &, Value,
                                    ArrayRef<Value>);

/// Columns [first, first + count) of gates.
Value gatesOf(const GraphCode &code, const Layer &layer, Value x, int64_t first,
              int64_t count = 1) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  SmallVector<int64_t> starts(dims.size(), 0);
  starts.back() = first * layer.hidden;
  dims.back() = code.size(count * layer.hidden);
  return code.slice(x, starts, dims);
}

Value clipped(const GraphCode &code, const Layer &layer, Value x) {
  return layer.clip ? minimum(code, maximum(code, x, -*layer.clip), *layer.clip) : x;
}

Value gate(const GraphCode &code, const Layer &layer, const Activation &function, Value sum) {
  return activate(code, function, clipped(code, layer, sum));
}

SmallVector<Value> rnnCell(const GraphCode &code, const Layer &layer, const Direction &direction,
                           Value input, ArrayRef<Value> state) {
  Value sum = code.add(input, code.matmul(state[0], direction.r));
  return {gate(code, layer, direction.activations[0], sum)};
}

// z and r from one product; the third gate's after the reset, or reset itself where linear.
SmallVector<Value> gruCell(const GraphCode &code, const Layer &layer, const Direction &direction,
                           Value input, ArrayRef<Value> state) {
  Value h = state[0];
  Value resetAndUpdate = code.matmul(h, gatesOf(code, layer, direction.r, 0, 2));
  resetAndUpdate = code.add(gatesOf(code, layer, input, 0, 2), resetAndUpdate);
  if (direction.stateBias)
    resetAndUpdate = code.add(resetAndUpdate, gatesOf(code, layer, direction.stateBias, 0, 2));
  Value activated = gate(code, layer, direction.activations[0], resetAndUpdate);
  Value z = gatesOf(code, layer, activated, 0), r = gatesOf(code, layer, activated, 1);
  Value weights = gatesOf(code, layer, direction.r, 2);
  Value product = code.matmul(layer.isLinearBeforeReset ? h : code.mul(r, h), weights);
  if (direction.stateBias)
    product = code.add(product, gatesOf(code, layer, direction.stateBias, 2));
  if (layer.isLinearBeforeReset)
    product = code.mul(r, product);
  Value sum = code.add(gatesOf(code, layer, input, 2), product);
  Value candidate = gate(code, layer, direction.activations[1], sum);
  Value keep = z ? code.sub(code.scalar(z, 1), z) : z;
  return {code.add(code.mul(keep, candidate), code.mul(z, h))};
}

// Gates i, o, f, c; peepholes i, o, f.
SmallVector<Value> lstmCell(const GraphCode &code, const Layer &layer, const Direction &direction,
                            Value input, ArrayRef<Value> state) {
  Value h = layer.coded.empty() ? state[0] : roundedByRange(code, state[0]), c = state[1];
  Value sums = code.add(input, code.matmul(h, direction.r));
  auto gateSum = [&](int64_t number, Value cell) {
    Value sum = gatesOf(code, layer, sums, number);
    if (!direction.peephole || number > 2)
      return sum;
    return code.add(sum, code.mul(gatesOf(code, layer, direction.peephole, number), cell));
  };
  const Activation &sigmoid = direction.activations[0];
  Value i = gate(code, layer, sigmoid, gateSum(0, c));
  Value f = layer.isCoupled ? (i ? code.sub(code.scalar(i, 1), i) : i)
                            : gate(code, layer, sigmoid, gateSum(2, c));
  Value candidate = gate(code, layer, direction.activations[1], gateSum(3, c));
  Value newC = code.add(code.mul(f, c), code.mul(i, candidate));
  Value o = gate(code, layer, sigmoid, gateSum(1, newC));
  return {code.mul(o, activate(code, direction.activations[2], newC)), newC};
}

/// The sequence [steps, batch, ...] in the order in which a backward direction takes it; its own
/// inverse.
Value reversed(const GraphCode &code, Value sequence, Value lengths) {
  if (GraphCode::isAbsent(lengths))
    return code.op("graph.reverse", {sequence}, {code.integers("axes", {0})});
  return code.op("graph.reverse_sequence", {sequence, lengths},
                 {code.integer("batch_axis", 1), code.integer("time_axis", 0)});
}

struct Outcome {
  Value sequence;           // [steps, batch, hidden]
  SmallVector<Value> state; // [batch, hidden] each
};

/// The loop's body: yields the condition, the states and the step's result. The loop's first step
/// is step `first` of all, or the first where that is null.
LogicalResult fillBody(const GraphCode &code, Block *body, const Layer &layer,
                       const Direction &direction, Cell cell, Value inputs, Value lengths,
                       Value first) {
  OpBuilder::InsertionGuard guard(code.builder);
  code.builder.setInsertionPointToStart(body);
  Value step = body->getArgument(0);
  SmallVector<Value> state(body->getArguments().drop_front(2));
  Value input = code.op("graph.gather", {inputs, step}, {code.integer("axis", 0)});
  SmallVector<Value> next = cell(code, layer, direction, input, state);
  Value result = next[0];
  if (!GraphCode::isAbsent(lengths)) {
    Value isWithin =
        code.op("graph.less", {first ? code.add(step, first) : step, lengths}); // [batch, 1], or []
    for (auto [value, old] : llvm::zip_equal(next, state))
      value = code.where(isWithin, value, old);
    result = result ? code.where(isWithin, result, code.scalar(result, 0)) : result;
  }
  SmallVector<Value> yielded{body->getArgument(1)};
  llvm::append_range(yielded, next);
  yielded.push_back(result);
  if (llvm::is_contained(yielded, Value()))
    return failure();
  // A state keeps its type, however its batch was named on the way.
  for (auto [value, old] : llvm::zip(MutableArrayRef(yielded).drop_front(), state))
    if (value.getType() != old.getType())
      value = code.reshape(value, code.dims(old));
  if (llvm::is_contained(yielded, Value()))
    return failure();
  code.builder.create<YieldOp>(code.graph.location, yielded);
  return success();
}

/// A loop of so many iterations that carries the states and scans out rows of the type; null where
/// its body can't be built.
Operation *loopOf(const GraphCode &code, Value trips, ArrayRef<Value> initial, Type rows,
                  llvm::function_ref<LogicalResult(Block *)> fill) {
  OperationState state(code.graph.location, LoopOp::getOperationName());
  state.addOperands({trips, code.graph.none()});
  state.addOperands(initial);
  state.addTypes(SmallVector<Type>(ValueRange(initial).getTypes()));
  state.addTypes(rows);
  state.addRegion();
  Operation *loop = code.builder.create(state);
  Block *body = new Block();
  loop->getRegion(0).push_back(body);
  auto scalarType = [&](Type element) { return RankedTensorType::get({}, element); };
  body->addArgument(scalarType(code.builder.getI64Type()), code.graph.location);
  body->addArgument(scalarType(code.builder.getI1Type()), code.graph.location);
  for (Value value : initial)
    body->addArgument(value.getType(), code.graph.location);
  if (succeeded(fill(body)))
    return loop;
  loop->erase();
  return nullptr;
}

Value projected(const GraphCode &code, const Direction &direction, Value x) {
  Value inputs = code.matmul(x, direction.w);
  return direction.inputBias ? code.add(inputs, direction.inputBias) : inputs;
}

/// Through the steps of `inputs`: the states and the sequence.
Operation *runSteps(const GraphCode &code, const Layer &layer, const Direction &direction,
                    Cell cell, Value inputs, ArrayRef<Value> initial, Value lengths, Value first) {
  if (!inputs)
    return nullptr;
  GraphCode::Dims dims = code.dims(inputs);
  dims.back() = code.size(layer.hidden);
  Type rows = code.graph.shapes.tensorType(GraphCode::element(inputs), dims);
  return loopOf(code, code.sizeOf(inputs, 0), initial, rows, [&](Block *body) {
    return fillBody(code, body, layer, direction, cell, inputs, lengths, first);
  });
}

constexpr int64_t kStepsTogether = 16; // in a group

/// Whether a sequence is cut into groups: one of a few is gone through at once.
bool isLong(const GraphCode &code, Value x) {
  auto steps = constantOf(code.dims(x)[0]);
  return !hasUnknownSizes(x.getType()) && !(steps && *steps <= 4 * kStepsTogether);
}

Value numberOf(const GraphCode &code, int64_t value) {
  return code.graph.scalar(code.builder.getI64Type(), double(value));
}

/// The rows of x from `first` on that a group has; behind the last it reads that again.
Value rowsOfGroup(const GraphCode &code, Value x, Value first) {
  Value own = code.add(code.iota({code.size(kStepsTogether)}, 0), first);
  Value last = code.sub(code.sizeOf(x, 0), numberOf(code, 1));
  return code.op("graph.gather", {x, code.op("graph.min", {own, last})}, {code.integer("axis", 0)});
}

/// Steps that the last group lacks are steps beyond all lengths.
std::optional<Outcome> runGroups(const GraphCode &code, const Layer &layer,
                                 const Direction &direction, Cell cell, Value x, Value lengths) {
  ShapeContext &shapes = code.graph.shapes;
  GraphCode::Dims dims = code.dims(x);
  AffineExpr steps = dims[0],
             groups = shapes.simplify((steps + (kStepsTogether - 1)).floorDiv(kStepsTogether)),
             room = shapes.simplify(groups * kStepsTogether);
  bool isFull = shapes.equal(room, steps);
  if (!isFull && GraphCode::isAbsent(lengths))
    lengths = code.sizeOf(x, 0);
  bool isRead = layer.steps == Steps::ReadInGroups;
  if (!isFull && !isRead) {
    GraphCode::Dims lacking = dims;
    lacking[0] = shapes.simplify(room - steps);
    x = code.concat({x, code.broadcast(code.scalar(x, 0), lacking)}, 0);
  }
  if (!isRead)
    x = code.reshape(x, {groups, code.size(kStepsTogether), dims[1], dims[2]});
  Value trips = code.sizeOf(x, 0);
  if (isRead)
    trips = code.div(code.add(trips, kStepsTogether - 1), numberOf(code, kStepsTogether));
  if (!x || !trips)
    return std::nullopt;
  dims.back() = code.size(layer.hidden);
  Type rows = shapes.tensorType(GraphCode::element(x),
                                {groups, code.size(kStepsTogether), dims[1], dims[2]});
  auto fill = [&](Block *body) -> LogicalResult {
    OpBuilder::InsertionGuard guard(code.builder);
    code.builder.setInsertionPointToStart(body);
    Value group = body->getArgument(0);
    SmallVector<Value> state(body->getArguments().drop_front(2));
    Value first = code.mul(group, numberOf(code, kStepsTogether));
    Value own = isRead ? rowsOfGroup(code, x, first)
                       : code.op("graph.gather", {x, group}, {code.integer("axis", 0)});
    Operation *loop = runSteps(code, layer, direction, cell, projected(code, direction, own), state,
                               lengths, first);
    if (!loop)
      return failure();
    SmallVector<Value> yielded{body->getArgument(1)};
    llvm::append_range(yielded, loop->getResults());
    code.builder.create<YieldOp>(code.graph.location, yielded);
    return success();
  };
  Operation *loop = loopOf(code, trips, direction.initial, rows, fill);
  if (!loop)
    return std::nullopt;
  Outcome outcome;
  size_t states = direction.initial.size();
  outcome.sequence = code.reshape(loop->getResult(states), {room, dims[1], dims[2]});
  if (!isFull)
    outcome.sequence = code.slice(outcome.sequence, {0, 0, 0}, dims);
  outcome.state.append(loop->result_begin(), loop->result_begin() + states);
  return outcome;
}

std::optional<Outcome> runDirection(const GraphCode &code, const Layer &layer,
                                    const Direction &direction, Cell cell, Value x, Value lengths) {
  Value column;
  if (!GraphCode::isAbsent(lengths))
    column = code.reshape(code.cast(lengths, code.builder.getI64Type()),
                          {code.dims(lengths)[0], code.size(1)});
  std::optional<Outcome> outcome;
  if (layer.steps != Steps::Together && isLong(code, x)) {
    Value inOrder = direction.isBackward ? reversed(code, x, lengths) : x;
    outcome = inOrder ? runGroups(code, layer, direction, cell, inOrder, column) : std::nullopt;
  } else {
    Value inputs = projected(code, direction, x);
    if (direction.isBackward && inputs)
      inputs = reversed(code, inputs, lengths);
    Operation *loop = runSteps(code, layer, direction, cell, inputs, direction.initial, column, {});
    if (!loop)
      return std::nullopt;
    size_t states = direction.initial.size();
    outcome.emplace();
    outcome->sequence = loop->getResult(states);
    outcome->state.append(loop->result_begin(), loop->result_begin() + states);
  }
  if (outcome && direction.isBackward)
    outcome->sequence = reversed(code, outcome->sequence, lengths);
  return outcome;
}

/// The lengths, as they are read from all that there may be; one that is negative or beyond the
/// sequence is an index of nothing.
Value withinSequence(const GraphCode &code, Operation *layer, Value lengths, Value x) {
  if (GraphCode::isAbsent(lengths))
    return lengths;
  Type i64 = code.builder.getI64Type();
  Value number = code.cast(lengths, i64), zero = numberOf(code, 0);
  Value one = numberOf(code, 1), beyond = code.add(code.sizeOf(x, 0), one);
  Value all = hasUnknownSizes(x.getType())
                  ? code.op("graph.range", {zero, beyond, one})
                  : code.iota({code.graph.shapes.simplify(code.dims(x)[0] + 1)}, 0);
  Value isNegative = code.op("graph.less", {number, zero});
  std::string refusal = layer->getName().stripDialect().str() + ": operand 'sequence_lens' " +
                        reference::kLengthRefusal;
  Value known = code.op(
      "graph.gather", {all, code.where(isNegative, beyond, number)},
      {code.integer("axis", 0), code.graph.named(kRefusal, code.builder.getStringAttr(refusal))});
  return code.cast(known, GraphCode::element(lengths));
}

/// Entry `index` of dimension 0, which goes.
Value entryOf(const GraphCode &code, Value x, int64_t index) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  SmallVector<int64_t> starts(dims.size(), 0);
  starts[0] = index;
  dims[0] = code.size(1);
  Value part = code.slice(x, starts, dims);
  return code.reshape(part, ArrayRef<AffineExpr>(dims).drop_front());
}

Value withNewDimension(const GraphCode &code, Value x, int64_t dim) {
  if (!x)
    return x;
  GraphCode::Dims dims = code.dims(x);
  dims.insert(dims.begin() + dim, code.size(1));
  return code.reshape(x, dims);
}

/// The operands that all three layers have, by their common names.
template <typename Op>
Direction directionOf(const GraphCode &code, Op op, int64_t number, const Layer &layer,
                      ArrayRef<Activation> activations) {
  Direction direction;
  if (layer.coded.empty()) {
    direction.w = code.transpose(entryOf(code, code.widen(op.getW()), number), {1, 0});
    direction.r = code.transpose(entryOf(code, code.widen(op.getR()), number), {1, 0});
  } else {
    direction.w = layer.coded[size_t(number)].input;
    direction.r = layer.coded[size_t(number)].state;
  }
  if (!GraphCode::isAbsent(op.getBias())) {
    Value bias = entryOf(code, code.widen(op.getBias()), number);
    direction.inputBias = gatesOf(code, layer, bias, 0, layer.gates);
    direction.stateBias = gatesOf(code, layer, bias, layer.gates, layer.gates);
    if (layer.gates != 3) { // only a reset gate comes between the two
      direction.inputBias = code.add(direction.inputBias, direction.stateBias);
      direction.stateBias = {};
    }
  }
  size_t each = activations.size() / (op.getDirection() == "bidirectional" ? 2 : 1);
  direction.activations = activations.slice(number * each, each);
  direction.isBackward = op.getDirection() == "reverse" || number == 1;
  return direction;
}

/// A state [directions, batch, hidden] (batch first where the layer is), or zeros, for a direction.
Value initialState(const GraphCode &code, Value given, Value x, bool batchFirst, int64_t number,
                   int64_t hidden) {
  if (!GraphCode::isAbsent(given)) {
    Value state = code.widen(given);
    if (batchFirst)
      state = code.transpose(state, {1, 0, 2});
    return code.reshape(entryOf(code, state, number), {code.dims(x)[1], code.size(hidden)});
  }
  return code.broadcast(code.scalar(x, 0), {code.dims(x)[1], code.size(hidden)});
}

template <typename Op>
LogicalResult decomposeLayer(GraphBuilder &graph, Op op, Layer layer, Cell cell,
                             ArrayRef<StringRef> defaults, ArrayRef<Value> initial, Value peepholes,
                             SmallVectorImpl<Value> &results) {
  for (Value operand : op->getOperands())
    if (!GraphCode::isAbsent(operand) && !GraphCode::isRanked(operand))
      return failure();
  GraphCode code(graph);
  layer.hidden = op.getHiddenSize();
  if (op.getClip())
    layer.clip = op.getClip()->convertToDouble();
  int64_t directions = op.getDirection() == "bidirectional" ? 2 : 1;
  auto activations = activationsOf(op.getActivations(), op.getActivationAlpha(),
                                   op.getActivationBeta(), defaults, directions);
  Value x = code.widen(op.getX());
  bool batchFirst = op.getBatchFirst();
  if (batchFirst)
    x = code.transpose(x, {1, 0, 2});
  if (!activations || !x)
    return failure();
  Value lengths = withinSequence(code, op, op.getSequenceLens(), x);
  if (!lengths)
    return failure();

  SmallVector<Value> sequences;
  SmallVector<SmallVector<Value>> states(initial.size());
  for (int64_t number = 0; number < directions; ++number) {
    Direction direction = directionOf(code, op, number, layer, *activations);
    if (!GraphCode::isAbsent(peepholes))
      direction.peephole = entryOf(code, code.widen(peepholes), number);
    for (Value given : initial)
      direction.initial.push_back(initialState(code, given, x, batchFirst, number, layer.hidden));
    if (!direction.w || !direction.r || llvm::is_contained(direction.initial, Value()))
      return failure();
    auto outcome = runDirection(code, layer, direction, cell, x, lengths);
    if (!outcome)
      return failure();
    sequences.push_back(withNewDimension(code, outcome->sequence, 1));
    for (auto [all, state] : llvm::zip_equal(states, outcome->state))
      all.push_back(withNewDimension(code, state, batchFirst ? 1 : 0));
  }
  Value y = code.concat(sequences, 1);
  if (batchFirst)
    y = code.transpose(y, {2, 0, 1, 3});
  Type element = GraphCode::element(op.getX());
  SmallVector<Value> values{code.cast(y, element)};
  for (ArrayRef<Value> state : states)
    values.push_back(code.cast(code.concat(state, batchFirst ? 1 : 0), element));
  return finish(values, results);
}
} // namespace

namespace {

LogicalResult decomposeRnn(RnnOp op, Steps steps, GraphBuilder &graph,
                           SmallVectorImpl<Value> &results) {
  Layer layer;
  layer.steps = steps;
  return decomposeLayer(graph, op, layer, rnnCell, {"tanh"}, {op.getInitialH()}, {}, results);
}

LogicalResult decomposeGru(GruOp op, Steps steps, GraphBuilder &graph,
                           SmallVectorImpl<Value> &results) {
  Layer layer;
  layer.steps = steps;
  layer.gates = 3;
  layer.isLinearBeforeReset = op.getLinearBeforeReset();
  return decomposeLayer(graph, op, layer, gruCell, {"sigmoid", "tanh"}, {op.getInitialH()}, {},
                        results);
}

LogicalResult decomposeLstm(LstmOp op, ArrayRef<LstmWeights> weights, Steps steps,
                            GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  Layer layer;
  layer.steps = steps;
  layer.gates = 4;
  layer.isCoupled = op.getInputForget();
  layer.coded = weights;
  return decomposeLayer(graph, op, layer, lstmCell, {"sigmoid", "tanh", "tanh"},
                        {op.getInitialH(), op.getInitialC()}, op.getP(), results);
}

} // namespace

LogicalResult RnnOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  return decomposeRnn(*this, Steps::Together, graph, results);
}

LogicalResult GruOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  return decomposeGru(*this, Steps::Together, graph, results);
}

LogicalResult LstmOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  return decomposeLstm(*this, {}, Steps::Together, graph, results);
}

LogicalResult decomposeCoded(LstmOp op, ArrayRef<LstmWeights> weights, GraphBuilder &graph,
                             SmallVectorImpl<Value> &results) {
  return decomposeLstm(op, weights, Steps::Together, graph, results);
}

bool isRecurrentLayer(Operation *op) { return isa<RnnOp, GruOp, LstmOp>(op); }

LogicalResult decomposeInGroups(Operation *op, Steps steps, GraphBuilder &graph,
                                SmallVectorImpl<Value> &results) {
  if (auto rnn = dyn_cast<RnnOp>(op))
    return decomposeRnn(rnn, steps, graph, results);
  if (auto gru = dyn_cast<GruOp>(op))
    return decomposeGru(gru, steps, graph, results);
  return decomposeLstm(cast<LstmOp>(op), {}, steps, graph, results);
}

} // namespace tensmith::graph
