// Memory shared with other libraries: DLPack both ways (its versions 0 and 1), and Python's buffer
// protocol, by which NumPy sees a tensor's memory too.
#include "python/Eager.h"

#include "base/DLPack.h"
#include "eager/Tape.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

namespace tensmith::python {
namespace {

constexpr int32_t kCpu = 1, kOther = 12; // kDLExtDev: a device that DLPack has no name for

constexpr uint64_t kReadOnly = 1, kIsCopied = 2; // of DLManagedTensorVersioned

/// Elements of less than 16 bits are integers and booleans of a byte: no small floats, nothing
/// packed.
bool isTensors(const DLPackElement &element) {
  return element.bits >= (isFloat(element.type) ? 16 : 8);
}

std::optional<DLDataType> codeOf(DataType type) {
  for (const DLPackElement &each : kDLPackElements)
    if (each.type == type && isTensors(each))
      return DLDataType{each.code, each.bits, 1};
  return std::nullopt;
}

DataType typeOf(DLDataType code) {
  for (const DLPackElement &each : kDLPackElements)
    if (each.code == code.code && each.bits == code.bits && code.lanes == 1 && isTensors(each))
      return each.type;
  throw nb::type_error("the elements are of a type that tensors do not have");
}

/// What a consumer holds: an array, and its shape in DLPack's form.
template <typename Kind> struct Export {
  Kind managed{};
  Array array;
  Shape shape;
  eager::Strides strides;

  explicit Export(Array given)
      : array(std::move(given)), shape(array.shape()), strides(array.strides()) {
    ++array.storage()->sharers; // from here on its memory stays
    managed.dl_tensor = {
        array.data(),   {kCpu, 0}, int32_t(array.rank()), *codeOf(array.type()), shape.data(),
        strides.data(), 0};
    managed.manager_ctx = this;
    managed.deleter = [](Kind *self) { delete static_cast<Export *>(self->manager_ctx); };
  }
  ~Export() { --array.storage()->sharers; }
};

template <typename Kind> nb::object capsuleOf(Kind *managed, const char *name) {
  PyObject *capsule = PyCapsule_New(managed, name, [](PyObject *capsule) {
    const char *name = PyCapsule_GetName(capsule);
    if (name && std::string_view(name).starts_with("used_"))
      return;
    auto *managed = static_cast<Kind *>(PyCapsule_GetPointer(capsule, name));
    managed->deleter(managed);
  });
  if (!capsule)
    throw nb::python_error();
  return nb::steal(capsule);
}

nb::object toDlpack(const Tensor &tensor, nb::object stream, nb::object maxVersion,
                    nb::object device, nb::object copy) {
  if (!stream.is_none())
    throw nb::value_error("a tensor in the host's memory has no stream; give None");
  if (!device.is_none() && nb::cast<std::pair<int, int>>(device) != std::pair<int, int>(kCpu, 0)) {
    PyErr_SetString(PyExc_BufferError, "tensors are given in the host's memory, device (1, 0)");
    throw nb::python_error();
  }
  bool isElsewhere = tensor.array.device() != nullptr;
  if (isElsewhere && (device.is_none() || (!copy.is_none() && !nb::cast<bool>(copy)))) {
    PyErr_SetString(PyExc_BufferError,
                    "DLPack has no device for the tensor's; ask for a copy in the host's memory, "
                    "dl_device=(1, 0), or by to_device(\"cpu\")");
    throw nb::python_error();
  }
  bool isCopied = isElsewhere || (!copy.is_none() && nb::cast<bool>(copy));
  check(eager::tellTapes([&](eager::Tape &tape) { return tape.reads(tensor.array); }));
  waitFor(tensor.array, /*toWrite=*/true);
  if (!codeOf(tensor.array.type())) {
    PyErr_SetString(PyExc_BufferError, "DLPack has no such element type");
    throw nb::python_error();
  }
  Array array = tensor.array;
  if (isCopied) {
    array = take(Array::allocate(array.type(), array.shape())); // on the host
    check(eager::copyElements(array, tensor.array));
  }
  bool hasFlags = !maxVersion.is_none() && nb::cast<std::pair<int, int>>(maxVersion).first >= 1;
  if (!hasFlags && !array.storage()->writable) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is on memory that may only be read, which DLPack "
                    "can't say before version 1; give max_version or copy=True");
    throw nb::python_error();
  }
  if (!hasFlags)
    return capsuleOf(&(new Export<DLManagedTensor>(array))->managed, "dltensor");
  auto *exported = new Export<DLManagedTensorVersioned>(array);
  exported->managed.version = {1, 1};
  exported->managed.flags =
      (isCopied ? kIsCopied : 0) | (array.storage()->writable ? 0 : kReadOnly);
  return capsuleOf(&exported->managed, "dltensor_versioned");
}

