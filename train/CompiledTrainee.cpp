// Ports by their names: what is a state, what a batch feeds, what the results are.
//
// A state's tensor is given to a run as its input and as its output, which updates it in place.
#include "train/CompiledTrainee.h"

#include "files/Failure.h"
#include "files/Words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace tensmith::train {
namespace {

std::set<size_t> stateInputs(const Module &step) {
  std::set<size_t> inputs;
  for (size_t i = 0; i < ts_module_state_count(step.handle()); ++i)
    inputs.insert(ts_module_state(step.handle(), i).input);
  return inputs;
}

int64_t sizeOf(const Port &port, size_t dim, const std::string &model) {
  const std::string &text = port.dims[dim];
  int64_t size = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size())
    fail(model, fmt::format("dimension {} of '{}' is open ('{}'); fix it with --shape {}=...", dim,
                            printable(port.name), printable(text), printable(text)));
  return size;
}

int indexOf(const std::vector<Port> &ports, const std::string &name) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name)
      return int(i);
  return -1;
}

template <typename T> std::span<T> elements(const Tensor &tensor) {
  return {tensor.as<T>(), size_t(tensor.size())};
}

Session sessionOf(const Module &module, int threads) {
  return Session(module, {.threads = threads, .timeLimit = -1, .seed = 0}); // of scores
}

/// A tensor of the first samples alone.
Tensor firstOf(const Tensor &tensor, int64_t samples) {
  std::vector<int64_t> shape = tensor.shape();
  shape[0] = samples;
  Tensor part(tensor.type(), shape);
  if (int64_t bytes = view(part).bytes())
    std::memcpy(part.data(), tensor.data(), size_t(bytes));
  return part;
}

} // namespace

HostTensor view(const Tensor &tensor) {
  return HostTensor(DataType(tensor.type()), tensor.shape(), tensor.data(), nullptr);
}

bool isBuiltIn(const std::string &loss) {
  return loss == "cross_entropy" || loss == "mean_squared_error";
}

std::vector<FeedPort> feedPorts(const Module &step, int64_t batch, const std::string &model) {
  std::set<size_t> states = stateInputs(step);
  std::vector<Port> inputs = step.inputs();
  std::vector<FeedPort> ports;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port &input = inputs[i];
    if (states.contains(i))
      continue;
    if (input.kind != TS_TENSOR || !input.ranked || input.dims.empty())
      fail(model, "input '" + printable(input.name) + "' has no dimension for the samples");
    Shape shape;
    for (size_t dim = 0; dim < input.dims.size(); ++dim)
      shape.push_back(sizeOf(input, dim, model));
    if (shape[0] != batch)
      fail(model, fmt::format("input '{}' takes {} samples at a time, but a batch has {}; say "
                              "--batch {}",
                              printable(input.name), shape[0], batch, shape[0]));
    ports.push_back({input.name, DataType(input.type), Shape(shape.begin() + 1, shape.end())});
  }
  return ports;
}

std::vector<std::string> parameterNames(const Module &step) {
  std::vector<std::string> names;
  for (size_t i = 0; i < ts_module_state_count(step.handle()); ++i)
    if (ts_state state = ts_module_state(step.handle(), i); state.kind == TS_STATE_PARAMETER)
      names.emplace_back(state.name);
  return names;
}

CompiledTrainee::CompiledTrainee(const Module &step, const Module &forward,
                                 const Settings &settings)
    : session_(sessionOf(step, int(settings.threads))), averages_(settings.emaDecay > 0),
      model_(settings.model), loss_(settings.loss),
      forward_(sessionOf(forward, int(settings.threads))), threads_(int(settings.threads)) {
  placeStates(step);
  std::vector<Port> outputs = step.outputs();
  int loss = indexOf(outputs, isBuiltIn(loss_) ? "loss" : loss_);
  if (loss < 0)
    loss = indexOf(outputs, "loss");
  if (loss < 0)
    fail(model_, "the step has no output for the loss");
  lossAt_ = size_t(loss);
  correctAt_ = isBuiltIn(loss_) ? indexOf(outputs, "correct") : -1;
  placeForward(forward);
  int scores = indexOf(forward.outputs(), isBuiltIn(loss_) ? settings.of : loss_);
  scoresAt_ = scores < 0 ? 0 : size_t(scores);
  if (loss_ == "cross_entropy") {
    Port port = forward.outputs().at(scoresAt_);
    if (port.dims.size() < 2)
      fail(model_, "cross entropy needs scores [samples, classes, ...], but '" +
                       printable(port.name) + "' is not");
    classes_ = sizeOf(port, 1, model_);
  }
}

