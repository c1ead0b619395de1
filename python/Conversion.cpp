// Tensors and values between NumPy, DLPack and the C API; see Conversion.h.
#include "python/Conversion.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

/// As DLPack's specification has it.
struct DLManagedTensor {
  nb::dlpack::dltensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *self);
};

namespace {

const char *numpyName(ts_type type) {
  switch (type) {
  case TS_F32:
    return "float32";
  case TS_F64:
    return "float64";
  case TS_F16:
    return "float16";
  case TS_I8:
    return "int8";
  case TS_I16:
    return "int16";
  case TS_I32:
    return "int32";
  case TS_I64:
    return "int64";
  case TS_U8:
    return "uint8";
  case TS_U16:
    return "uint16";
  case TS_U32:
    return "uint32";
  case TS_U64:
    return "uint64";
  case TS_BOOL:
    return "bool";
  case TS_C64:
    return "complex64";
  case TS_C128:
    return "complex128";
  case TS_BF16:
    return "bfloat16";
  case TS_F8E4M3FN:
    return "float8_e4m3fn";
  case TS_F8E4M3FNUZ:
    return "float8_e4m3fnuz";
  case TS_F8E5M2:
    return "float8_e5m2";
  case TS_F8E5M2FNUZ:
    return "float8_e5m2fnuz";
  case TS_F4E2M1:
    return "float4_e2m1fn";
  case TS_F8E8M0:
    return "float8_e8m0fnu";
  case TS_U4:
    return "uint4";
  case TS_I4:
    return "int4";
  case TS_U2:
    return "uint2";
  case TS_I2:
    return "int2";
  default:
    return nullptr;
  }
}

nb::object numpyType(ts_type type) {
  const char *name = numpyName(type);
  nb::module_ numpy = nb::module_::import_("numpy");
  if (type < TS_BF16)
    return numpy.attr("dtype")(name);
  // The types that NumPy lacks are those of ml_dtypes, which the onnx package brings along.
  return numpy.attr("dtype")(nb::module_::import_("ml_dtypes").attr(name));
}

ts_type typeOf(nb::handle dtype) {
  std::string name = nb::cast<std::string>(nb::str(dtype.attr("name")));
  for (int type = TS_F32; type <= TS_I2; ++type)
    if (const char *known = numpyName(ts_type(type)); known && name == known)
      return ts_type(type);
  throw Error("arrays of " + name + " can't be given to a model; convert them to the input's type");
}

/// Memory that keeps a Python object alive.
void releaseObject(void *object) {
  nb::gil_scoped_acquire lock;
  nb::handle(static_cast<PyObject *>(object)).dec_ref();
}

Owned<ts_tensor> stringsToTensor(nb::handle array) {
  nb::object flat = array.attr("astype")("O").attr("ravel")().attr("tolist")();
  std::vector<std::string> texts;
  for (nb::handle text : flat)
    texts.push_back(nb::isinstance<nb::bytes>(text) ? nb::cast<nb::bytes>(text).c_str()
                                                    : nb::cast<std::string>(nb::str(text)));
  std::vector<const char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(text.c_str());
  auto shape = nb::cast<std::vector<int64_t>>(nb::list(array.attr("shape")));
  ts_tensor *tensor = nullptr;
  check(ts_tensor_strings(pointers.data(), shape.data(), shape.size(), &tensor));
  return Owned<ts_tensor>(tensor);
}

/// The element type of a buffer's format, for those that NumPy writes with one letter.
ts_type typeOfFormat(const char *format, Py_ssize_t bytes) {
  if (!format || !format[0] || format[1])
    return TS_UNDEFINED;
  switch (format[0]) {
  case '?':
    return TS_BOOL;
  case 'e':
    return TS_F16;
  case 'f':
    return TS_F32;
  case 'd':
    return TS_F64;
  case 'b':
  case 'h':
  case 'i':
  case 'l':
  case 'q':
    return bytes == 1 ? TS_I8 : bytes == 2 ? TS_I16 : bytes == 4 ? TS_I32 : TS_I64;
  case 'B':
  case 'H':
  case 'I':
  case 'L':
  case 'Q':
    return bytes == 1 ? TS_U8 : bytes == 2 ? TS_U16 : bytes == 4 ? TS_U32 : TS_U64;
  default:
    return TS_UNDEFINED;
  }
}

void releaseBuffer(void *held) {
  nb::gil_scoped_acquire lock;
  auto *buffer = static_cast<Py_buffer *>(held);
  PyBuffer_Release(buffer);
  delete buffer;
}

/// An array of NumPy's own types whose elements lie in order: by its buffer, which takes a tenth of
/// the time that its attributes take. Null for any other.
Owned<ts_tensor> bufferToTensor(nb::handle array) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(array.ptr(), buffer.get(), PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return {};
  }
  ts_type type = typeOfFormat(buffer->format, buffer->itemsize);
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  ts_tensor *tensor = nullptr;
  if (type == TS_UNDEFINED) {
    PyBuffer_Release(buffer.get());
    return {};
  }
  ts_status *status =
      ts_tensor_borrow(type, reinterpret_cast<const int64_t *>(buffer->shape), size_t(buffer->ndim),
                       buffer->buf, releaseBuffer, buffer.get(), &tensor);
  if (status)
    PyBuffer_Release(buffer.get());
  check(status);
  buffer.release();
  return Owned<ts_tensor>(tensor);
}

