// From arguments to a frame that is ready to run: kinds, types and ranks are checked each time;
// what follows from the shapes is computed only when they differ from the last run's.
#include "base/ShapeHints.h"
#include "runtime/Device.h"
#include "runtime/Interpreter.h"
#include "runtime/Launches.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

const char *kindName(plan::ValueKind kind) {
  switch (kind) {
  case plan::ValueKind::Tensor:
    return "tensor";
  case plan::ValueKind::Sequence:
    return "sequence";
  case plan::ValueKind::Optional:
    return "optional value";
  case plan::ValueKind::Object:
    return "value of a data type";
  case plan::ValueKind::Map:
    return "map";
  default:
    return "none";
  }
}

bool fits(plan::ValueKind kind, TensorKind given) {
  switch (kind) {
  case plan::ValueKind::Tensor:
    return given == TensorKind::Tensor;
  case plan::ValueKind::Sequence:
    return given == TensorKind::Sequence;
  case plan::ValueKind::Optional:
    return true;
  case plan::ValueKind::Object:
    return given == TensorKind::Data || given == TensorKind::Function;
  case plan::ValueKind::Map:
    return given == TensorKind::Map;
  default:
    return given == TensorKind::None;
  }
}

std::string textOf(const Device *device) {
  return device ? "the device '" + nameOf(*device) + "'" : "the host";
}

/// "input 'x'" of main, "parameter 'x'" of a function that control flow calls.
std::string nameOf(const Module &module, const FunctionCode &code, size_t index) {
  bool main = &code == &module.program().functions[0];
  const ValueCode &value = code.values[code.params[index]];
  std::string name =
      main ? module.plan().inputs()->Get(uint32_t(index))->name()->str() : std::string(value.name);
  return (main ? "input '" : "parameter '") + name + "'";
}

Status mismatch(const Module &module, const FunctionCode &code, size_t index, const Tensor &tensor,
                const std::string &why) {
  const ValueCode &value = code.values[code.params[index]];
  return invalidArgument(nameOf(module, code, index) + ": expected " + declaredType(code, value) +
                         ", got " + describe(tensor) + (why.empty() ? "" : ": " + why));
}

bool isTensor(const ValueCode &value) {
  return value.kind == plan::ValueKind::Tensor && value.ranked;
}

/// What would make the tensor fit; of sizes that are fixed.
std::string hintFor(const FunctionCode &code, const ValueCode &value, const Tensor &tensor) {
  std::vector<int64_t> expected;
  for (uint32_t dim : value.dims) {
    const plan::Expr &expr = code.exprs[dim];
    expected.push_back(expr.kind() == plan::ExprKind::Constant ? expr.a() : kOpenSize);
  }
  return shapeHint(expected, tensor.shape());
}

Status checkArgument(const Session &session, const FunctionCode &code, size_t index,
                     const Passed &argument) {
  const Module &module = session.module();
  const ValueCode &value = code.values[code.params[index]];
  if (!argument.tensor)
    return invalidArgument(nameOf(module, code, index) + ": no tensor was given");
  const Tensor &tensor = *argument.tensor;
  if (!fits(value.kind, tensor.kind()))
    return mismatch(module, code, index, tensor,
                    std::string("it must be a ") + kindName(value.kind));
  if (tensor.kind() != TensorKind::Tensor || value.kind != plan::ValueKind::Tensor)
    return {};
  Device *memory = session.memoryOf(value);
  if (value.ranked && tensor.device() != memory && &code != &module.program().functions[0])
    return {StatusCode::Internal, nameOf(module, code, index) + ": is in another memory"};
  if (value.ranked && tensor.device() != memory)
    return invalidArgument(nameOf(module, code, index) + ": it must lie in the memory of " +
                           textOf(memory) + ", and lies in that of " + textOf(tensor.device()) +
                           "; ts_tensor_copy_to copies it");
  if (value.type != DataType::Undefined && value.type != tensor.type())
    return mismatch(module, code, index, tensor,
                    "the element type differs; convert it to " + std::string(name(value.type)));
  if (value.ranked && value.dims.size() != tensor.shape().size())
    return mismatch(module, code, index, tensor,
                    "it must have " + std::to_string(value.dims.size()) + " dimensions" +
                        hintFor(code, value, tensor));
  return {};
}