void CompiledTrainee::placeStates(const Module &step) {
  inputs_.resize(step.inputs().size());
  outputs_.resize(step.outputs().size());
  for (size_t i = 0; i < ts_module_state_count(step.handle()); ++i) {
    ts_state state = ts_module_state(step.handle(), i);
    ts_tensor *initial = nullptr;
    detail::check(ts_module_state_initial(step.handle(), i, &initial));
    states_.push_back({state.name, state.kind, state.input, state.output, Tensor(initial)});
    inputs_[state.input] = states_.back().tensor;
    if (state.output != TS_NO_OUTPUT)
      outputs_[state.output] = states_.back().tensor;
  }
  std::set<size_t> states = stateInputs(step);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!states.contains(i)) {
      fed_.push_back(i);
      fedNames_.push_back(step.inputs()[i].name);
    }
  auto target = std::ranges::find(fedNames_, kTarget);
  target_ = target == fedNames_.end() ? -1 : int(target - fedNames_.begin());
}

void CompiledTrainee::placeForward(const Module &forward) {
  forwardInputs_ = forward.inputs();
  for (const Port &port : forwardInputs_) {
    bool known = std::ranges::find(fedNames_, port.name) != fedNames_.end() ||
                 std::ranges::any_of(states_, [&](const State &s) { return s.name == port.name; });
    if (!known)
      fail(model_, "nothing feeds the model's input '" + printable(port.name) + "'");
  }
}

void CompiledTrainee::feed(const Batch &batch) {
  for (size_t i = 0; i < fed_.size(); ++i)
    inputs_[fed_[i]] = batch.tensors[i];
}

void CompiledTrainee::runTraced(const Session &session, const char *what,
                                const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
                                std::function<void(size_t)> written) {
  std::string json;
  auto begin = Processes::Clock::now();
  bool traced = !traceFile_.empty() && traced_ == kTracedStep;
  session.run(inputs, outputs, {std::move(written), traced ? &json : nullptr});
  if (traced)
    trace_.addRun(what, begin, json);
}

void CompiledTrainee::finishTrace(const std::vector<Processes::Span> &sent) {
  if (traceFile_.empty() || traced_++ != kTracedStep)
    return;
  trace_.addSent(sent);
  trace_.write(traceFile_, model_);
  traceFile_.clear();
}

int64_t CompiledTrainee::counted(const Batch &batch) const {
  if (correctAt_ < 0 || target_ < 0)
    return -1;
  return std::ranges::count_if(elements<int64_t>(batch.tensors[size_t(target_)]),
                               [](int64_t target) { return target >= 0; });
}

Score CompiledTrainee::step(const Batch &batch) {
  feed(batch);
  runTraced(session_, "step", inputs_, outputs_, {});
  finishTrace({});
  Score score = {view(outputs_[lossAt_]).getDouble(0), {}};
  if (int64_t count = counted(batch); count >= 0)
    score.accuracy =
        view(outputs_[size_t(correctAt_)]).getDouble(0) / double(std::max<int64_t>(1, count));
  return score;
}

void CompiledTrainee::evaluateRestsBy(const Module &rest) { rest_ = sessionOf(rest, threads_); }

Score CompiledTrainee::evaluate(const Batch &batch) {
  bool isRest = !isBuiltIn(loss_) && batch.rows < batch.tensors.at(0).shape()[0];
  if (isRest && !rest_)
    return {0, {}, 0.0};
  std::map<std::string, Tensor> given = parameters();
  for (size_t i = 0; i < fed_.size(); ++i)
    given[fedNames_[i]] = isRest ? firstOf(batch.tensors[i], batch.rows) : batch.tensors[i];
  std::vector<Tensor> inputs;
  for (const Port &port : forwardInputs_)
    inputs.push_back(given[port.name]);
  Tensor scores = (isRest ? *rest_ : forward_).run(inputs)[scoresAt_];
  if (loss_ == "cross_entropy")
    return crossEntropy(scores, batch.tensors[size_t(target_)], batch.rows);
  if (loss_ == "mean_squared_error")
    return squaredError(scores, batch.tensors[size_t(target_)], batch.rows);
  return {view(scores).getDouble(0), {}};
}

