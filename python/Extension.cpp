// The extension module under the package `tensmith`: handles of the C API as Python objects,
// tensors as DLPack.
//
// Nothing is copied on the way in (a NumPy array or any DLPack tensor that is dense and row-major
// is borrowed) or out (outputs are NumPy arrays on the library's memory). The interpreter's lock is
// released while models compile and run.
#include "python/CompilerLibrary.h"
#include "python/Settings.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace {

struct Error : std::runtime_error {
  explicit Error(const std::string &message, ts_status_code code = TS_INVALID_ARGUMENT)
      : std::runtime_error(message), code(code) {}
  ts_status_code code;
};

const char *codeName(ts_status_code code) {
  static constexpr const char *kNames[] = {
      "ok",          "invalid_argument",   "invalid_model", "invalid_module",
      "unsupported", "resource_exhausted", "io_error",      "internal"};
  return size_t(code) < std::size(kNames) ? kNames[code] : "internal";
}

/// As tensmith.Error, whose `code` says what kind of failure it is.
void raise(const std::exception_ptr &thrown, void *type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error &error) {
    nb::handle errorType(static_cast<PyObject *>(type));
    nb::object instance = errorType(error.what());
    instance.attr("code") = codeName(error.code);
    PyErr_SetObject(errorType.ptr(), instance.ptr());
  }
}

void check(ts_status *status) {
  if (!status)
    return;
  Error error(ts_status_message(status), ts_status_get_code(status));
  ts_status_free(status);
  throw error;
}

/// The compiler, which is loaded by the first that asks.
const tensmith::python::CompilerLibrary &compiler() {
  const auto &library = tensmith::python::compilerLibrary();
  if (!library.failure.empty())
    throw Error(library.failure, TS_UNSUPPORTED);
  return library;
}

struct Release {
  void operator()(ts_tensor *tensor) const { ts_tensor_free(tensor); }
  void operator()(ts_module *module) const { ts_module_free(module); }
  void operator()(ts_session *session) const { ts_session_free(session); }
};
template <typename T> using Owned = std::unique_ptr<T, Release>;

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

Owned<ts_tensor> toTensor(nb::handle value, ts_type type = TS_UNDEFINED);

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

Owned<ts_tensor> arrayToTensor(nb::object array) {
  nb::module_ numpy = nb::module_::import_("numpy");
  std::string kind = nb::cast<std::string>(nb::str(array.attr("dtype").attr("kind")));
  if (kind == "U" || kind == "S" || kind == "O" || kind == "T")
    return stringsToTensor(array);
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

/// A value of a data type as Python has it: an object with the constructor's number in `tag` and
/// the fields' handles in `fields` (tensmith.Value). Iterative, since lists are long.
bool isArray(nb::handle value) {
  return std::string_view(Py_TYPE(value.ptr())->tp_name) == "numpy.ndarray";
}
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

/// What a value was converted to before, or null. A value doesn't change, and a tree is often given
/// again, of which taking it apart would take as long as computing with it.
ts_tensor *keptTensor(nb::handle value) {
  static PyObject *const name = PyUnicode_InternFromString("_kept");
  nb::object kept = attributeOf(value, name);
  return kept.is_none() ? nullptr : static_cast<ts_tensor *>(nb::cast<nb::capsule>(kept).data());
}

void keepTensor(nb::handle value, ts_tensor *tensor) {
  ts_tensor_retain(tensor);
  value.attr("_kept") = nb::capsule(
      tensor, [](void *held) noexcept { ts_tensor_free(static_cast<ts_tensor *>(held)); });
}

Owned<ts_tensor> valueToTensor(nb::handle root) {
  static PyObject *const fields = PyUnicode_InternFromString("fields");
  static PyObject *const tag = PyUnicode_InternFromString("tag");
  struct Part {
    nb::object value;
    std::vector<Owned<ts_tensor>> fields;
    nb::tuple parts;
  };
  if (ts_tensor *kept = keptTensor(root)) {
    ts_tensor_retain(kept);
    return Owned<ts_tensor>(kept);
  }
  bool shares = true; // all elements with the arrays, so that what is written to those is seen
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
      keepTensor(root, made);
    return value;
  }
}