/// An array and the tensor on its memory, which keeps it alive.
struct Leaf {
  PyObject *array;
  ts_tensor *tensor;
};

/// Whether the array's buffer is still the one that the tensor was made of.
bool isAsBefore(const Leaf &leaf) {
  Py_buffer now;
  if (PyObject_GetBuffer(leaf.array, &now, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  bool same = now.buf == ts_tensor_data(leaf.tensor) &&
              typeOfFormat(now.format, now.itemsize) == ts_tensor_type(leaf.tensor) &&
              std::equal(now.shape, now.shape + now.ndim, ts_tensor_shape(leaf.tensor),
                         ts_tensor_shape(leaf.tensor) + ts_tensor_rank(leaf.tensor));
  PyBuffer_Release(&now);
  return same;
}

Owned<ts_tensor> arrayToTensor(nb::object array) {
  nb::module_ numpy = nb::module_::import_("numpy");
  std::string kind = nb::cast<std::string>(nb::str(array.attr("dtype").attr("kind")));
  if (kind == "U" || kind == "S" || kind == "O" || kind == "T")
    return stringsToTensor(array);
  if (nb::object dtype = array.attr("dtype"); !nb::cast<bool>(dtype.attr("isnative")))
    array =
        array.attr("astype")(dtype.attr("newbyteorder")("=")); // a type's name has no byte order
  nb::object shapeObject = array.attr("shape");
  ts_type type = typeOf(array.attr("dtype"));
  // In memory of ours a small integer is extended to its byte, which ml_dtypes does not promise.
  if (type == TS_I4 || type == TS_I2)
    array = array.attr("astype")("int8");
  if (type == TS_U4 || type == TS_U2)
    array = array.attr("astype")("uint8");
  array = numpy.attr("ascontiguousarray")(array);
  auto shape = nb::cast<std::vector<int64_t>>(nb::list(shapeObject));
  auto *data = reinterpret_cast<void *>(nb::cast<uintptr_t>(array.attr("ctypes").attr("data")));
  ts_tensor *tensor = nullptr;
  check(ts_tensor_borrow(type, shape.data(), shape.size(), data, releaseObject, array.ptr(),
                         &tensor));
  array.inc_ref(); // given back by releaseObject
  return Owned<ts_tensor>(tensor);
}

/// A map's keys: strings or whole numbers.
Owned<ts_tensor> keysToTensor(nb::list keys) {
  nb::module_ numpy = nb::module_::import_("numpy");
  bool areStrings = keys.size() && nb::isinstance<nb::str>(keys[0]);
  for (nb::handle key : keys)
    if (areStrings ? !nb::isinstance<nb::str>(key) : !PyIndex_Check(key.ptr()))
      throw Error("the keys of a dict must be all strings or all integers");
  nb::object array =
      numpy.attr("array")(keys, nb::arg("dtype") = nb::str(areStrings ? "O" : "int64"));
  return areStrings ? stringsToTensor(array) : arrayToTensor(array);
}

/// A dict's values, which are numbers or strings, as the element type that is asked for.
Owned<ts_tensor> valuesToTensor(nb::list values, ts_type type) {
  nb::module_ numpy = nb::module_::import_("numpy");
  if (type == TS_STRING)
    return stringsToTensor(numpy.attr("array")(values, nb::arg("dtype") = nb::str("O")));
  if (type == TS_UNDEFINED)
    return toTensor(numpy.attr("array")(values));
  nb::object wanted = numpyType(type);
  if (values.size() == 0)
    return arrayToTensor(numpy.attr("array")(values, nb::arg("dtype") = wanted));
  nb::object given = numpy.attr("array")(values);
  if (!nb::cast<bool>(numpy.attr("can_cast")(given.attr("dtype"), wanted, nb::str("same_kind"))))
    throw Error("the values of a dict are " +
                nb::cast<std::string>(given.attr("dtype").attr("name")) +
                ", where the model takes " + nb::cast<std::string>(wanted.attr("name")));
  return toTensor(given.attr("astype")(wanted));
}

Owned<ts_tensor> dictToTensor(nb::dict dict, ts_type type) {
  Owned<ts_tensor> keys = keysToTensor(dict.keys()), values = valuesToTensor(dict.values(), type);
  ts_tensor *tensor = nullptr;
  check(ts_tensor_map(keys.get(), values.get(), &tensor));
  return Owned<ts_tensor>(tensor);
}

Owned<ts_tensor> sequenceToTensor(nb::handle sequence, ts_type type) {
  std::vector<Owned<ts_tensor>> elements;
  std::vector<ts_tensor *> pointers;
  for (nb::handle element : sequence) {
    elements.push_back(toTensor(element, type));
    pointers.push_back(elements.back().get());
  }
  ts_tensor *tensor = nullptr;
  check(ts_tensor_sequence(pointers.data(), pointers.size(), &tensor));
  return Owned<ts_tensor>(tensor);
}

/// Of NumPy's own class, and of no subclass. Looked up once: a type has no name in the stable
/// interface.
bool isArray(nb::handle value) {
  static PyObject *const type =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return reinterpret_cast<PyObject *>(Py_TYPE(value.ptr())) == type;
}
/// A value of a data type as Python has it: an object with the constructor's number in `_tag` and
/// the fields' handles in `_fields` (tensmith.Value). Iterative, since lists are long.
bool isValue(nb::handle value) {
  static PyObject *const name = PyUnicode_InternFromString("_tensmith_value");
  return PyObject_HasAttr(value.ptr(), name) == 1;
}

nb::object attributeOf(nb::handle value, PyObject *name) {
  PyObject *attribute = PyObject_GetAttr(value.ptr(), name);
  if (!attribute)
    throw nb::python_error();
  return nb::steal(attribute);
}

/// What a value was converted to: kept with it, since a tree is often given again, of which taking
/// it apart would take as long as computing with it. A value doesn't change, but its arrays can be
/// given another shape, type or memory in their place.
struct Kept {
  Owned<ts_tensor> tensor;
  std::vector<Leaf> leaves;
};

/// Null where there is none, or it is not what the value would be converted to now.
Owned<ts_tensor> keptTensor(nb::handle value) {
  static PyObject *const name = PyUnicode_InternFromString("_kept");
  nb::object given = attributeOf(value, name);
  if (given.is_none())
    return nullptr;
  auto *kept = static_cast<Kept *>(nb::cast<nb::capsule>(given).data());
  if (!std::all_of(kept->leaves.begin(), kept->leaves.end(), isAsBefore))
    return nullptr;
  ts_tensor_retain(kept->tensor.get());
  return Owned<ts_tensor>(kept->tensor.get());
}

void keepTensor(nb::handle value, ts_tensor *tensor, std::vector<Leaf> leaves) {
  ts_tensor_retain(tensor);
  auto kept = std::make_unique<Kept>(Kept{Owned<ts_tensor>(tensor), std::move(leaves)});
  value.attr("_kept") =
      nb::capsule(kept.get(), [](void *held) noexcept { delete static_cast<Kept *>(held); });
  kept.release();
}

Owned<ts_tensor> valueToTensor(nb::handle root) {
  static PyObject *const fields = PyUnicode_InternFromString("_fields");
  static PyObject *const tag = PyUnicode_InternFromString("_tag");
  struct Part {
    nb::object value;
    std::vector<Owned<ts_tensor>> fields;
    nb::tuple parts;
  };
  if (Owned<ts_tensor> kept = keptTensor(root))
    return kept;
  bool shares = true; // all elements with the arrays, so that what is written to those is seen
  std::vector<Leaf> leaves;
  std::vector<Part> stack;
  auto open = [&](nb::handle value) {
    stack.push_back({nb::borrow(value), {}, nb::cast<nb::tuple>(attributeOf(value, fields))});
  };
  open(root);
  for (;;) {
    Part &top = stack.back();
    if (top.fields.size() < top.parts.size()) {
      nb::object next = top.parts[top.fields.size()];
      Owned<ts_tensor> array = isArray(next) ? bufferToTensor(next) : nullptr;
      if (!array && isValue(next)) {
        open(next);
        continue;
      }
      shares &= array != nullptr;
      if (array)
        leaves.push_back({next.ptr(), array.get()});
      top.fields.push_back(array ? std::move(array) : toTensor(next));
      continue;
    }
    std::vector<ts_tensor *> pointers;
    for (const auto &field : top.fields)
      pointers.push_back(field.get());
    ts_tensor *made = nullptr;
    check(ts_tensor_data_value(nb::cast<uint32_t>(attributeOf(top.value, tag)), pointers.data(),
                               pointers.size(), &made));
    stack.pop_back();
    if (!stack.empty()) {
      stack.back().fields.emplace_back(made);
      continue;
    }
    Owned<ts_tensor> value(made);
    if (shares)
      keepTensor(root, made, std::move(leaves));
    return value;
  }
}

constexpr const char *kConverted = "tensmith.converted";
constexpr const char *kDlpack = "dltensor", *kUsedDlpack = "used_dltensor"; // the protocol's names

/// The tensor of a capsule, which is used up.
Owned<ts_tensor> takeDlpack(nb::handle capsule) {
  auto *managed = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), kDlpack));
  if (!managed)
    throw nb::python_error();
  ts_tensor *tensor = nullptr;
  check(ts_tensor_from_dlpack(managed, &tensor));
  PyCapsule_SetName(capsule.ptr(), kUsedDlpack);
  return Owned<ts_tensor>(tensor);
}

