// Opens devices, and puts values of a run where instructions want them; see Device.h.
#include "runtime/Device.h"

#include "reference/Companion.h"
#include "runtime/Interpreter.h"

#include <atomic>
#include <string>
#include <unordered_map>

namespace tensmith::runtime {
namespace {

std::atomic<Device *> opened{nullptr};

/// What stays in the host's memory wherever procedures pass it: single numbers, and what is no
/// tensor of plain elements.
bool staysWithHost(const Tensor &tensor) {
  return tensor.kind() != TensorKind::Tensor || tensor.type() == DataType::String ||
         isSingleNumber(tensor.type(), tensor.shape().size());
}

bool isTree(const Tensor &value) {
  return value.kind() == TensorKind::Data || value.kind() == TensorKind::Function;
}

void move(Session &session, const Tensor &from, std::byte *to, bool toDevice) {
  int64_t bytes = from.bytes();
  session.countCopy(toDevice, bytes);
  if (bytes && toDevice)
    openedDevice().copyIn(to, from.data(), bytes);
  else if (bytes)
    openedDevice().copyOut(to, from.data(), bytes);
}

Result<TensorRef> moved(Session &session, const TensorRef &value, bool toDevice) {
  if (value->kind() != TensorKind::Tensor || value->onDevice() == toDevice)
    return value->ownsMemory() ? Result<TensorRef>(value) : value->copy();
  auto copy = Tensor::create(value->type(), value->shape(), toDevice);
  if (copy)
    move(session, *value, (*copy)->data(), toDevice);
  return copy;
}

/// A leaf of a value, or a value that is none of a data type.
Result<TensorRef> movedLeaf(Session &session, const TensorRef &value, bool toDevice) {
  return moved(session, value, toDevice && !staysWithHost(*value));
}

/// A value of a data type as deep as it is, each part of it once.
Result<TensorRef> movedTree(Session &session, const TensorRef &root, bool toDevice) {
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
                                   : movedLeaf(session, element, toDevice);
      if (!part)
        return part;
      copy->fill()[i] = std::move(*part);
    }
    made.emplace(tree, std::move(copy));
  }
  return made.at(root.get());
}

} // namespace

Device *openDevice(std::string_view name) {
  if (Device *device = opened)
    return device;
  std::string library = "libtensmith_" + std::string(name) + ".so";
  auto *open = reinterpret_cast<TensmithOpenDevice *>(
      reference::companionFunction(library.c_str(), "tensmithDevice"));
  Device *none = nullptr, *device = open ? open() : nullptr;
  if (device)
    opened.compare_exchange_strong(none, device);
  return opened;
}

Device &openedDevice() { return *opened; }

std::shared_ptr<std::byte> allocateOnDevice(int64_t bytes) {
  std::byte *memory = opened.load()->allocate(bytes);
  return memory ? std::shared_ptr<std::byte>(memory, [](std::byte *p) { openedDevice().free(p); })
                : nullptr;
}

Status executeCopy(Run &run, Frame &frame, const Step &step) {
  auto from = tensorOf(run, frame, step.operands[0]);
  if (!from)
    return from.status();
  uint32_t index = step.results[0];
  const ValueCode &value = frame.code.values[index];
  Slot &slot = frame.slots[index];
  bool plain = value.kind == plan::ValueKind::Tensor && value.ranked;
  bool direct = slot.destination && plain && (*from)->onDevice() &&
                slot.destination->type() == (*from)->type() &&
                slot.destination->shape() == (*from)->shape();
  if (direct) {
    move(run.session, **from, slot.destination->data(), false);
    slot.tensor = TensorRef::retain(slot.destination);
  } else {
    auto copy = plain            ? moved(run.session, *from, value.device)
                : isTree(**from) ? movedTree(run.session, *from, value.device)
                                 : movedLeaf(run.session, *from, value.device);
    if (!copy)
      return copy.status();
    slot.tensor = std::move(*copy);
  }
  slot.exclusive = !direct && slot.tensor.get() != from->get();
  frame.setAddress(index, slot.tensor->data());
  return {};
}

} // namespace tensmith::runtime