/// `type` is that of the values of maps, which Python's numbers do not have.
Owned<ts_tensor> toTensor(nb::handle value, ts_type type) {
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
    return arrayToTensor(numpy.attr("from_dlpack")(value));
  return arrayToTensor(numpy.attr("asarray")(value));
}

nb::object fromTensor(ts_tensor *tensor);

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
  return array.attr("view")(numpyType(ts_tensor_type(tensor))).attr("reshape")(shapeTuple);
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

nb::dict portOf(const ts_port &port) {
  nb::dict result;
  result["name"] = port.name;
  result["kind"] = port.kind == TS_TENSOR     ? "tensor"
                   : port.kind == TS_SEQUENCE ? "sequence"
                   : port.kind == TS_OPTIONAL ? "optional"
                   : port.kind == TS_MAP      ? "map"
                   : port.kind == TS_DATA     ? "data"
                                              : "none";
  result["type"] = ts_type_name(port.type);
  nb::list dims;
  for (int64_t i = 0; i < port.rank; ++i)
    dims.append(nb::str(port.dims[i]));
  result["dims"] = port.rank < 0 ? nb::object(nb::none()) : nb::object(dims);
  return result;
}

/// The states of a module, held for as long as steps are made with them.
class States {
public:
  explicit States(ts_module *module) : module_(module) {
    for (size_t i = 0; i < ts_module_state_count(module); ++i) {
      ts_tensor *tensor = nullptr;
      check(ts_module_state_initial(module, i, &tensor));
      tensors_.emplace_back(tensor);
    }
  }

  States(const States &) = delete;
  States &operator=(const States &) = delete;

  size_t size() const { return tensors_.size(); }
  ts_tensor *tensor(size_t index) const { return tensors_.at(index).get(); }
  ts_state state(size_t index) const { return ts_module_state(module_, index); }
  nb::object array(size_t index) const { return arrayFromTensor(tensors_.at(index).get()); }

private:
  ts_module *module_; // of the Module that Python keeps alive
  std::vector<Owned<ts_tensor>> tensors_;
};

class Module {
public:
  Module(ts_module *module, int threads, int64_t depth, int64_t instructions) : module_(module) {
    ts_session_options options{sizeof(options), threads, 0, depth, instructions, 0, 0, 0};
    ts_session *session = nullptr;
    check(ts_session_create(module, &options, &session));
    session_.reset(session);
  }

  nb::list run(nb::list inputs) {
    std::vector<Owned<ts_tensor>> held;
    std::vector<ts_tensor *> pointers;
    for (nb::handle input : inputs) {
      size_t number = held.size();
      ts_type type = number < ts_module_input_count(module_.get())
                         ? ts_module_input(module_.get(), number).type
                         : TS_UNDEFINED;
      held.push_back(toTensor(input, type));
      pointers.push_back(held.back().get());
    }
    std::vector<ts_tensor *> outputs(ts_module_output_count(module_.get()));
    ts_status *status;
    {
      nb::gil_scoped_release unlocked;
      status = ts_session_run(session_.get(), pointers.data(), pointers.size(), outputs.data(),
                              outputs.size());
    }
    check(status);
    nb::list results;
    for (ts_tensor *output : outputs) {
      Owned<ts_tensor> owned(output);
      results.append(fromTensor(output));
    }
    return results;
  }

  States *states() const { return new States(module_.get()); }

  nb::list stateList() const {
    nb::list result;
    for (size_t i = 0; i < ts_module_state_count(module_.get()); ++i) {
      ts_state state = ts_module_state(module_.get(), i);
      nb::dict entry;
      entry["name"] = state.name;
      entry["kind"] = state.kind == TS_STATE_PARAMETER ? "parameter"
                      : state.kind == TS_STATE_SLOT    ? "slot"
                                                       : "step";
      entry["input"] = state.input;
      entry["output"] = state.output;
      result.append(entry);
    }
    return result;
  }