/// Whether the key is that of these arguments; made so if not.
bool sameKey(Frame &frame, std::span<const Passed> arguments, std::span<const int64_t> given) {
  const FunctionCode &code = frame.code;
  size_t position = 0;
  bool same = frame.resolved;
  auto put = [&](int64_t value) {
    if (position == frame.key.size())
      frame.key.push_back(value), same = false;
    else if (frame.key[position] != value)
      frame.key[position] = value, same = false;
    ++position;
  };
  for (int64_t value : given)
    put(value);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (isTensor(code.values[code.params[i]]))
      for (int64_t dim : arguments[i].tensor->shape())
        put(dim);
  return same;
}

Status bindSymbols(const Module &module, Frame &frame, std::span<const Passed> arguments,
                   std::span<const int64_t> given) {
  const FunctionCode &code = frame.code;
  std::fill(frame.symbols.begin(), frame.symbols.end(), kPoison);
  std::copy(given.begin(), given.end(), frame.symbols.begin());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ValueCode &value = code.values[code.params[i]];
    for (size_t j = 0; isTensor(value) && j < value.dims.size(); ++j) {
      const plan::Expr &expr = code.exprs[value.dims[j]];
      if (expr.kind() == plan::ExprKind::Symbol && frame.symbols[size_t(expr.a())] == kPoison)
        frame.symbols[size_t(expr.a())] = arguments[i].tensor->shape()[j];
    }
  }
  auto computeSizes = [&] {
    for (uint32_t expr : code.entryExprs)
      frame.exprs[expr] = evaluate(code.exprs[expr], frame.symbols.data(), frame.exprs.data());
  };
  computeSizes();
  if (!code.buffers.empty()) {
    placeBuffers(frame);
    computeSizes(); // what follows from the places, too
  }
  return {};
}

Status checkDims(const Module &module, const Frame &frame, std::span<const Passed> arguments) {
  const FunctionCode &code = frame.code;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ValueCode &value = code.values[code.params[i]];
    for (size_t j = 0; isTensor(value) && j < value.dims.size(); ++j) {
      int64_t expected = frame.dim(value, j), actual = arguments[i].tensor->shape()[j];
      if (expected == actual)
        continue;
      std::string text = expressionText(*code.plan, value.dims[j]);
      std::string number = expected == kPoison ? "a size that overflows" : std::to_string(expected);
      bool symbolic = text != number;
      return mismatch(module, code, i, *arguments[i].tensor,
                      "dimension " + std::to_string(j) + " must be " +
                          (symbolic ? text + " = " : "") + number + ", but is " +
                          std::to_string(actual) + hintFor(code, value, *arguments[i].tensor));
    }
  }
  return {};
}

/// How much of the arena a value takes: its own bytes, or what is set aside where only the run
/// tells them.
bool bytesAtEntry(const Frame &frame, const ValueCode &value, Shape &shape, int64_t &bytes) {
  if (value.late) {
    bytes = frame.exprs[value.reserved];
    return bytes >= 0;
  }
  frame.shape(value, shape);
  auto count = elementCount(shape);
  if (!count || __builtin_mul_overflow(*count, byteSize(value.type), &bytes))
    return false;
  if (value.pitch == 0 || bytes == 0)
    return true;
  int64_t row = shape.back() * byteSize(value.type), apart = 0;
  if (uint64_t(row) > value.pitch || __builtin_mul_overflow(bytes / row - 1, value.pitch, &apart) ||
      __builtin_add_overflow(apart, row, &bytes))
    return false;
  return true;
}