/// NumPy's own reading lacks the types that NumPy lacks.
Owned<ts_tensor> dlpackToTensor(nb::handle value) {
  nb::object capsule;
  nb::module_ numpy = nb::module_::import_("numpy");
  try {
    capsule = value.attr("__dlpack__")();
  } catch (nb::python_error &error) {
    // Some libraries hand out fewer types than they have, as JAX its int4.
    if (!error.matches(PyExc_BufferError) && nb::hasattr(value, "__array__"))
      return arrayToTensor(numpy.attr("asarray")(value));
    if (!error.matches(PyExc_BufferError))
      throw;
    // Memory that is only to be read may be said to be so by a later version of the protocol alone.
    return arrayToTensor(numpy.attr("from_dlpack")(value));
  }
  return takeDlpack(capsule);
}

/// Of a capsule that nobody has taken the tensor out of.
void dropDlpack(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, kDlpack))
    return;
  auto *managed = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule, kDlpack));
  if (managed->deleter)
    managed->deleter(managed);
}

} // namespace

void check(ts_status *status) {
  if (!status)
    return;
  Error error(ts_status_message(status), ts_status_get_code(status));
  ts_status_free(status);
  throw error;
}

nb::object toDlpack(nb::object array) { return dlpackOf(arrayToTensor(std::move(array)).get()); }

