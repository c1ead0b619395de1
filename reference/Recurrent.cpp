// Reference evaluation of recurrent layers: rnn, gru and lstm as ONNX defines them, with
// directions, peepholes, sequence lengths, clipping and every activation function.
//
// A layer is one loop over directions, images and steps, whatever the cell; a cell maps the input's
// and the state's products with the weights to the next state. A step beyond an image's length
// leaves its state as it is and its result 0; the backward direction starts at the image's own last
// step.
#include "reference/Indexing.h"
#include "reference/Workspace.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tensmith::reference {

namespace {

// ---- activation functions
// -------------------------------------------------------------------------------

struct Activation {
  double (*function)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double operator()(double x) const { return function(x, alpha, beta); }
};

struct ActivationRule {
  std::string_view name;
  double (*function)(double, double, double);
  int parameters; // how many of alpha and beta it takes from the lists
  double alpha, beta;
};

constexpr ActivationRule kActivations[] = {
    {"relu", [](double x, double, double) { return std::max(x, 0.0); }, 0, 0, 0},
    {"tanh", [](double x, double, double) { return std::tanh(x); }, 0, 0, 0},
    {"sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }, 0, 0, 0},
    {"affine", [](double x, double a, double b) { return a * x + b; }, 2, 1, 0},
    {"leakyrelu", [](double x, double a, double) { return x >= 0 ? x : a * x; }, 1, 0.01, 0},
    {"thresholdedrelu", [](double x, double a, double) { return x >= a ? x : 0; }, 1, 1, 0},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, 1, 1},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 2,
     0.2, 0.5},
    {"elu", [](double x, double a, double) { return x >= 0 ? x : a * std::expm1(x); }, 1, 1, 0},
    {"softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }, 0, 0, 0},
    {"softplus",
     [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
     0, 0, 0},
};

const ActivationRule *findActivation(std::string name) {
  for (char &c : name)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  auto rule = std::ranges::find(kActivations, std::string_view(name), &ActivationRule::name);
  return rule == std::end(kActivations) ? nullptr : rule;
}

/// The functions of all directions. Alpha and beta are taken in order by those functions that have
/// them.
std::vector<Activation> activationsOf(Workspace &workspace, const Attributes &attributes,
                                      std::vector<std::string> names, int64_t directions) {
  const auto given = attributes.get<std::vector<std::string>>("activations");
  const std::vector<std::string> oneDirection = names;
  for (int64_t d = 1; d < directions; ++d)
    names.insert(names.end(), oneDirection.begin(), oneDirection.end());
  if (!given.empty() && given.size() != names.size())
    workspace.rejectAttribute("activations",
                              "must have " + std::to_string(names.size()) + " names");
  else if (!given.empty())
    names = given;
  const auto alphas = attributes.get<std::vector<double>>("activation_alpha");
  const auto betas = attributes.get<std::vector<double>>("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> functions;
  for (const std::string &name : names) {
    const ActivationRule *rule = findActivation(name);
    if (!rule) {
      workspace.rejectAttribute("activations", "has '" + name + "', which doesn't exist");
      return functions;
    }
    Activation f{rule->function, rule->alpha, rule->beta};
    if (rule->parameters > 0 && alpha < alphas.size())
      f.alpha = alphas[alpha++];
    if (rule->parameters > 1 && beta < betas.size())
      f.beta = betas[beta++];
    functions.push_back(f);
  }
  return functions;
}

// ---- the layer
// ------------------------------------------------------------------------------------------

struct Layer {
  int64_t gates = 1, directions = 1, hidden = 0, input = 0, steps = 0, batch = 0;
  bool reverse = false, batchFirst = false;
  double clip = INFINITY;
  std::span<double> x, w, r, bias, h, c, peepholes;
  std::vector<int64_t> lengths;
  std::vector<Activation> activations;
  std::span<double> y, lastH, lastC;

  int64_t state(int64_t d, int64_t b) const {
    return (batchFirst ? b * directions + d : d * batch + b) * hidden;
  }
  const double *step(int64_t b, int64_t t) const {
    return x.data() + (batchFirst ? b * steps + t : t * batch + b) * input;
  }
  double *result(int64_t d, int64_t b, int64_t t) const {
    return y.data() +
           (batchFirst ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
               hidden;
  }
  double clipped(double v) const { return std::clamp(v, -clip, clip); }
  Shape stateShape() const {
    return batchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
  Shape resultShape() const {
    return batchFirst ? Shape{batch, steps, directions, hidden}
                      : Shape{steps, directions, batch, hidden};
  }
};

/// What a cell works on at one step: gate-wise products of input and state with the weights, biases
/// included.
struct Step {
  const Layer &layer;
  int64_t direction;
  const Activation *activation;
  std::span<double> fromInput, fromState; // gates * hidden
  double *h, *c;
  std::span<double> scratch; // hidden
};

using Cell = void (*)(const Step &);

/// y = matrix x + bias, for rows [first, last) of `width`.
void multiply(const double *matrix, const double *x, const double *bias, int64_t width,
              int64_t first, int64_t last, double *y) {
  for (int64_t row = first; row < last; ++row) {
    double sum = bias ? bias[row] : 0;
    for (int64_t i = 0; i < width; ++i)
      sum += matrix[row * width + i] * x[i];
    y[row] = sum;
  }
}

const double *biasOf(const Layer &layer, int64_t direction, bool ofState) {
  const int64_t rows = layer.gates * layer.hidden;
  return layer.bias.empty() ? nullptr
                            : layer.bias.data() + (direction * 2 + int64_t(ofState)) * rows;
}

void runSequence(const Layer &layer, Cell cell, int64_t d, int64_t b, const Step &step) {
  const int64_t rows = layer.gates * layer.hidden, length = layer.lengths[size_t(b)];
  const bool backward = layer.reverse || d == 1;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = backward ? length - 1 - i : i;
    multiply(layer.w.data() + d * rows * layer.input, layer.step(b, t), biasOf(layer, d, false),
             layer.input, 0, rows, step.fromInput.data());
    multiply(layer.r.data() + d * rows * layer.hidden, step.h, biasOf(layer, d, true), layer.hidden,
             0, rows, step.fromState.data());
    cell(step);
    std::copy_n(step.h, layer.hidden, layer.result(d, b, t));
  }
}

void readDirections(Workspace &workspace, const Attributes &attributes, Layer &layer) {
  const std::string direction = attributes.string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    workspace.rejectAttribute("direction", "is '" + direction + "', which doesn't exist");
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.reverse = direction == "reverse";
  layer.batchFirst = attributes.integer("batch_first") != 0;
  if (attributes.has("clip"))
    layer.clip = attributes.real("clip");
  if (!(layer.clip >= 0))
    workspace.rejectAttribute("clip", "must not be negative");
}

void readLengths(Workspace &workspace, const Invocation &invocation, Layer &layer) {
  if (!workspace.ok())
    return;
  std::span<int64_t> lengths = workspace.zeros<int64_t>({layer.batch});
  std::ranges::fill(lengths, layer.steps);
  if (invocation.present(4)) {
    const HostTensor &given = workspace.operand(4, "sequence_lens", 1);
    if (workspace.ok())
      workspace.expectShape(given, "sequence_lens", Shape{layer.batch});
    lengths = workspace.widen<int64_t>(given);
  }
  for (int64_t length : lengths)
    workspace.require(length >= 0 && length <= layer.steps, "sequence_lens", kLengthRefusal);
  if (workspace.ok())
    layer.lengths.assign(lengths.begin(), lengths.end());
}

std::span<double> shaped(Workspace &workspace, const Invocation &invocation, size_t index,
                         const char *name, const Shape &shape, bool optional = true) {
  if (!workspace.ok() || (optional && !invocation.present(index)))
    return {};
  const HostTensor &tensor = workspace.floatOperand(index, name);
  if (workspace.ok())
    workspace.expectShape(tensor, name, shape);
  return workspace.widen<double>(tensor);
}

Layer layerOf(Workspace &workspace, const Invocation &invocation, int64_t gates,
              std::vector<std::string> activations) {
  Layer layer;
  layer.gates = gates;
  readDirections(workspace, invocation.attributes, layer);
  const HostTensor &x = workspace.floatOperand(0, "x", 3), &r = workspace.floatOperand(2, "r", 3);
  if (!workspace.ok())
    return layer;
  layer.steps = x.shape()[layer.batchFirst ? 1 : 0];
  layer.batch = x.shape()[layer.batchFirst ? 0 : 1];
  layer.input = x.shape()[2];
  layer.hidden = r.shape()[2];
  if (layer.hidden != invocation.attributes.integer("hidden_size", layer.hidden) ||
      layer.hidden > kLargestExtent)
    workspace.rejectAttribute("hidden_size", "differs from r's last dimension");
  if (!workspace.ok())
    return layer;
  const int64_t rows = gates * layer.hidden;
  layer.x = workspace.widen<double>(x);
  layer.w = shaped(workspace, invocation, 1, "w", {layer.directions, rows, layer.input}, false);
  layer.r = shaped(workspace, invocation, 2, "r", {layer.directions, rows, layer.hidden}, false);
  layer.bias = shaped(workspace, invocation, 3, "bias", {layer.directions, 2 * rows});
  layer.h = shaped(workspace, invocation, 5, "initial_h", layer.stateShape());
  readLengths(workspace, invocation, layer);
  layer.activations =
      activationsOf(workspace, invocation.attributes, std::move(activations), layer.directions);
  return layer;
}

/// `initial`, or zeros where it is absent, to be overwritten by the last state.
std::span<double> stateOf(Workspace &workspace, const Layer &layer, std::span<double> initial) {
  return initial.empty() ? workspace.zeros<double>(layer.stateShape()) : initial;
}

Outcome run(Workspace &workspace, const Invocation &invocation, Layer layer, Cell cell) {
  layer.y = workspace.zeros<double>(layer.resultShape());
  layer.lastH = stateOf(workspace, layer, layer.h);
  layer.lastC = stateOf(workspace, layer, layer.c);
  const int64_t rows = layer.gates * layer.hidden;
  std::span<double> fromInput = workspace.zeros<double>({rows});
  std::span<double> fromState = workspace.zeros<double>({rows});
  std::span<double> scratch = workspace.zeros<double>({layer.hidden});
  if (!workspace.ok())
    return workspace.status();
  const size_t functions = layer.activations.size() / size_t(layer.directions);
  for (int64_t d = 0; d < layer.directions && layer.hidden > 0; ++d)
    for (int64_t b = 0; b < layer.batch; ++b) {
      const int64_t at = layer.state(d, b);
      runSequence(layer, cell, d, b,
                  {layer, d, &layer.activations[size_t(d) * functions], fromInput, fromState,
                   layer.lastH.data() + at, layer.lastC.data() + at, scratch});
    }
  const DataType type = invocation.operands[0].type();
  std::vector<HostTensor> results;
  results.push_back(workspace.narrow<double>(layer.y, type, layer.resultShape()));
  results.push_back(workspace.narrow<double>(layer.lastH, type, layer.stateShape()));
  if (invocation.name == "lstm")
    results.push_back(workspace.narrow<double>(layer.lastC, type, layer.stateShape()));
  return workspace.finish(std::move(results));
}

// ---- the cells
// ------------------------------------------------------------------------------------------

void rnnCell(const Step &step) {
  for (int64_t i = 0; i < step.layer.hidden; ++i)
    step.h[i] = step.activation[0](
        step.layer.clipped(step.fromInput[size_t(i)] + step.fromState[size_t(i)]));
}

/// Applies `function` to gate `gate`'s sums, in place of the input's.
void activateGate(const Step &step, int64_t gate, const Activation &function) {
  const int64_t hidden = step.layer.hidden;
  for (int64_t i = gate * hidden; i < (gate + 1) * hidden; ++i)
    step.fromInput[size_t(i)] =
        function(step.layer.clipped(step.fromInput[size_t(i)] + step.fromState[size_t(i)]));
}

/// The state enters the new one multiplied by the reset gate.
void resetState(const Step &step) {
  const Layer &layer = step.layer;
  const int64_t hidden = layer.hidden, rows = layer.gates * hidden;
  for (int64_t i = 0; i < hidden; ++i)
    step.scratch[size_t(i)] = step.fromInput[size_t(hidden + i)] * step.h[i];
  multiply(layer.r.data() + step.direction * rows * hidden, step.scratch.data(),
           biasOf(layer, step.direction, true), hidden, 2 * hidden, rows, step.fromState.data());
}

void finishGru(const Step &step) {
  const int64_t hidden = step.layer.hidden;
  activateGate(step, 2, step.activation[1]);
  for (int64_t i = 0; i < hidden; ++i) {
    const double z = step.fromInput[size_t(i)];
    step.h[i] = (1 - z) * step.fromInput[size_t(2 * hidden + i)] + z * step.h[i];
  }
}

void gruCell(const Step &step) {
  activateGate(step, 0, step.activation[0]);
  activateGate(step, 1, step.activation[0]);
  resetState(step);
  finishGru(step);
}

/// As `gruCell`, but the reset gate is applied to the state's product with the weights, bias
/// included.
void gruLinearCell(const Step &step) {
  const int64_t hidden = step.layer.hidden;
  activateGate(step, 0, step.activation[0]);
  activateGate(step, 1, step.activation[0]);
  for (int64_t i = 0; i < hidden; ++i)
    step.fromState[size_t(2 * hidden + i)] *= step.fromInput[size_t(hidden + i)];
  finishGru(step);
}

/// Gates i, o, f, c; peepholes i, o, f. `coupled`: the forget gate is 1 minus the input gate.
void lstm(const Step &step, bool coupled) {
  const Layer &layer = step.layer;
  const int64_t hidden = layer.hidden;
  const double *peephole =
      layer.peepholes.empty() ? nullptr : layer.peepholes.data() + step.direction * 3 * hidden;
  for (int64_t k = 0; k < hidden; ++k) {
    auto sum = [&](int64_t gate) {
      return step.fromInput[size_t(gate * hidden + k)] + step.fromState[size_t(gate * hidden + k)];
    };
    auto peep = [&](int64_t gate) {
      return peephole ? peephole[gate * hidden + k] * step.c[k] : 0;
    };
    const double i = step.activation[0](layer.clipped(sum(0) + peep(0)));
    const double f = coupled ? 1 - i : step.activation[0](layer.clipped(sum(2) + peep(2)));
    const double c = step.activation[1](layer.clipped(sum(3)));
    step.c[k] = f * step.c[k] + i * c;
    const double o = step.activation[0](layer.clipped(sum(1) + peep(1)));
    step.scratch[size_t(k)] = o * step.activation[2](step.c[k]);
  }
  std::ranges::copy(step.scratch, step.h);
}

void lstmCell(const Step &step) { lstm(step, false); }
void lstmCoupledCell(const Step &step) { lstm(step, true); }

Outcome evaluateRnn(const Invocation &invocation) {
  Workspace workspace(invocation);
  Layer layer = layerOf(workspace, invocation, 1, {"tanh"});
  return run(workspace, invocation, layer, rnnCell);
}

Outcome evaluateGru(const Invocation &invocation) {
  Workspace workspace(invocation);
  Layer layer = layerOf(workspace, invocation, 3, {"sigmoid", "tanh"});
  const bool linear = invocation.attributes.integer("linear_before_reset") != 0;
  return run(workspace, invocation, layer, linear ? gruLinearCell : gruCell);
}

Outcome evaluateLstm(const Invocation &invocation) {
  Workspace workspace(invocation);
  Layer layer = layerOf(workspace, invocation, 4, {"sigmoid", "tanh", "tanh"});
  layer.c = shaped(workspace, invocation, 6, "initial_c", layer.stateShape());
  layer.peepholes =
      shaped(workspace, invocation, 7, "p", Shape{layer.directions, 3 * layer.hidden});
  const bool coupled = invocation.attributes.integer("input_forget") != 0;
  return run(workspace, invocation, layer, coupled ? lstmCoupledCell : lstmCell);
}

constexpr Entry kEntries[] = {{"rnn", evaluateRnn}, {"gru", evaluateGru}, {"lstm", evaluateLstm}};

} // namespace

std::span<const Entry> recurrentEntries() { return kEntries; }

} // namespace tensmith::reference
