// A loop in its stride: first every value gets its place, then an iteration sets the addresses that
// change, calls the kernels, and copies what no kernel could write where it belongs.
#include "runtime/SteadyLoop.h"

#include "base/Budget.h"

#include <algorithm>
#include <cstring>

namespace tensmith::runtime {
namespace {

constexpr int64_t kFirstRows = 16;    // of what is scanned, where the number is not known
constexpr int64_t kBetweenLooks = 16; // iterations, at the time

bool knownAtEntry(const FunctionCode &code, const ValueCode &value) {
  return value.ranked && std::all_of(value.dims.begin(), value.dims.end(), [&](uint32_t dim) {
           return code.times.exprs[dim] == kAtEntry;
         });
}

/// A kernel, a view or a join whose results are tensors of sizes that don't change.
bool isSteadyStep(const FunctionCode &code, const Step &step) {
  if (step.opcode == plan::Opcode::View || step.opcode == plan::Opcode::Join)
    return true;
  if (step.opcode == plan::Opcode::Check)
    return step.settled;
  return step.opcode == plan::Opcode::Kernel && !step.lateSizes &&
         std::all_of(step.results.begin(), step.results.end(),
                     [&](uint32_t result) { return knownAtEntry(code, code.values[result]); });
}

bool isNumbers(const TensorRef &tensor) {
  return tensor->kind() == TensorKind::Tensor && tensor->type() != DataType::String;
}

/// Whether the next iteration's arguments are as the frame's last ones were.
bool isAsBound(const Frame &body, const LoopState &state) {
  Shape shape;
  for (size_t i = 0; i < state.arguments.size(); ++i) {
    const ValueCode &param = body.code.values[body.code.params[i]];
    const TensorRef &argument = state.arguments[i].tensor;
    if (param.kind != plan::ValueKind::Tensor || !param.ranked || !isNumbers(argument))
      return false;
    body.shape(param, shape);
    if (argument->type() != param.type || argument->shape() != shape)
      return false;
  }
  return true;
}

/// A carried value: iteration k writes places[k % 2], which the next reads.
struct Carried {
  uint32_t param, result;
  bool direct = false; // its kernel writes there; else it is copied
  TensorRef places[2];

  bool changes() const { return param != result; }
};

/// A scanned value: iteration k writes row k.
struct Scanned {
  uint32_t result;
  bool direct = false;
  TensorRef rows; // of as many as there is room for
  int64_t rowBytes = 0, count = 0;

  std::byte *next() const { return rows->data() + count * rowBytes; }

  /// Makes room for `capacity` rows of the shape; keeps those there are.
  Status reserve(DataType type, const Shape &row, int64_t capacity) {
    Shape shape = {capacity};
    shape.insert(shape.end(), row.begin(), row.end());
    auto larger = Tensor::create(type, shape);
    if (!larger)
      return larger.status();
    if (count * rowBytes)
      std::memcpy((*larger)->data(), rows->data(), size_t(count * rowBytes));
    rows = std::move(*larger);
    return {};
  }
};

class SteadyLoop {
public:
  SteadyLoop(Run &run, Frame &body, const Step &loop, int64_t trips, LoopState &state)
      : run_(run), body_(body), loop_(loop), trips_(trips), state_(state) {}

  Status finish() {
    for (Status (SteadyLoop::*step)() :
         {&SteadyLoop::place, &SteadyLoop::placeCarried, &SteadyLoop::placeScanned,
          &SteadyLoop::iterate, &SteadyLoop::handOver})
      if (Status status = (this->*step)(); !status.ok())
        return status;
    return {};
  }

private:
  uint32_t result(size_t index) const { return body_.code.results[index]; }
  const ValueCode &value(uint32_t index) const { return body_.code.values[index]; }

  Result<TensorRef> create(uint32_t index) {
    Shape shape;
    body_.shape(value(index), shape);
    return Tensor::create(value(index).type, shape);
  }

  /// What the iterations share: the counter, the condition, and results without a place.
  Status place() {
    auto number = Tensor::create(DataType::I64, {}), condition = Tensor::create(DataType::Bool, {});
    if (!number || !condition)
      return number ? condition.status() : number.status();
    *(*condition)->data() = std::byte(1);
    number_ = (*number)->data();
    body_.setAddress(body_.code.params[0], number_);
    body_.setAddress(body_.code.params[1], (*condition)->data());
    own_ = {std::move(*number), std::move(*condition)};
    for (const Step &step : body_.code.steps)
      for (uint32_t index : step.results) {
        if (step.opcode != plan::Opcode::Kernel || fixedAddress(value(index)))
          continue;
        auto tensor = create(index);
        if (!tensor)
          return tensor.status();
        body_.setAddress(index, (*tensor)->data());
        own_.push_back(std::move(*tensor));
        movable_.push_back(index);
      }
    return {};
  }

  /// Whether a kernel writes the value, wherever it is told to, and nobody has told it so far.
  bool claim(uint32_t index) {
    auto it = std::find(movable_.begin(), movable_.end(), index);
    if (it == movable_.end())
      return false;
    movable_.erase(it);
    return true;
  }