  /// Runs once and updates the states. `inputs` are those that are no states, in order; the results
  /// likewise.
  nb::list step(nb::list inputs, const States &states) {
    size_t inputCount = ts_module_input_count(module_.get());
    std::vector<ts_tensor *> given(inputCount), outputs(ts_module_output_count(module_.get()));
    for (size_t i = 0; i < states.size(); ++i)
      given[states.state(i).input] = outputs[states.state(i).output] = states.tensor(i);
    std::vector<Owned<ts_tensor>> held;
    for (size_t i = 0; i < inputCount; ++i) {
      if (given[i])
        continue;
      if (held.size() == inputs.size())
        throw nb::value_error("the step has more inputs");
      held.push_back(toTensor(inputs[held.size()], ts_module_input(module_.get(), i).type));
      given[i] = held.back().get();
    }
    std::vector<bool> isState;
    for (ts_tensor *output : outputs)
      isState.push_back(output != nullptr);
    ts_status *status;
    {
      nb::gil_scoped_release unlocked;
      status = ts_session_run(session_.get(), given.data(), given.size(), outputs.data(),
                              outputs.size());
    }
    check(status);
    nb::list results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (isState[i])
        continue;
      Owned<ts_tensor> owned(outputs[i]);
      results.append(fromTensor(outputs[i]));
    }
    return results;
  }

  nb::list ports(bool inputs) const {
    nb::list result;
    size_t count =
        inputs ? ts_module_input_count(module_.get()) : ts_module_output_count(module_.get());
    for (size_t i = 0; i < count; ++i)
      result.append(
          portOf(inputs ? ts_module_input(module_.get(), i) : ts_module_output(module_.get(), i)));
    return result;
  }

  std::string describe() const {
    char *json = nullptr;
    check(ts_module_describe(module_.get(), &json));
    std::string text(json);
    ts_string_free(json);
    return text;
  }

  int threads() const { return ts_session_threads(session_.get()); }

private:
  Owned<ts_module> module_;
  Owned<ts_session> session_;
};

void compileFile(const std::string &path, const std::string &out, const Settings &settings) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers, compiler());
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().compileFile(path.c_str(), &options, out.c_str());
  }
  check(status);
}

nb::bytes compileBytes(nb::bytes model, const std::string &name, const Settings &settings) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers, compiler());
  void *module = nullptr;
  size_t size = 0;
  const char *data = model.c_str();
  size_t length = model.size();
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().compileBytes(data, length, name.c_str(), &options, &module, &size);
  }
  check(status);
  nb::bytes result(module, size);
  compiler().freeBytes(module);
  return result;
}

Module *load(nb::object source, int threads, int64_t depth, int64_t instructions) {
  ts_module *module = nullptr;
  if (nb::isinstance<nb::bytes>(source)) {
    auto bytes = nb::cast<nb::bytes>(source);
    check(ts_module_load_bytes(bytes.c_str(), bytes.size(), nullptr, &module));
  } else {
    check(ts_module_load(nb::cast<std::string>(nb::str(source)).c_str(), nullptr, &module));
  }
  return new Module(module, threads, depth, instructions);
}

/// A model's declared interface as JSON; of `bytes` where they are given, else of the file.
std::string describeInterface(const std::string &path, std::optional<nb::bytes> bytes) {
  char *json = nullptr;
  check(compiler().describeInterface(path.c_str(), bytes ? bytes->c_str() : nullptr,
                                     bytes ? bytes->size() : 0, &json));
  std::string text(json);
  ts_string_free(json);
  return text;
}

} // namespace

NB_MODULE(_tensmith, m) {
  nb::object error = nb::steal(PyErr_NewException("tensmith._tensmith.Error", nullptr, nullptr));
  error.attr("code") = "internal";
  m.attr("Error") = error;
  nb::register_exception_translator(raise, error.ptr());
  bindSettings(m);
  nb::class_<States>(m, "States").def("array", &States::array);
  nb::class_<Module>(m, "Module")
      .def("states", &Module::states, nb::keep_alive<0, 1>())
      .def("state_list", &Module::stateList)
      .def("step", &Module::step)
      .def("run", &Module::run)
      .def("ports", &Module::ports)
      .def("describe", &Module::describe)
      .def_prop_ro("threads", &Module::threads);
  m.def("compile_file", &compileFile);
  m.def("compile_bytes", &compileBytes);
  m.def("load", &load);
  m.def("describe_interface", &describeInterface, nb::arg("path"), nb::arg("bytes").none());
  m.def("version", [] { return ts_version(); });
}