nb::object dlpackOf(ts_tensor *tensor) {
  DLManagedTensor *managed = nullptr;
  check(ts_tensor_to_dlpack(tensor, &managed));
  PyObject *capsule = PyCapsule_New(managed, kDlpack, dropDlpack);
  if (!capsule)
    managed->deleter(managed);
  return nb::steal(capsule);
}

nb::object convertArray(nb::handle array) {
  return nb::capsule(toTensor(array).release(), kConverted,
                     [](void *held) noexcept { ts_tensor_free(static_cast<ts_tensor *>(held)); });
}

nb::object convertList(nb::list elements, uint32_t cons, uint32_t nil) {
  std::vector<Owned<ts_tensor>> arrays;
  for (nb::handle element : elements) {
    arrays.push_back(isArray(element) ? bufferToTensor(element) : nullptr);
    if (!arrays.back())
      return nb::none();
  }
  ts_tensor *made = nullptr;
  check(ts_tensor_data_value(nil, nullptr, 0, &made));
  Owned<ts_tensor> list(made);
  for (; !arrays.empty(); arrays.pop_back()) {
    ts_tensor *fields[] = {arrays.back().get(), list.get()};
    check(ts_tensor_data_value(cons, fields, 2, &made));
    list.reset(made);
  }
  return nb::capsule(list.release(), kConverted,
                     [](void *held) noexcept { ts_tensor_free(static_cast<ts_tensor *>(held)); });
}

