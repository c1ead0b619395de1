// The step that puts a value into another memory: the host's, or a device's.
//
// Tensors are copied on a stream. What has no plain elements (values of data types) the host goes
// through itself, and waits for each copy.
#include "runtime/Device.h"
#include "runtime/Interpreter.h"
#include "runtime/Launches.h"

#include <unordered_map>

namespace tensmith::runtime {
namespace {

/// What stays in the host's memory wherever procedures pass it: single numbers, and what is no
/// tensor of plain elements.
bool staysWithHost(const Tensor &tensor) {
  return tensor.kind() != TensorKind::Tensor || tensor.type() == DataType::String ||
         isSingleNumber(tensor.type(), tensor.shape().size());
}

bool isTree(const Tensor &value) {
  return value.kind() == TensorKind::Data || value.kind() == TensorKind::Function;
}

void copyNow(Session &session, const Tensor &from, const Tensor &to) {
  int64_t bytes = from.bytes();
  session.countCopy(to.device() != nullptr, bytes);
  if (!bytes)
    return;
  waitFor(to.device() ? to.device()->copyIn(0, to.data(), from.data(), bytes, {})
                      : from.device()->copyOut(0, to.data(), from.data(), bytes, {}));
}

Result<TensorRef> moved(Session &session, const TensorRef &value, Device *device) {
  if (value->kind() != TensorKind::Tensor || value->device() == device)
    return value->ownsMemory() ? Result<TensorRef>(value) : value->copy();
  auto copy = Tensor::create(value->type(), value->shape(), device);
  if (copy)
    copyNow(session, *value, **copy);
  return copy;
}

/// A leaf of a value, or a value that is none of a data type.
Result<TensorRef> movedLeaf(Session &session, const TensorRef &value, Device *device) {
  return moved(session, value, staysWithHost(*value) ? nullptr : device);
}

/// A value of a data type as deep as it is, each part of it once.
Result<TensorRef> movedTree(Session &session, const TensorRef &root, Device *device) {
  std::unordered_map<const Tensor *, TensorRef> made;
  std::vector<const Tensor *> pending = {root.get()};
  while (!pending.empty()) {
    const Tensor *tree = pending.back();
    size_t before = pending.size();
    for (const TensorRef &element : tree->elements())
      if (isTree(*element) && !made.contains(element.get()))
        pending.push_back(element.get());
    if (pending.size() > before)
      continue;
    pending.pop_back();
    if (made.contains(tree))
      continue;
    TensorRef copy = Tensor::unfilled(tree->kind(), tree->tag(), tree->elements().size());
    if (!copy)
      return Status(StatusCode::ResourceExhausted, "there is not enough memory for a value");
    for (size_t i = 0; i < tree->elements().size(); ++i) {
      const TensorRef &element = tree->elements()[i];
      auto part = isTree(*element) ? Result<TensorRef>(made.at(element.get()))
                                   : movedLeaf(session, element, device);
      if (!part)
        return part;
      copy->fill()[i] = std::move(*part);
    }
    made.emplace(tree, std::move(copy));
  }
  return made.at(root.get());
}

/// Of a value that is no plain tensor.
Status copyValue(Run &run, Frame &frame, const Step &step) {
  auto from = tensorOf(run, frame, step.operands[0]);
  if (!from)
    return from.status();
  uint32_t index = step.results[0];
  Device *device = run.session.memoryOf(frame.code.values[index]);
  auto copy = isTree(**from) ? movedTree(run.session, *from, device)
                             : movedLeaf(run.session, *from, device);
  if (!copy)
    return copy.status();
  Slot &slot = frame.slots[index];
  slot.tensor = std::move(*copy);
  slot.exclusive = slot.tensor.get() != from->get();
  frame.setAddress(index, slot.tensor->data());
  return {};
}

} // namespace

Status executeCopy(Run &run, Frame &frame, const Step &step) {
  if (!step.device)
    return copyValue(run, frame, step);
  if (Status status = placeResults(run, frame, step); !status.ok())
    return status;
  uint32_t from = step.operands[0], to = step.results[0];
  frame.launches->copy(step, frame.slots[to].data, frame.slots[from].data, bytesOf(frame, from));
  return {};
}

} // namespace tensmith::runtime