template <typename Kind>
Array adopted(nb::object capsule, const char *name, const char *used, bool isReadOnly) {
  auto *managed = static_cast<Kind *>(PyCapsule_GetPointer(capsule.ptr(), name));
  const DLTensor &view = managed->dl_tensor;
  if (view.device.device_type != kCpu)
    throw nb::value_error("only tensors in the host's memory can be taken over");
  DataType type = typeOf(view.dtype);
  Shape shape(view.shape, view.shape + view.ndim);
  eager::Strides strides = view.strides ? eager::Strides(view.strides, view.strides + view.ndim)
                                        : eager::denseStrides(shape);
  if (!elementCount(shape))
    throw nb::value_error("the tensor's shape has too many elements");
  std::shared_ptr<const void> owner(managed, [](const void *pointer) {
    auto *managed = static_cast<Kind *>(const_cast<void *>(pointer));
    if (!Py_IsInitialized() || !managed->deleter)
      return;
    nb::gil_scoped_acquire locked; // the last reference may be the engine's
    managed->deleter(managed);
  });
  PyCapsule_SetName(capsule.ptr(), used);
  return Array::borrow(type, shape, strides, static_cast<std::byte *>(view.data) + view.byte_offset,
                       !isReadOnly, std::move(owner));
}

Tensor fromDlpack(nb::object capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto *managed = static_cast<DLManagedTensorVersioned *>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1)
      throw nb::value_error("DLPack of another major version than 1");
    return {adopted<DLManagedTensorVersioned>(
        capsule, "dltensor_versioned", "used_dltensor_versioned", managed->flags & kReadOnly)};
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    throw nb::value_error("no DLPack capsule, or one that was taken already");
  return {adopted<DLManagedTensor>(capsule, "dltensor", "used_dltensor", false)};
}

/// As the struct module names them.
const char *formatOf(DataType type) {
  switch (type) {
  case DataType::Bool:
    return "?";
  case DataType::I8:
    return "b";
  case DataType::U8:
    return "B";
  case DataType::I16:
    return "h";
  case DataType::U16:
    return "H";
  case DataType::I32:
    return "i";
  case DataType::U32:
    return "I";
  case DataType::I64:
    return "q";
  case DataType::U64:
    return "Q";
  case DataType::F16:
    return "e";
  case DataType::F32:
    return "f";
  case DataType::F64:
    return "d";
  case DataType::C64:
    return "Zf";
  case DataType::C128:
    return "Zd";
  default:
    return nullptr;
  }
}

struct BufferShape {
  std::vector<Py_ssize_t> shape, strides;
  Array array;

  explicit BufferShape(const Array &given)
      : shape(given.shape().begin(), given.shape().end()), array(given) {
    for (int64_t stride : given.strides())
      strides.push_back(Py_ssize_t(stride) * Py_ssize_t(byteSize(given.type())));
    ++array.storage()->sharers;
  }
  ~BufferShape() { --array.storage()->sharers; }
};