Owned<ts_tensor> toTensor(nb::handle value, ts_type type) {
  if (PyCapsule_IsValid(value.ptr(), kConverted)) {
    auto *tensor = static_cast<ts_tensor *>(PyCapsule_GetPointer(value.ptr(), kConverted));
    ts_tensor_retain(tensor);
    return Owned<ts_tensor>(tensor);
  }
  if (PyCapsule_IsValid(value.ptr(), kDlpack))
    return takeDlpack(value);
  if (isArray(value))
    if (Owned<ts_tensor> tensor = bufferToTensor(value); tensor.get())
      return tensor;
  if (isValue(value))
    return valueToTensor(value);
  if (value.is_none()) {
    ts_tensor *tensor = nullptr;
    check(ts_tensor_none(&tensor));
    return Owned<ts_tensor>(tensor);
  }
  nb::module_ numpy = nb::module_::import_("numpy");
  if (nb::isinstance(value, numpy.attr("ndarray")))
    return arrayToTensor(nb::borrow(value));
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
    return sequenceToTensor(value, type);
  if (nb::isinstance<nb::dict>(value))
    return dictToTensor(nb::borrow<nb::dict>(value), type);
  if (nb::hasattr(value, "__dlpack__"))
    return dlpackToTensor(value);
  return arrayToTensor(numpy.attr("asarray")(value));
}