bool reserveOn(Device &device, Frame::DeviceArena &arena, int64_t bytes) {
  if (arena.memory && bytes <= arena.bytes)
    return true;
  arena.memory = nullptr;
  arena.memory = allocateOn(device, bytes);
  arena.bytes = bytes;
  return arena.memory != nullptr;
}

int64_t arenaBytes(const Frame &frame, uint8_t memory) {
  const FunctionCode &code = frame.code;
  return frame.exprs[memory ? code.deviceArenas[memory - 1u] : code.arenaBytes];
}

/// Room in one memory, 0 the host's.
Status reserveArena(const Session &session, Frame &frame, uint8_t memory) {
  int64_t bytes = arenaBytes(frame, memory);
  for (size_t i = 0; bytes < 0 && i < frame.code.values.size(); ++i)
    if (const ValueCode &value = frame.code.values[i]; value.storage == plan::Storage::Arena)
      if (Status status = checkShape(frame, value, 0); !status.ok())
        return status;
  if (bytes < 0)
    return {StatusCode::ResourceExhausted,
            "the sizes of the inputs make the intermediate results too large"};
  bool isThere = memory ? reserveOn(session.device(memory), frame.deviceArenas[memory - 1u], bytes)
                        : frame.arena.reserve(bytes);
  return isThere ? Status()
                 : Status(StatusCode::ResourceExhausted,
                          "there is not enough memory for " + std::to_string(bytes) +
                              " bytes of intermediate results, or the session's limit does not "
                              "allow them");
}

/// Room for the arenas, and the addresses of all that lies in them.
Status placeArenas(const Session &session, Frame &frame) {
  const FunctionCode &code = frame.code;
  if (!code.hasArena && !code.hasDeviceArena)
    return {};
  if (code.hasArena)
    if (Status status = reserveArena(session, frame, 0); !status.ok())
      return status;
  for (size_t memory = 1; code.hasDeviceArena && memory <= code.deviceArenas.size(); ++memory)
    if (Status status = reserveArena(session, frame, uint8_t(memory)); !status.ok())
      return status;
  Shape shape;
  for (uint32_t i = 0; i < code.values.size(); ++i) {
    const ValueCode &value = code.values[i];
    if (value.storage != plan::Storage::Arena)
      continue;
    int64_t offset = frame.exprs[value.offset], size = 0, bytes = arenaBytes(frame, value.device);
    bool hasSize = bytesAtEntry(frame, value, shape, size);
    int64_t alignment = value.isPart ? byteSize(value.type) : kAlignment;
    // What has no elements is anywhere: a part of nothing may lie behind it.
    bool inside = hasSize && offset >= 0 && offset % alignment == 0 &&
                  (size == 0 || (offset <= bytes && size <= bytes - offset));
    if (!inside)
      return invalidArgument("with these sizes of the inputs, " + named(value) +
                             " has no valid shape (" + toString(shape) +
                             ") or no place among the intermediate results");
    frame.setAddress(i, placeInArena(frame, value));
  }
  return {};
}

/// That what is joined lies in the whole, and is as much as that.
Status checkJoins(const Frame &frame) {
  Shape shape;
  auto elements = [&](uint32_t index) {
    frame.shape(frame.code.values[index], shape);
    return elementCount(shape).value_or(0);
  };
  for (const Step &step : frame.code.steps) {
    if (step.opcode != plan::Opcode::Join)
      continue;
    const ValueCode &whole = frame.code.values[step.results[0]];
    int64_t begin = frame.exprs[whole.offset], size = 0, count = 0;
    bool fits = bytesAtEntry(frame, whole, shape, size);
    for (uint32_t index : step.operands) {
      const ValueCode &part = frame.code.values[index];
      int64_t offset = frame.exprs[part.offset], extent = 0;
      fits = fits && bytesAtEntry(frame, part, shape, extent) &&
             (extent == 0 || (offset >= begin && extent <= size - (offset - begin)));
      count += elements(index);
    }
    if (!fits || count != elements(step.results[0]))
      return invalidArgument("with these sizes of the inputs, '" + std::string(whole.name) +
                             "' is not what is joined to it");
  }
  return {};
}