int getBuffer(PyObject *object, Py_buffer *buffer, int flags) {
  Array array = nb::inst_ptr<Tensor>(object)->array;
  const char *format = formatOf(array.type());
  if (!format) {
    PyErr_SetString(PyExc_BufferError, "buffers have no such element type; use DLPack");
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) && (!array.storage()->writable || array.device())) {
    PyErr_SetString(PyExc_BufferError,
                    array.device()
                        ? "of a device's tensor there is a copy, which may only be read; "
                          "move it by to_device(\"cpu\")"
                        : "the tensor is on memory that may only be read");
    return -1;
  }
  if (Status status = eager::tellTapes([&](eager::Tape &tape) { return tape.reads(array); });
      !status.ok()) {
    PyErr_SetString(PyExc_TypeError, status.message().c_str());
    return -1;
  }
  bool needsRows = (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  if (needsRows && !array.isDense()) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not dense; make a copy first");
    return -1;
  }
  if (Status status = eager::wait(array, /*toWrite=*/true); !status.ok()) {
    PyErr_SetString(PyExc_BufferError, status.message().c_str());
    return -1;
  }
  bool isCopied = array.device() != nullptr; // of a device's tensor the host sees a copy
  if (isCopied) {
    Result<Array> copy = eager::on(nullptr, array);
    if (!copy.ok()) {
      PyErr_SetString(PyExc_MemoryError, copy.status().message().c_str());
      return -1;
    }
    array = *copy;
  }
  auto *kept = new BufferShape(array);
  Py_ssize_t bytes = Py_ssize_t(byteSize(array.type()));
  buffer->buf = array.data();
  buffer->obj = object;
  Py_INCREF(object);
  buffer->len = Py_ssize_t(array.size()) * bytes;
  buffer->itemsize = bytes;
  buffer->readonly = isCopied || !array.storage()->writable;
  buffer->ndim = int(array.rank());
  buffer->format = (flags & PyBUF_FORMAT) ? const_cast<char *>(format) : nullptr;
  buffer->shape = (flags & PyBUF_ND) ? kept->shape.data() : nullptr;
  buffer->strides = needsRows ? nullptr : kept->strides.data();
  buffer->suboffsets = nullptr;
  buffer->internal = kept;
  return 0;
}

void releaseBuffer(PyObject *, Py_buffer *buffer) {
  delete static_cast<BufferShape *>(buffer->internal);
}

} // namespace

PyType_Slot tensorSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(getBuffer)},
                             {Py_bf_releasebuffer, reinterpret_cast<void *>(releaseBuffer)},
                             {0, nullptr}};

bool isNumpy(nb::handle value) {
  nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  if (!numpy.is_valid()) { // who has an array of it has imported it
    PyErr_Clear();
    return false;
  }
  if (nb::isinstance(value, numpy.attr("generic")))
    return true;
  bool isArray = nb::isinstance(value, numpy.attr("ndarray"));
  if (isArray && !value.type().is(numpy.attr("ndarray"))) {
    auto name = nb::cast<std::string>(value.type().attr("__name__"));
    throw nb::type_error(
        ("a " + name +
         " can't be an operand beside a tensor; give what it holds, as a numpy.ndarray")
            .c_str());
  }
  return isArray;
}

nb::object tensorOf(nb::handle value) {
  if (nb::isinstance<Tensor>(value))
    return nb::borrow(value);
  return nb::module_::import_("tensmith.numpy.creation").attr("operand")(value);
}

void bindExchange(nb::module_ &m, nb::class_<Tensor> &tensor) {
  tensor.def("__dlpack__", toDlpack, nb::kw_only(), nb::arg("stream").none() = nb::none(),
             nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
             nb::arg("copy").none() = nb::none());
  tensor.def("__dlpack_device__", [](const Tensor &t) {
    return nb::make_tuple(int(t.array.device() ? kOther : kCpu), 0);
  });
  m.def("from_dlpack", fromDlpack);
  m.def(
      "is_array", [](nb::handle value) { return nb::isinstance<Tensor>(value) || isNumpy(value); },
      nb::arg("value").none());
  m.def("from_bytes", [](nb::bytes bytes, const std::string &type, const Shape &shape) {
    DataType parsed = parseDataType(type).value_or(DataType::Undefined);
    Array array = take(Array::allocate(parsed, shape));
    if (array.storage()->bytes != int64_t(bytes.size()))
      throw nb::value_error("the bytes are not those of a tensor of this type and shape");
    if (bytes.size())
      std::memcpy(array.data(), bytes.c_str(), bytes.size());
    return Tensor{array};
  });
}

} // namespace tensmith::python
