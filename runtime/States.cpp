// The order that updates in place need, and which tensors of a call may be one; see States.h.
#include "runtime/States.h"

#include "base/HostTensor.h"
#include "runtime/Module.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tensmith::runtime {
namespace {

constexpr uint64_t kZeros = UINT64_MAX;
constexpr uint32_t kReadAlone = UINT32_MAX; // in an output's place
constexpr uint64_t kAlignment = 64;

template <typename T> uint32_t sizeOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

/// The shape of a value whose dimensions are constants; nothing where they are not, or are too
/// large.
std::optional<Shape> constantShape(const plan::Function &main, const plan::Value &value) {
  Shape shape;
  for (uint32_t i = 0; i < sizeOf(value.dims()); ++i) {
    const plan::Expr *expr = main.exprs()->Get(value.dims()->Get(i));
    if (expr->kind() != plan::ExprKind::Constant || expr->a() < 0)
      return std::nullopt;
    shape.push_back(expr->a());
  }
  auto count = elementCount(shape);
  int64_t bytes;
  if (!count || __builtin_mul_overflow(*count, byteSize(DataType(value.type())), &bytes))
    return std::nullopt;
  return shape;
}

bool isPlain(const plan::Value &value) {
  return value.kind() == plan::ValueKind::Tensor && value.ranked() && value.type() != 0 &&
         DataType(value.type()) != DataType::String;
}

/// When the values of the main function are read and computed; a view counts as what it looks at.
class Order {
public:
  explicit Order(const plan::Function &main)
      : main_(main), roots_(sizeOf(main.values())), lastReads_(roots_.size(), -1),
        writers_(roots_.size(), -1) {
    for (uint32_t i = 0; i < roots_.size(); ++i)
      roots_[i] = i;
    for (uint32_t i = 0; i < sizeOf(main.instructions()); ++i)
      add(i, *main.instructions()->Get(i));
    for (uint32_t i = 0; i < sizeOf(main.results()); ++i)
      read(main.results()->Get(i), sizeOf(main.instructions()));
  }

  /// Whether a kernel computes the output, and nothing after it reads what is written over.
  std::string fault(uint32_t input, uint32_t output) const {
    int64_t writer = writers_[output], end = sizeOf(main_.instructions());
    if (writer < 0)
      return "is never written over";
    if (main_.instructions()->Get(uint32_t(writer))->opcode() != plan::Opcode::Kernel)
      return "is written over by what is no kernel";
    if (lastCheck_ > writer)
      return "is written over before a check that may fail";
    if (lastReads_[input] == end)
      return "is handed out after it is written over";
    return lastReads_[input] > writer ? "is read after it is written over" : "";
  }

private:
  void read(uint32_t value, int64_t when) {
    if (value < roots_.size())
      lastReads_[roots_[value]] = when;
  }
  void add(uint32_t number, const plan::Instruction &instruction) {
    const auto *operands = instruction.operands(), *results = instruction.results();
    if (instruction.opcode() == plan::Opcode::Check)
      lastCheck_ = number;
    for (uint32_t i = 0; i < sizeOf(operands); ++i)
      read(operands->Get(i), number);
    bool isView = instruction.opcode() == plan::Opcode::View && sizeOf(operands) > 0 &&
                  operands->Get(0) < roots_.size();
    for (uint32_t i = 0; i < sizeOf(results); ++i) {
      uint32_t result = results->Get(i);
      if (result >= roots_.size())
        continue;
      writers_[result] = number;
      if (isView)
        roots_[result] = roots_[operands->Get(0)];
    }
  }

