// Operators that have no kernel: evaluated by reference, on the run's own memory.
//
// Operands are lent to the evaluator without a copy. A result may turn out to share an operand's or
// an attribute's memory (a reshape does); it is copied then, since arenas are reused, inputs are
// the caller's and attributes are read-only.
#include "runtime/Interpreter.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

bool inside(const std::byte *data, std::span<const std::byte> range) {
  return data >= range.data() && data < range.data() + range.size();
}

bool sharesMemory(const Module &module, std::span<const HostTensor> operands,
                  const HostTensor &result) {
  if (result.type() == DataType::String || result.bytes() == 0)
    return false;
  return inside(result.data(), module.weights()) ||
         std::any_of(operands.begin(), operands.end(), [&](const HostTensor &operand) {
           return operand.bytes() > 0 &&
                  inside(result.data(), {operand.data(), size_t(operand.bytes())});
         });
}

/// The memory that was set aside for a result, whose size the evaluator may have to tell first.
std::span<std::byte> placeOf(const Frame &frame, uint32_t index) {
  const ValueCode &value = frame.code.values[index];
  if (value.storage != plan::Storage::Arena)
    return {};
  return {placeInArena(frame, value),
          size_t(value.late ? frame.exprs[value.reserved] : bytesOf(frame, index))};
}

/// Operators that ask for their first operand's shape, or hand on its elements by another.
bool looksAtNoElement(std::string_view name) {
  return name == "shape" || name == "size" || name == "reshape" || name == "dynamic_reshape";
}

/// What is known of a result before it is computed.
reference::ResultType expected(const Frame &frame, const Step &step, uint32_t index) {
  const ValueCode &value = frame.code.values[index];
  reference::ResultType type = {value.type, std::nullopt, placeOf(frame, index)};
  if (value.kind != plan::ValueKind::Tensor || !value.ranked)
    return type;
  int32_t time = int32_t(&step - frame.code.steps.data());
  for (uint32_t dim : value.dims)
    if (frame.code.times.exprs[dim] >= time || frame.exprs[dim] < 0)
      return type;
  type.shape.emplace();
  frame.shape(value, *type.shape);
  return type;
}

Result<std::vector<Passed>> evaluateSequence(SequenceEvaluator evaluate,
                                             std::span<const TensorRef> operands,
                                             const RoutineCode &routine) {
  auto result = evaluate(operands, routine.attributes);
  if (!result)
    return result.status();
  // Elements of a sequence are shared with the operands, and may lie in an arena.
  bool keep = (*result)->ownsMemory();
  auto own = keep ? std::move(result) : (*result)->copy();
  if (!own)
    return own.status();
  return std::vector<Passed>{{std::move(*own), !keep}};
}

Result<std::vector<Passed>> keyOf(const Run &run) {
  HostTensor key(DataType::I64, {});
  key.setInt(0, int64_t(run.key));
  auto tensor = fromHostTensor(std::move(key));
  if (!tensor)
    return tensor.status();
  return std::vector<Passed>{{std::move(*tensor), true}};
}

Result<std::vector<Passed>> evaluateTensors(Run &run, Frame &frame, const Step &step,
                                            std::span<const TensorRef> operands,
                                            const RoutineCode &routine) {
  std::vector<HostTensor> lent;
  for (const TensorRef &operand : operands)
    lent.push_back(toHostTensor(operand));
  std::vector<reference::ResultType> types;
  for (uint32_t result : step.results)
    types.push_back(expected(frame, step, result));
  auto results = reference::evaluate({routine.name, routine.attributes, lent, types});
  if (!results)
    return results.status();
  std::vector<Passed> passed;
  for (HostTensor &result :
       std::span(*results).first(std::min(results->size(), step.results.size()))) {
    bool shared = sharesMemory(run.session.module(), lent, result);
    uint32_t index = step.results[passed.size()];
    auto tensor = fromHostTensor(std::move(result));
    if (tensor && shared) // with its operand, whose elements it hasn't looked at
      (*tensor)->setDevice(run.session.memoryOf(frame.code.values[index]));
    if (tensor && shared)
      tensor = (*tensor)->copy();
    if (!tensor)
      return tensor.status();
    passed.push_back({std::move(*tensor), true});
  }
  return passed;
}

Result<std::vector<Passed>> evaluateRoutine(Run &run, Frame &frame, const Step &step,
                                            std::span<const TensorRef> operands,
                                            const RoutineCode &routine) {
  if (routine.name == kRunKey)
    return keyOf(run);
  if (SequenceEvaluator sequence = findSequenceOperator(routine.name))
    return evaluateSequence(sequence, operands, routine);
  return evaluateTensors(run, frame, step, operands, routine);
}

} // namespace

Status executeRoutine(Run &run, Frame &frame, const Step &step) {
  if (Status status = checkTime(); !status.ok())
    return status;
  const RoutineCode &routine = run.session.module().program().routines[step.target];
  std::vector<TensorRef> operands;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    auto operand = operandOf(run, frame, step, i);
    if (!operand)
      return operand.status();
    bool foreign = *operand && (*operand)->device();
    if (foreign && !(i == 0 && looksAtNoElement(routine.name)))
      return {StatusCode::Internal,
              "operand " + std::to_string(i) + " of " + routine.name + " is in a device's memory"};
    operands.push_back(std::move(*operand));
  }
  auto results = evaluateRoutine(run, frame, step, operands, routine);
  if (!results)
    return results.status();
  if (results->size() < step.results.size())
    return {StatusCode::Internal, "operator " + routine.name + " gave " +
                                      std::to_string(results->size()) + " results instead of " +
                                      std::to_string(step.results.size())};
  return storeResults(run, frame, step, std::span(*results).first(step.results.size()));
}

} // namespace tensmith::runtime
