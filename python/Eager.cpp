// The module `_eager`: tensors whose operations run as they are issued. `tensmith.numpy` is made of
// it.
#include "python/Eager.h"

#include "base/Philox.h"
#include "eager/Coexecution.h"
#include "eager/Kernels.h"
#include "eager/Tape.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <map>

namespace tensmith::python {
namespace {

/// By the package, which knows how graphs are made of texts. What Python raises goes on to Python.
Result<std::shared_ptr<eager::Compiled>> compileOn(const eager::Compiled &program,
                                                   const eager::Device &device) {
  nb::object make = nb::module_::import_("tensmith.recorded.programs").attr("compiled_on");
  return nb::cast<std::shared_ptr<eager::Compiled>>(make(program.source, device.name));
}

/// The innermost line of the caller's program that is not the package's own. Python finds a line by
/// going through all of its function's, which takes longer than to issue an operation; so lines are
/// kept by code and instruction, and their codes with them.
std::string placeOfCaller() {
  static constexpr size_t kMostKept = 4096;
  static auto &kept = *new std::map<std::pair<PyObject *, int>, std::pair<nb::object, std::string>>;
  static const auto &package = *new std::string(
      nb::cast<std::string>(nb::module_::import_("tensmith").attr("__path__")[0]) + "/");
  nb::object at = nb::borrow(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
  for (int depth = 0; at.is_valid() && !at.is_none() && depth < 16; ++depth) {
    nb::object code = at.attr("f_code");
    std::pair key(code.ptr(), nb::cast<int>(at.attr("f_lasti")));
    auto found = kept.find(key);
    if (found == kept.end()) {
      auto file = nb::cast<std::string>(code.attr("co_filename"));
      std::string place;
      if (!file.starts_with(package))
        place = file + ":" + std::to_string(nb::cast<int>(at.attr("f_lineno")));
      if (kept.size() >= kMostKept)
        kept.clear();
      found = kept.emplace(key, std::pair(code, std::move(place))).first;
    }
    if (!found->second.second.empty())
      return found->second.second;
    at = at.attr("f_back");
  }
  return {};
}

nb::object applyNamed(const std::string &name, const std::vector<Tensor *> &tensors,
                      const nb::dict &attributes) {
  const eager::Operator *op = eager::findOperator(name);
  if (!op)
    throw nb::value_error(("there is no operator '" + name + "'").c_str());
  std::vector<Array> operands;
  for (Tensor *tensor : tensors)
    operands.push_back(tensor->array);
  std::vector<Array> results = take(eager::dispatch(*op, attributesOf(attributes), operands));
  if (results.size() == 1 && name != "nonzero")
    return nb::cast(Tensor{results[0]});
  nb::list list;
  for (Array &result : results)
    list.append(nb::cast(Tensor{std::move(result)}));
  return nb::tuple(list);
}

/// A copy with memory of its own.
Array copied(const Array &array) {
  Array result = take(Array::allocate(array.type(), array.shape(), array.device()));
  check(eager::assign(result, array));
  return result;
}

std::vector<Array> arraysOf(const std::vector<Tensor *> &tensors) {
  std::vector<Array> arrays;
  arrays.reserve(tensors.size());
  for (const Tensor *tensor : tensors)
    arrays.push_back(tensor->array);
  return arrays;
}

/// Each tensor's elements become those of the value with the number at its place, which has its
/// type and shape. A value that the list alone has is taken from it: its memory becomes the
/// tensor's, and the list has None there.
void assignAll(const std::vector<Tensor *> &tensors, nb::list values,
               const std::vector<size_t> &numbers) {
  if (tensors.size() != numbers.size())
    throw nb::value_error("as many values as tensors are assigned");
  std::vector<Array> to = arraysOf(tensors), from;
  std::vector<size_t> taken;
  {
    std::vector<nb::object> held;
    for (size_t number : numbers) {
      held.push_back(values[number]);
      from.push_back(nb::cast<Tensor &>(held.back()).array);
    }
    for (size_t i = 0; i < held.size(); ++i)
      if (Py_REFCNT(held[i].ptr()) == 2) // of the list, and of `held`: twice there is in it more
        taken.push_back(i);
    for (size_t i : taken)
      values[numbers[i]] = nb::none();
  }
  check(eager::assignAll(to, from, taken));
}

/// The same of results, of which those are taken that Python has never seen. Tensors that the run
/// has written over itself have theirs.
void assignResults(const std::vector<Tensor *> &tensors, Results &results,
                   const std::vector<size_t> &numbers) {
  if (tensors.size() != numbers.size())
    throw nb::value_error("as many values as tensors are assigned");
  std::vector<Array> to, from;
  std::vector<size_t> taken, takenNumbers;
  for (size_t i = 0; i < numbers.size(); ++i) {
    size_t number = numbers[i];
    if (number >= results.arrays.size() || !results.arrays[number])
      throw nb::index_error("there is no such result");
    if (results.isUpdate[number] && results.arrays[number].storage() == tensors[i]->array.storage())
      continue;
    if (!results.isShown[number] && !results.isUpdate[number]) {
      taken.push_back(from.size());
      takenNumbers.push_back(number);
    }
    to.push_back(tensors[i]->array);
    from.push_back(results.arrays[number]);
  }
  for (size_t number : takenNumbers)
    results.arrays[number] = Array();
  check(eager::assignAll(to, from, taken));
  for (size_t i = 0; results.spare && i < taken.size(); ++i) // what the tensors had before, where
    results.spare->keep(takenNumbers[i], std::move(from[taken[i]])); // their values were moved
}

/// A view, and what it is of it.
Tensor viewed(const Tensor &of, const Array &view, eager::ViewStep step) {
  check(eager::tellView(of.array, view, std::move(step)));
  return {view};
}

Tensor reshaped(const Tensor &tensor, Shape shape, std::optional<bool> copy) {
  int64_t known = 1;
  int64_t *open = nullptr;
  for (int64_t &size : shape) {
    if (size == -1 && !open)
      open = &size;
    else if (size < 0)
      throw nb::value_error("sizes of a shape are not negative, but for one -1");
    else
      known *= size;
  }
  if (open)
    *open = known ? tensor.array.size() / known : 0;
  if (elementCount(shape) != tensor.array.size())
    throw nb::value_error(("a tensor of shape " + toString(tensor.array.shape()) +
                           " can't be one of shape " + toString(shape))
                              .c_str());
  if (!copy.value_or(false))
    if (std::optional<Array> view = tensor.array.reshaped(shape))
      return viewed(tensor, *view, {"reshape", shape});
  if (copy && !*copy)
    throw nb::value_error("this shape needs a copy, and copy is False");
  Tensor copyOf{copied(tensor.array)};
  return viewed(copyOf, *copyOf.array.reshaped(shape), {"reshape", shape});
}

Tensor broadcast(const Tensor &tensor, const Shape &shape) {
  std::optional<Array> view = tensor.array.broadcastTo(shape);
  if (!view)
    throw nb::value_error(("a tensor of shape " + toString(tensor.array.shape()) +
                           " does not broadcast to " + toString(shape))
                              .c_str());
  return viewed(tensor, *view, {"broadcast", shape});
}

Tensor permuted(const Tensor &tensor, const std::vector<int64_t> &axes) {
  Array view = tensor.array.permuted(axes);
  return viewed(tensor, view, {.name = "transpose", .shape = view.shape(), .permutation = axes});
}

Tensor filled(const Shape &shape, nb::handle value, const ElementKind &kind) {
  Array result = take(Array::allocate(kind.type, shape)), number = arrayOfList(value, kind.type);
  // There at once, whatever the engine does: tapes take some numbers as a part of the structure.
  if (shape.empty() && number.shape().empty())
    check(eager::copyElements(result, number));
  else
    check(eager::assign(result, number));
  return {result};
}

Tensor casted(const Tensor &tensor, const ElementKind &kind) {
  return {take(eager::cast(tensor.array, kind.type))};
}

/// The tensors next to each other along an axis.
Tensor concatenated(const std::vector<Tensor *> &tensors, int64_t axis, const ElementKind &kind) {
  Shape shape = tensors.at(0)->array.shape();
  shape[size_t(axis)] = 0;
  for (Tensor *tensor : tensors) {
    Shape other = tensor->array.shape();
    if (other.size() != shape.size())
      throw nb::value_error("tensors that are concatenated have one rank");
    shape[size_t(axis)] += other[size_t(axis)];
    other[size_t(axis)] = shape[size_t(axis)];
    if (other != shape)
      throw nb::value_error("tensors that are concatenated have one shape but for the axis");
  }
  std::vector<Array> parts;
  for (Tensor *tensor : tensors)
    parts.push_back(take(eager::cast(tensor->array, kind.type)));
  return {take(eager::concatenate(axis, parts, std::move(shape)))};
}

const eager::Device *deviceNamed(const std::string &name) {
  Result<const eager::Device *> device = eager::findDevice(name);
  if (!device.ok())
    throw nb::value_error(device.status().message().c_str());
  return *device;
}

/// The same elements there, as a step of what records.
Tensor onDevice(const Tensor &tensor, const std::string &name) {
  const eager::Device *device = deviceNamed(name);
  if (tensor.array.device() == device)
    return tensor;
  Array result = take(Array::allocate(tensor.array.type(), tensor.array.shape(), device));
  check(eager::assign(result, tensor.array));
  return {result};
}

/// The tensor itself, which is all of its memory: a parameter, whose gradient comes along.
void moveTo(Tensor &tensor, const std::string &name) {
  if (!eager::Tape::recording().empty() || eager::Coexecution::current())
    throw nb::type_error("modules are moved to devices before anything is recorded of them");
  const eager::Device *device = deviceNamed(name);
  std::shared_ptr<eager::Leaf> leaf = tensor.array.storage()->leaf;
  auto moved = [&](const Array &array) {
    waitFor(array);
    return take(eager::on(device, take(eager::dense(array))));
  };
  Array there = tensor.array.device() == device ? tensor.array : moved(tensor.array);
  if (leaf && leaf->gradient)
    leaf->gradient = moved(leaf->gradient);
  tensor.array = std::move(there);
  tensor.array.storage()->leaf = std::move(leaf);
}

nb::object single(const Tensor &tensor) {
  if (tensor.array.size() != 1)
    throw nb::value_error(
        ("a tensor of shape " + toString(tensor.array.shape()) + " is no single number").c_str());
  check(eager::tellTapes([&](eager::Tape &tape) { return tape.reads(tensor.array); }));
  waitFor(tensor.array);
  return scalarOf(tensor.array, tensor.array.offset());
}

/// Of element `at` of a key's stream, in [0, 1): a multiple of half the type's epsilon, so that it
/// is never rounded up to 1.
double uniformOf(DataType type, uint64_t key, uint64_t at) {
  if (type == DataType::F64)
    return uniform53At(key, at);
  double steps = type == DataType::F16 ? 0x1p11 : type == DataType::BF16 ? 0x1p8 : 0x1p24;
  return std::floor(uniformAt(key, at) * steps) / steps;
}

/// Numbers `first`, first + 1 ... of the stream of a key: uniform in [0, 1), or normal.
Tensor drawn(const std::string &kind, uint64_t key, uint64_t first, const Shape &shape,
             const ElementKind &element) {
  HostTensor values(element.type, shape);
  if (!values.valid() || values.size() < 0)
    throw std::bad_alloc();
  for (int64_t i = 0; i < values.size(); ++i) {
    uint64_t at = first + uint64_t(i);
    values.setDouble(i, kind == "normal" ? normalAt(key, at) : uniformOf(element.type, key, at));
  }
  return {Array::adopt(std::move(values))};
}

void bindTensor(nb::module_ &m, nb::class_<Tensor> &tensor) {
  tensor.def_prop_ro("dtype", [](const Tensor &t) { return elementKind(t.array.type()); });
  tensor.def_prop_ro("shape", [](const Tensor &t) {
    nb::list sizes;
    for (int64_t size : t.array.shape())
      sizes.append(size);
    return nb::tuple(sizes);
  });
  tensor.def_prop_ro("ndim", [](const Tensor &t) { return t.array.rank(); });
  tensor.def_prop_ro("size", [](const Tensor &t) { return t.array.size(); });
  tensor.def_prop_ro("strides", [](const Tensor &t) { return t.array.strides(); });
  tensor.def_prop_ro("is_dense", [](const Tensor &t) { return t.array.isDense(); });
  tensor.def_prop_ro("device", [](const Tensor &t) -> std::string {
    return t.array.device() ? t.array.device()->name : "cpu";
  });
  tensor.def("wait", [](const Tensor &t) { waitFor(t.array); });
  tensor.def("is_ready", [](const Tensor &t) {
    check(eager::Coexecution::read(t.array));
    return eager::Engine::ofProcess().isReady(t.array.storage()->variable);
  });
  tensor.def("item", single);
  tensor.def("tolist", [](const Tensor &t) { return listOf(t.array); });
  tensor.def("shares_memory", [](const Tensor &a, const Tensor &b) {
    return a.array.storage() == b.array.storage();
  });
  m.def("copy", [](const Tensor &t) { return Tensor{copied(t.array)}; });
  m.def("assign_all", assignResults);
  m.def("assign_all", assignAll);
  m.def("reshape", reshaped, nb::arg("x"), nb::arg("shape"), nb::arg("copy").none());
  m.def("permute", permuted);
  m.def("broadcast_to", broadcast);
  m.def("part", [](const Tensor &t, bool imaginary) { return Tensor{t.array.part(imaginary)}; });
  m.def("to_device", onDevice);
  m.def("move_to", moveTo);
  m.def("device", [](const std::string &name) -> std::string {
    const eager::Device *device = deviceNamed(name);
    return device ? device->name : "cpu";
  });
  m.def("full", filled);
  m.def("cast", casted);
  m.def("concat", concatenated);
  m.def(
      "from_list",
      [](nb::handle value, nb::object kind) {
        DataType type = kind.is_none() ? DataType::Undefined : nb::cast<ElementKind &>(kind).type;
        return Tensor{arrayOfList(value, type)};
      },
      nb::arg("value"), nb::arg("dtype").none());
  m.def("apply", applyNamed);
  m.def("random", drawn);
}

void bindEngine(nb::module_ &m) {
  eager::Kernels::ofProcess(); // reads the environment
  m.def("wait_for_all", [] {
    nb::gil_scoped_release unlocked;
    eager::Engine::ofProcess().waitForAll();
  });
  m.def("finish", [] {
    nb::gil_scoped_release unlocked;
    eager::Engine::ofProcess().waitForAll();
    eager::Kernels::ofProcess().finish();
  });
  m.def("set_naive", [](bool naive) {
    nb::gil_scoped_release unlocked;
    eager::Engine::ofProcess().setNaive(naive);
  });
  m.def("begin_trace", [] {
    nb::gil_scoped_release unlocked; // the end of an operation may need the lock
    eager::Engine::ofProcess().beginTrace();
  });
  m.def("end_trace", [] {
    nb::gil_scoped_release unlocked;
    return eager::Engine::ofProcess().endTrace();
  });
  m.def("kernel_statistics", [] {
    eager::Kernels::Statistics statistics = eager::Kernels::ofProcess().statistics();
    nb::dict result;
    result["compiled"] = statistics.compiled;
    result["loaded"] = statistics.loaded;
    result["failed"] = statistics.failed;
    result["runs"] = statistics.runs;
    return result;
  });
}

} // namespace

nb::object elementKind(DataType type) {
  static auto &kinds = *new std::vector<nb::object>(kDataTypeCount);
  nb::object &kind = kinds[size_t(type)];
  if (!kind.is_valid())
    kind = nb::cast(ElementKind{type});
  return kind;
}

Attributes attributesOf(const nb::dict &given) {
  Attributes attributes;
  for (auto [key, value] : given) {
    auto name = nb::cast<std::string>(key);
    if (nb::isinstance<ElementKind>(value))
      attributes.set(name, int64_t(nb::cast<ElementKind &>(value).type));
    else if (nb::isinstance<nb::bool_>(value))
      attributes.set(name, int64_t(nb::cast<bool>(value)));
    else if (nb::isinstance<nb::int_>(value))
      attributes.set(name, nb::cast<int64_t>(value));
    else if (nb::isinstance<nb::float_>(value))
      attributes.set(name, nb::cast<double>(value));
    else if (nb::isinstance<nb::str>(value))
      attributes.set(name, nb::cast<std::string>(value));
    else if (nb::len(value) > 0 && nb::isinstance<nb::float_>(nb::object(value[0])))
      attributes.set(name, nb::cast<std::vector<double>>(value));
    else
      attributes.set(name, nb::cast<std::vector<int64_t>>(value));
  }
  return attributes;
}

void raise(const Status &status) {
  switch (status.code()) {
  case StatusCode::InvalidArgument:
    throw nb::value_error(status.message().c_str());
  case StatusCode::Unsupported:
    throw nb::type_error(status.message().c_str());
  case StatusCode::ResourceExhausted:
    PyErr_SetString(PyExc_MemoryError, status.message().c_str());
    throw nb::python_error();
  default:
    throw std::runtime_error(status.message());
  }
}

Array apply(const eager::Operator &op, const Attributes &attributes,
            std::span<const Array> operands) {
  return std::move(take(eager::dispatch(op, attributes, operands)).front());
}
Array apply(std::string_view name, std::span<const Array> operands, const Attributes &attributes) {
  return apply(*eager::findOperator(name), attributes, operands);
}

void waitFor(const Array &array, bool toWrite) { check(eager::wait(array, toWrite)); }

} // namespace tensmith::python

NB_MODULE(_eager, m) {
  using namespace tensmith;
  using namespace tensmith::python;
  nb::set_leak_warnings(false); // element types last as long as the process
  nb::class_<ElementKind>(m, "DType")
      .def_prop_ro("name", [](const ElementKind &kind) { return std::string(name(kind.type)); })
      .def_prop_ro("itemsize", [](const ElementKind &kind) { return byteSize(kind.type); })
      .def(
          "__eq__",
          [](const ElementKind &a, nb::handle b) {
            return nb::isinstance<ElementKind>(b) && nb::cast<ElementKind &>(b).type == a.type;
          },
          nb::arg("other").none())
      .def("__hash__", [](const ElementKind &kind) { return int64_t(kind.type) + 1; });
  m.def("dtype", [](const std::string &name) {
    std::optional<DataType> type = parseDataType(name);
    if (!type)
      throw nb::value_error(("there is no element type '" + name + "'").c_str());
    return elementKind(*type);
  });
  m.def("promote", [](const ElementKind &a, const ElementKind &b) {
    std::optional<DataType> type = eager::promotedType(a.type, b.type);
    if (!type)
      throw nb::type_error("these types do not go together");
    return elementKind(*type);
  });
  auto tensor =
      nb::class_<Tensor>(m, "Tensor", nb::type_slots(tensorSlots), nb::is_weak_referenceable());
  bindTensor(m, tensor);
  bindOperators(m, tensor);
  bindIndexing(m, tensor);
  bindExchange(m, tensor);
  bindEngine(m);
  bindTape(m, tensor);
  bindGuards(m);
  bindCoexecution(m);
  bindFiles(m);
  eager::setCaller(
      {.place = placeOfCaller,
       .stack = stackOfStep,
       .compileOn = compileOn,
       .letGo = []() -> void * { return PyEval_SaveThread(); },
       .takeBack = [](void *state) { PyEval_RestoreThread(static_cast<PyThreadState *>(state)); }});
}