  Status placeCarried() {
    for (size_t i = 0; i < loop_.carried; ++i) {
      Carried carried{body_.code.params[2 + i], result(1 + i), false, {}};
      const TensorRef &argument = state_.arguments[2 + i].tensor;
      body_.setAddress(carried.param, argument->data());
      carried.direct = carried.changes() && claim(carried.result);
      for (TensorRef &place : carried.places) {
        auto tensor = carried.changes() ? create(carried.param) : Result<TensorRef>(argument);
        if (!tensor)
          return tensor.status();
        place = std::move(*tensor);
      }
      carried_.push_back(std::move(carried));
    }
    return {};
  }

  Status placeScanned() {
    // A condition that is handed on, or a constant, says nothing new.
    uint32_t condition = result(0);
    bool runsOut =
        condition == body_.code.params[1] || value(condition).storage == plan::Storage::Constant;
    capacity_ = runsOut ? trips_ : std::min(trips_, kFirstRows);
    for (size_t i = 0; i < state_.scanned.size(); ++i) {
      const TensorRef &first = state_.scanned[i].front();
      Scanned scanned{result(1 + loop_.carried + i), false, {}, first->bytes(), 0};
      if (Status status = scanned.reserve(first->type(), first->shape(), capacity_); !status.ok())
        return status;
      if (first->bytes())
        std::memcpy(scanned.next(), first->data(), size_t(first->bytes()));
      scanned.count = 1;
      scanned.direct = scanned.rowBytes % kAlignment == 0 && claim(scanned.result);
      scanned_.push_back(std::move(scanned));
    }
    return {};
  }

  Status makeRoom() {
    if (scanned_.empty() || scanned_.front().count < capacity_)
      return {};
    capacity_ = std::min(trips_, 2 * capacity_);
    for (size_t i = 0; i < scanned_.size(); ++i) {
      const TensorRef &first = state_.scanned[i].front();
      if (Status status = scanned_[i].reserve(first->type(), first->shape(), capacity_);
          !status.ok())
        return status;
    }
    return {};
  }

  Status iterate() {
    for (; state_.iteration < trips_ && state_.holds; ++state_.iteration) {
      if (state_.iteration % kBetweenLooks == 0)
        if (Status status = checkTime(); !status.ok())
          return status;
      if (Status status = makeRoom(); !status.ok())
        return status;
      aim();
      if (Status status = callSteps(run_, body_); !status.ok())
        return status;
      collect();
    }
    return {};
  }

  size_t turn() const { return size_t(state_.iteration % 2); }

  /// Tells the kernels where this iteration's results go.
  void aim() {
    std::memcpy(number_, &state_.iteration, sizeof state_.iteration);
    for (const Carried &carried : carried_)
      if (carried.direct)
        body_.setAddress(carried.result, carried.places[turn()]->data());
    for (const Scanned &scanned : scanned_)
      if (scanned.direct)
        body_.setAddress(scanned.result, scanned.next());
  }

  void copyTo(std::byte *target, uint32_t index, int64_t bytes) const {
    if (bytes)
      std::memcpy(target, body_.slots[index].data, size_t(bytes));
  }

  void collect() {
    for (const Carried &carried : carried_)
      if (carried.changes() && !carried.direct)
        copyTo(carried.places[turn()]->data(), carried.result, carried.places[0]->bytes());
    for (Scanned &scanned : scanned_) {
      if (!scanned.direct)
        copyTo(scanned.next(), scanned.result, scanned.rowBytes);
      ++scanned.count;
    }
    state_.holds = *body_.slots[result(0)].data != std::byte(0);
    // Only now, as results may be what other values were before.
    for (const Carried &carried : carried_)
      if (carried.changes())
        body_.setAddress(carried.param, carried.places[turn()]->data());
  }

  Status handOver() {
    size_t last = size_t((state_.iteration - 1) % 2);
    for (size_t i = 0; i < carried_.size(); ++i)
      if (carried_[i].changes())
        state_.arguments[2 + i] = {carried_[i].places[last], true};
    for (size_t i = 0; i < scanned_.size(); ++i) {
      Scanned &scanned = scanned_[i];
      const TensorRef &first = state_.scanned[i].front();
      if (scanned.count < scanned.rows->shape()[0])
        if (Status status = scanned.reserve(first->type(), first->shape(), scanned.count);
            !status.ok())
          return status;
      state_.stacked.push_back(std::move(scanned.rows));
    }
    return {};
  }

  Run &run_;
  Frame &body_;
  const Step &loop_;
  int64_t trips_, capacity_ = 0;
  LoopState &state_;
  std::byte *number_ = nullptr;
  std::vector<TensorRef> own_;
  std::vector<uint32_t> movable_;
  std::vector<Carried> carried_;
  std::vector<Scanned> scanned_;
};

} // namespace

bool isSteady(const Run &run, const Frame &body, const LoopState &state) {
  const FunctionCode &code = body.code;
  // What lies on a device can't be copied here.
  return !run.profile && !run.watch.any() && !run.session.hasDevices() &&
         std::all_of(code.steps.begin(), code.steps.end(),
                     [&](const Step &step) { return isSteadyStep(code, step); }) &&
         std::all_of(state.scanned.begin(), state.scanned.end(),
                     [](const auto &rows) { return isNumbers(rows.front()); }) &&
         code.values[code.results[0]].type == DataType::Bool && isAsBound(body, state);
}

Status finishSteadily(Run &run, Frame &body, const Step &loop, int64_t trips, LoopState &state) {
  return SteadyLoop(run, body, loop, trips, state).finish();
}

} // namespace tensmith::runtime