namespace {

/// The types that nanobind hands to NumPy by itself.
std::optional<nb::dlpack::dtype> plainType(ts_type type) {
  switch (type) {
  case TS_F32:
    return nb::dtype<float>();
  case TS_F64:
    return nb::dtype<double>();
  case TS_I32:
    return nb::dtype<int32_t>();
  case TS_I64:
    return nb::dtype<int64_t>();
  case TS_BOOL:
    return nb::dtype<bool>();
  default:
    return std::nullopt;
  }
}

/// A NumPy array on the tensor's memory.
nb::object arrayFromTensor(ts_tensor *tensor) {
  nb::module_ numpy = nb::module_::import_("numpy");
  std::vector<int64_t> shape(ts_tensor_shape(tensor),
                             ts_tensor_shape(tensor) + ts_tensor_rank(tensor));
  nb::tuple shapeTuple = nb::tuple(nb::cast(shape));
  if (ts_tensor_type(tensor) == TS_STRING) {
    nb::list texts;
    for (int64_t i = 0; i < ts_tensor_size(tensor); ++i)
      texts.append(nb::str(ts_tensor_string(tensor, i)));
    nb::object array = numpy.attr("empty")(nb::make_tuple(texts.size()), nb::str("O"));
    for (size_t i = 0; i < texts.size(); ++i)
      array.attr("__setitem__")(i, texts[i]);
    return array.attr("reshape")(shapeTuple);
  }
  ts_tensor_retain(tensor);
  nb::capsule owner(tensor,
                    [](void *held) noexcept { ts_tensor_free(static_cast<ts_tensor *>(held)); });
  if (auto type = plainType(ts_tensor_type(tensor))) {
    std::vector<size_t> extents(shape.begin(), shape.end());
    return nb::cast(nb::ndarray<nb::numpy>(ts_tensor_data(tensor), extents.size(), extents.data(),
                                           owner, nullptr, *type));
  }
  size_t bytes = size_t(ts_tensor_size(tensor)) * ts_type_bytes(ts_tensor_type(tensor));
  size_t extent[] = {bytes};
  nb::ndarray<nb::numpy, uint8_t> raw(ts_tensor_data(tensor), 1, extent, owner);
  nb::object array = nb::cast(raw);
  array = array.attr("view")(numpyType(ts_tensor_type(tensor))).attr("reshape")(shapeTuple);
  if (ts_tensor_type(tensor) < TS_BF16)
    return array;
  return array.attr("view")(nb::module_::import_("tensmith.arrays").attr("ExchangedArray"));
}

/// (constructor, [field, ...]), nested, from the deepest on: lists are long.
nb::object valueFromTensor(ts_tensor *root) {
  struct Part {
    ts_tensor *value;
    nb::list fields;
  };
  std::vector<Part> stack = {{root, {}}};
  for (;;) {
    Part &top = stack.back();
    size_t next = top.fields.size();
    if (next < ts_tensor_sequence_length(top.value)) {
      ts_tensor *field = ts_tensor_sequence_at(top.value, next);
      if (ts_tensor_kind(field) == TS_DATA)
        stack.push_back({field, {}});
      else
        top.fields.append(fromTensor(field));
      continue;
    }
    nb::object made = nb::make_tuple(ts_tensor_constructor(top.value), top.fields);
    stack.pop_back();
    if (stack.empty())
      return made;
    stack.back().fields.append(made);
  }
}

/// The elements of a vector as Python's numbers or strings.
nb::list listFromTensor(ts_tensor *tensor) {
  nb::list list;
  auto append = [&](auto convert) {
    for (int64_t i = 0; i < ts_tensor_size(tensor); ++i)
      list.append(convert(i));
  };
  void *data = ts_tensor_data(tensor);
  switch (ts_tensor_type(tensor)) {
  case TS_F32:
    append([&](int64_t i) { return nb::float_(static_cast<float *>(data)[i]); });
    return list;
  case TS_I64:
    append([&](int64_t i) { return nb::int_(static_cast<int64_t *>(data)[i]); });
    return list;
  case TS_STRING:
    append([&](int64_t i) { return nb::str(ts_tensor_string(tensor, i)); });
    return list;
  default:
    return nb::borrow<nb::list>(arrayFromTensor(tensor).attr("tolist")());
  }
}

/// The maps of a sequence share their keys: `keys` has those that were converted last.
nb::dict dictFromTensor(ts_tensor *map, std::pair<ts_tensor *, nb::list> &keys) {
  ts_tensor *own = ts_tensor_sequence_at(map, 0);
  if (keys.first != own)
    keys = {own, listFromTensor(own)};
  nb::list values = listFromTensor(ts_tensor_sequence_at(map, 1));
  nb::dict dict;
  for (size_t i = 0; i < values.size(); ++i)
    dict[keys.second[i]] = values[i];
  return dict;
}

} // namespace

nb::object fromTensor(ts_tensor *tensor) {
  if (ts_tensor_kind(tensor) == TS_NONE)
    return nb::none();
  if (ts_tensor_kind(tensor) == TS_TENSOR)
    return arrayFromTensor(tensor);
  if (ts_tensor_kind(tensor) == TS_DATA)
    return valueFromTensor(tensor);
  std::pair<ts_tensor *, nb::list> keys = {nullptr, {}};
  if (ts_tensor_kind(tensor) == TS_MAP)
    return dictFromTensor(tensor, keys);
  nb::list elements;
  for (size_t i = 0; i < ts_tensor_sequence_length(tensor); ++i) {
    ts_tensor *element = ts_tensor_sequence_at(tensor, i);
    bool isMap = ts_tensor_kind(element) == TS_MAP;
    elements.append(isMap ? nb::object(dictFromTensor(element, keys)) : fromTensor(element));
  }
  return elements;
}