/// What operators require of sizes that are known by now; before anything is computed or written.
Status checkRequirements(const Module &module, const Frame &frame) {
  for (const Step &step : frame.code.steps)
    if (step.opcode == plan::Opcode::Check && step.settled)
      if (Status status = runtime::checkSizes(module, frame, step); !status.ok())
        return status;
  return {};
}

/// Views between fixed addresses take their operand's.
Status settleViews(Frame &frame) {
  Shape from, to;
  for (const Step &step : frame.code.steps) {
    if (step.opcode != plan::Opcode::View || !step.settled)
      continue;
    frame.shape(frame.code.values[step.operands[0]], from);
    frame.shape(frame.code.values[step.results[0]], to);
    bool isSame = elementCount(from) == elementCount(to);
    if (frame.code.values[step.operands[0]].pitch)
      isSame = isSame && from.back() == to.back();
    if (!isSame)
      return invalidArgument("with these sizes of the inputs, the shape " + toString(from) +
                             " can't be seen as " + toString(to));
    frame.setAddress(step.results[0], frame.slots[step.operands[0]].data);
  }
  return {};
}

Status fillSizes(const Module &module, Frame &frame) {
  for (const Step &step : frame.code.steps)
    for (size_t i = 0;
         step.opcode == plan::Opcode::Kernel && !step.lateSizes && i < step.sizes.size(); ++i)
      if ((frame.sizes[step.firstSize + i] = frame.exprs[step.sizes[i]]) == kPoison)
        return located(module, step, noSize(frame, step.sizes[i]));
  return {};
}

Status resolve(const Session &session, Frame &frame, std::span<const Passed> arguments,
               std::span<const int64_t> given) {
  const Module &module = session.module();
  frame.resolved = false;
  for (uint32_t i = 0; i < frame.code.values.size(); ++i)
    if (frame.code.values[i].storage == plan::Storage::Constant)
      frame.setAddress(i,
                       session.weights(frame.code.values[i].device) + frame.code.values[i].offset);
  if (Status status = bindSymbols(module, frame, arguments, given); !status.ok())
    return status;
  if (Status status = checkDims(module, frame, arguments); !status.ok())
    return status;
  if (Status status = checkRequirements(module, frame); !status.ok())
    return status;
  if (Status status = placeArenas(session, frame); !status.ok())
    return status;
  if (Status status = checkJoins(frame); !status.ok())
    return status;
  if (Status status = settleViews(frame); !status.ok())
    return status;
  if (Status status = fillSizes(module, frame); !status.ok())
    return status;
  frame.hasEmpty = std::ranges::any_of(frame.code.steps, [&](const Step &step) {
    return step.opcode == plan::Opcode::Kernel && computesNothing(frame, step);
  });
  frame.resolved = true;
  return {};
}

} // namespace

std::string declaredType(const FunctionCode &code, const ValueCode &value) {
  if (value.kind != plan::ValueKind::Tensor)
    return kindName(value.kind);
  std::string text(value.type == DataType::Undefined ? "tensor" : name(value.type));
  if (!value.ranked)
    return text + "[...]";
  text += '[';
  for (size_t i = 0; i < value.dims.size(); ++i)
    text += (i ? "," : "") + expressionText(*code.plan, value.dims[i]);
  return text + ']';
}

Status bindParameters(const Session &session, Frame &frame, std::span<const Passed> arguments,
                      std::span<const int64_t> given) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (Status status = checkArgument(session, frame.code, i, arguments[i]); !status.ok())
      return status;
  if (!sameKey(frame, arguments, given))
    if (Status status = resolve(session, frame, arguments, given); !status.ok())
      return status;
  for (size_t i = 0; i < arguments.size(); ++i) {
    uint32_t param = frame.code.params[i];
    frame.slots[param].tensor = arguments[i].tensor;
    frame.slots[param].exclusive = false;
    frame.setAddress(param, arguments[i].tensor->data());
  }
  return {};
}

} // namespace tensmith::runtime