  const plan::Function &main_;
  std::vector<uint32_t> roots_;
  std::vector<int64_t> lastReads_, writers_; // instructions; reads by root
  int64_t lastCheck_ = -1;
};

std::string verifyState(const plan::Module &module, const plan::State &state, uint64_t weightsBytes,
                        const Order &order) {
  const plan::Function &main = *module.functions()->Get(0);
  if (!state.name() || state.kind() > plan::StateKind::MAX)
    return "it has no name, or is of an unknown kind";
  bool updated = state.output() != kReadAlone;
  if (state.input() >= sizeOf(main.params()) ||
      (updated && state.output() >= sizeOf(main.results())))
    return "it is no input or no output";
  uint32_t from = main.params()->Get(state.input()),
           to = updated ? main.results()->Get(state.output()) : from;
  const plan::Value &input = *main.values()->Get(from), &output = *main.values()->Get(to);
  if (!isPlain(input) || !isPlain(output) || input.type() != output.type())
    return "its input and output are no tensors of one type";
  auto shape = constantShape(main, input);
  if (!shape || shape != constantShape(main, output))
    return "its input and output are not of one constant shape";
  uint64_t bytes = uint64_t(*elementCount(*shape) * byteSize(DataType(input.type())));
  if (state.initial() != kZeros &&
      (state.initial() % kAlignment || state.initial() > weightsBytes ||
       bytes > weightsBytes - state.initial()))
    return "its initial value lies outside the weights";
  if (!state.in_place())
    return "";
  if (!updated || output.storage() != plan::Storage::Result)
    return "its output has no memory of the caller's, and so can't take its input's place";
  std::string fault = order.fault(from, to);
  return fault.empty() ? "" : "its input " + fault;
}

/// The memory of a tensor of a call: number `input` or `output` of them, the other is -1.
struct Range {
  const std::byte *begin, *end;
  int64_t input = -1, output = -1;
};

void addRange(std::vector<Range> &ranges, const Tensor *tensor, int64_t input, int64_t output) {
  if (!tensor)
    return;
  if (tensor->kind() == TensorKind::Sequence || tensor->kind() == TensorKind::Map) {
    for (const TensorRef &element : tensor->elements())
      addRange(ranges, element.get(), input, output);
    return;
  }
  if (int64_t bytes = tensor->bytes(); bytes > 0)
    ranges.push_back({tensor->data(), tensor->data() + bytes, input, output});
}

/// Piece by piece, so that large parameters are never in memory twice.
void copyAndRelease(const Module &module, std::span<const std::byte> from, std::byte *to) {
  constexpr size_t kPiece = size_t(4) << 20;
  for (size_t at = 0; at < from.size(); at += kPiece) {
    auto piece = from.subspan(at, std::min(kPiece, from.size() - at));
    std::memcpy(to + at, piece.data(), piece.size());
    module.releaseWeights(piece);
  }
}

/// The input that each output updates in place, or -1.
std::vector<int64_t> updatedInputs(const plan::Module &plan, size_t outputs) {
  std::vector<int64_t> result(outputs, -1);
  for (uint32_t i = 0; i < sizeOf(plan.states()); ++i)
    if (const plan::State *state = plan.states()->Get(i); state->in_place())
      result[state->output()] = state->input();
  return result;
}

/// Whether the two are the tensor of a state that is updated in place.
bool isUpdate(std::span<const int64_t> updated, std::span<const Range> group) {
  if (group.size() != 2 || group[0].begin != group[1].begin || group[0].end != group[1].end)
    return false;
  int64_t input = std::max(group[0].input, group[1].input),
          output = std::max(group[0].output, group[1].output);
  return input >= 0 && output >= 0 && updated[size_t(output)] == input;
}

} // namespace

std::string verifyStates(const plan::Module &module, uint64_t weightsBytes) {
  if (sizeOf(module.states()) == 0)
    return "";
  Order order(*module.functions()->Get(0));
  std::set<uint32_t> inputs, outputs;
  for (uint32_t i = 0; i < sizeOf(module.states()); ++i) {
    const plan::State &state = *module.states()->Get(i);
    std::string fault = verifyState(module, state, weightsBytes, order);
    if (fault.empty() && (!inputs.insert(state.input()).second ||
                          (state.output() != kReadAlone && !outputs.insert(state.output()).second)))
      fault = "it shares its input or output with another state";
    if (!fault.empty())
      return "state " + std::to_string(i) + ": " + fault;
  }
  return {};
}

Result<TensorRef> initialValue(const Module &module, const plan::State &state) {
  const plan::Function &main = *module.plan().functions()->Get(0);
  const plan::Value &value = *main.values()->Get(main.params()->Get(state.input()));
  auto tensor = Tensor::create(DataType(value.type()), *constantShape(main, value));
  if (!tensor)
    return tensor.status();
  auto bytes = size_t((*tensor)->bytes());
  if (bytes && state.initial() == kZeros)
    std::memset((*tensor)->data(), 0, bytes);
  else if (bytes)
    copyAndRelease(module, module.weights().subspan(state.initial(), bytes), (*tensor)->data());
  return tensor;
}

std::vector<Tensor *> directDestinations(const Module &module, std::span<const TensorRef> inputs,
                                         std::span<Tensor *const> destinations) {
  std::vector<Tensor *> result(destinations.begin(), destinations.end());
  if (std::all_of(result.begin(), result.end(), [](Tensor *tensor) { return !tensor; }))
    return result;
  std::vector<int64_t> updated = updatedInputs(module.plan(), result.size());
  std::vector<Range> ranges;
  for (size_t i = 0; i < inputs.size(); ++i)
    addRange(ranges, inputs[i].get(), int64_t(i), -1);
  for (size_t i = 0; i < result.size(); ++i)
    addRange(ranges, result[i], -1, int64_t(i));
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  // Ranges that meet, directly or by way of others, stand side by side.
  for (size_t first = 0, last; first < ranges.size(); first = last) {
    const std::byte *end = ranges[first].end;
    for (last = first + 1; last < ranges.size() && ranges[last].begin < end; ++last)
      end = std::max(end, ranges[last].end);
    std::span group(ranges.data() + first, last - first);
    if (group.size() == 1 || isUpdate(updated, group))
      continue;
    for (const Range &range : group)
      if (range.output >= 0)
        result[size_t(range.output)] = nullptr;
  }
  return result;
}

} // namespace tensmith::runtime
