// What converted functions (tensmith.functions) assume of the values that they have read, checked
// in one call: their guards are a good part of a small step, and most of them compare two pointers.
//
// A call runs no code of the program: values are compared by identity, or have exactly the type of
// a constant, which is one of Python's immutable ones or an element type.
//
// A step's own work leaves little of this in the caches, so that a check costs what it has to
// fetch. What most of them need lies side by side, and of a tensor whose type and shape are those
// of the call before, by identity, these are not looked at.
#include "python/Eager.h"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace tensmith::python {
namespace {

/// A Tensor's array; null for anything else.
const Array *arrayOf(PyObject *x) {
  static PyTypeObject *const type =
      reinterpret_cast<PyTypeObject *>(nb::type<Tensor>().inc_ref().ptr());
  if (Py_TYPE(x) != type && !nb::isinstance<Tensor>(nb::handle(x)))
    return nullptr;
  return &nb::inst_ptr<Tensor>(nb::handle(x))->array;
}

/// Of one type and equal; floats with their signs, so that -0.0 is not 0.0.
bool isConstant(PyObject *x, PyObject *constant) {
  if (x == constant)
    return true;
  if (Py_TYPE(x) != Py_TYPE(constant))
    return false;
  if (PyFloat_CheckExact(x)) {
    double a = PyFloat_AsDouble(x), b = PyFloat_AsDouble(constant);
    return a == b && std::signbit(a) == std::signbit(b);
  }
  int isEqual = PyObject_RichCompareBool(x, constant, Py_EQ);
  if (isEqual < 0)
    throw nb::python_error();
  return isEqual == 1;
}

/// A list of checks, in the order of the values that they are of.
class Guards {
public:
  /// Each a pair: "same" with an object, "equal" with a constant, "leaf" or "tensor" (of an element
  /// type, that asks for gradients or does not) and "shape" with a tensor to be like.
  explicit Guards(const std::vector<std::pair<std::string, nb::object>> &checks) {
    for (const auto &[kind, like] : checks) {
      Kind of = kind == "same"    ? Kind::Same
                : kind == "equal" ? Kind::Equal
                : kind == "shape" ? Kind::Shape
                                  : Kind::Type;
      bool isOfTensor = of == Kind::Shape || of == Kind::Type;
      checks_.push_back({of, isOfTensor ? int(tensors_.size()) : -1, like.ptr()});
      kept_.push_back(like);
      if (!isOfTensor)
        continue;
      const Array &array = nb::cast<Tensor &>(like).array;
      tensors_.push_back({array.on(nullptr), array.type(), array.shape(), kind == "leaf"});
    }
  }

  /// The number of the first check that does not hold; -1 where all do.
  int64_t failed(nb::tuple values) {
    if (values.size() != checks_.size())
      throw nb::value_error("as many values as checks are needed");
    for (size_t i = 0; i < checks_.size(); ++i)
      if (!holds(checks_[i], PyTuple_GetItem(values.ptr(), Py_ssize_t(i))))
        return int64_t(i);
    return -1;
  }

private:
  enum class Kind : uint8_t { Same, Equal, Type, Shape };
  struct Check {
    Kind kind;
    int tensor; // of `tensors_`; -1: none
    PyObject *like;
  };
  struct OfTensor {
    Array last; // the one that was right the last time, without its storage
    DataType type;
    Shape shape;
    bool isLeaf;
  };

  bool holds(const Check &check, PyObject *x) {
    if (check.kind == Kind::Same)
      return x == check.like;
    if (check.kind == Kind::Equal)
      return isConstant(x, check.like);
    const Array *array = arrayOf(x);
    if (!array)
      return false;
    OfTensor &of = tensors_[size_t(check.tensor)];
    if (check.kind == Kind::Type && (array->storage()->leaf != nullptr) != of.isLeaf)
      return false;
    if (array->hasForm(of.last))
      return true;
    bool isRight =
        check.kind == Kind::Shape ? array->shape() == of.shape : array->type() == of.type;
    if (isRight)
      of.last = array->on(nullptr);
    return isRight;
  }

  std::vector<Check> checks_;
  std::vector<OfTensor> tensors_;
  std::vector<nb::object> kept_; // what the checks are by
};

/// By a table with open addressing, at most half full, whose memory stays from call to call.
bool distinct(nb::tuple objects) {
  static thread_local std::vector<const void *> table;
  size_t count = objects.size(), size = std::bit_ceil(2 * count + 2);
  table.assign(size, nullptr);
  for (size_t i = 0; i < count; ++i) {
    const void *object = PyTuple_GetItem(objects.ptr(), Py_ssize_t(i));
    size_t at = (reinterpret_cast<size_t>(object) * 0x9E3779B97F4A7C15u) >> 32;
    for (at &= size - 1; table[at]; at = (at + 1) & (size - 1))
      if (table[at] == object)
        return false;
    table[at] = object;
  }
  return true;
}

const void *memoryOf(nb::handle tensor) {
  const Array *array = arrayOf(tensor.ptr());
  if (!array)
    throw nb::type_error("a tensor is needed");
  return array->storage().get();
}

/// Whether tensors that are written share no memory with each other, nor with those that are read.
bool apart(nb::tuple written, nb::tuple read) {
  std::vector<const void *> own;
  for (nb::handle each : written)
    own.push_back(memoryOf(each));
  std::sort(own.begin(), own.end());
  if (std::adjacent_find(own.begin(), own.end()) != own.end())
    return false;
  return std::none_of(read.begin(), read.end(), [&](nb::handle each) {
    return std::binary_search(own.begin(), own.end(), memoryOf(each));
  });
}

/// Of exactly these keys, in this order.
bool hasKeys(nb::dict dict, nb::tuple keys) {
  if (dict.size() != keys.size())
    return false;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict.ptr(), &at, &key, &value); ++i)
    if (!isConstant(key, PyTuple_GetItem(keys.ptr(), i)))
      return false;
  return true;
}

} // namespace

void bindGuards(nb::module_ &m) {
  nb::class_<Guards>(m, "Guards")
      .def(nb::init<const std::vector<std::pair<std::string, nb::object>> &>())
      .def("failed", &Guards::failed);
  m.def("distinct", distinct);
  m.def("apart", apart);
  m.def("has_keys", hasKeys);
}

} // namespace tensmith::python