/// scores [samples, classes, ...], targets [samples, ...], of which negative ones don't count.
Score CompiledTrainee::crossEntropy(const Tensor &scores, const Tensor &target,
                                    int64_t rows) const {
  HostTensor values = view(scores);
  auto targets = elements<int64_t>(target);
  int64_t samples = target.shape()[0], places = int64_t(targets.size()) / samples;
  double loss = 0, correct = 0, counted = 0;
  for (int64_t place = 0; place < rows * places; ++place) {
    int64_t wanted = targets[size_t(place)];
    if (wanted < 0)
      continue;
    int64_t first = place / places * classes_ * places + place % places, best = 0;
    auto at = [&](int64_t c) { return values.getDouble(first + c * places); };
    for (int64_t c = 1; c < classes_; ++c)
      best = at(c) > at(best) ? c : best;
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c)
      sum += std::exp(at(c) - at(best));
    loss += std::log(sum) + at(best) - at(wanted);
    correct += best == wanted;
    ++counted;
  }
  double least = std::max(counted, 1.0);
  return {loss / least, correct / least, counted};
}

Score CompiledTrainee::squaredError(const Tensor &values, const Tensor &target,
                                    int64_t rows) const {
  HostTensor is = view(values), wanted = view(target);
  int64_t count = is.size() / std::max<int64_t>(1, target.shape()[0]) * rows;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::pow(is.getDouble(i) - wanted.getDouble(i), 2);
  return {sum / double(std::max<int64_t>(1, count)), {}};
}

CompiledTrainee::State &CompiledTrainee::stateOf(const std::string &name) {
  auto found = std::ranges::find(states_, name, &State::name);
  if (found == states_.end())
    fail(model_, "the step has no state '" + printable(name) + "'");
  return *found;
}

void CompiledTrainee::replace(State &state, Tensor tensor) {
  if (int64_t bytes = view(tensor).bytes())
    std::memcpy(tensor.data(), state.tensor.data(), size_t(bytes));
  state.tensor = tensor;
  inputs_[state.input] = tensor;
  if (state.output != TS_NO_OUTPUT)
    outputs_[state.output] = tensor;
}

std::vector<NamedTensor> CompiledTrainee::states() {
  std::vector<NamedTensor> views;
  for (const State &state : states_)
    views.push_back({state.name, view(state.tensor)});
  return views;
}

void takeOver(const std::vector<NamedTensor> &from, const std::vector<NamedTensor> &into,
              const std::string &where) {
  std::map<std::string, const HostTensor *> byName;
  for (const NamedTensor &state : from)
    byName[state.name] = &state.tensor;
  for (const NamedTensor &state : into) {
    auto found = byName.find(state.name);
    if (found == byName.end())
      fail(where, "has no '" + printable(state.name) + "'; it is of another model or optimiser");
    const HostTensor &given = *found->second;
    if (given.type() != state.tensor.type() || given.shape() != state.tensor.shape())
      fail(where, "has '" + printable(state.name) +
                      "' in another type or shape; it is of another "
                      "model");
    if (given.bytes())
      std::memcpy(const_cast<std::byte *>(state.tensor.data()), given.data(),
                  size_t(given.bytes()));
    byName.erase(found);
  }
  if (!byName.empty())
    fail(where, "has '" + printable(byName.begin()->first) +
                    "', which nothing takes; it is of another model or optimiser");
}

void CompiledTrainee::restore(const std::vector<NamedTensor> &states, const std::string &where) {
  takeOver(states, CompiledTrainee::states(), where);
}

std::map<std::string, Tensor> CompiledTrainee::tensors() {
  std::map<std::string, Tensor> result;
  for (const State &state : states_)
    result[state.name] = state.tensor;
  return result;
}

std::map<std::string, Tensor> CompiledTrainee::parameters() {
  std::map<std::string, Tensor> slots, result;
  for (const State &state : states_)
    if (averages_ && state.kind == TS_STATE_SLOT)
      slots[state.name] = state.tensor;
  for (const State &state : states_) {
    auto average = slots.find("ema." + state.name);
    result[state.name] = average == slots.end() ? state.tensor : average->second;
  }
  return result;
}

int64_t CompiledTrainee::parameterCount() const {
  std::set<std::string> names;
  int64_t count = 0;
  for (const Port &port : forwardInputs_)
    names.insert(port.name);
  for (const State &state : states_)
    if (names.contains(state.name))
      count += state.tensor.size();
  return count;
}

} // namespace tensmith::train
