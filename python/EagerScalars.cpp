// Python's numbers and lists to arrays and back.
#include "python/Eager.h"

#include "eager/Tape.h"

#include <complex>

namespace tensmith::python {
namespace {

DataType kindOf(nb::handle value) {
  PyObject *object = value.ptr();
  return PyBool_Check(object)      ? DataType::Bool
         : PyLong_Check(object)    ? DataType::I64
         : PyFloat_Check(object)   ? DataType::F64
         : PyComplex_Check(object) ? DataType::C128
                                   : DataType::Undefined;
}

/// The type of a scalar of that kind beside an array.
DataType typeBeside(DataType kind, DataType array) {
  bool isInexact = isFloat(array) || eager::isComplex(array);
  switch (kind) {
  case DataType::Bool:
    return array;
  case DataType::I64:
    return array == DataType::Bool ? DataType::I64 : array;
  case DataType::F64:
    return isInexact ? array : DataType::F64;
  default:
    if (eager::isComplex(array))
      return array;
    return isInexact && array != DataType::F64 ? DataType::C64 : DataType::C128;
  }
}

void storeInteger(HostTensor &to, int64_t index, PyObject *value) {
  DataType type = to.type();
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  int bits = info(type).bits;
  bool fits;
  if (type == DataType::U64) {
    uint64_t natural = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : uint64_t(number);
    fits = overflow > 0 ? !PyErr_Occurred() : overflow == 0 && number >= 0;
    PyErr_Clear();
    number = int64_t(natural);
  } else if (info(type).kind == TypeClass::Unsigned) {
    fits = overflow == 0 && number >= 0 && number < (int64_t(1) << bits);
  } else {
    fits = overflow == 0 && (bits == 64 || (number >= -(int64_t(1) << (bits - 1)) &&
                                            number < (int64_t(1) << (bits - 1))));
  }
  if (!fits) {
    std::string message = "the number is out of the range of " + std::string(name(type));
    PyErr_SetString(PyExc_OverflowError, message.c_str());
    throw nb::python_error();
  }
  to.setInt(index, number);
}

void storeScalar(HostTensor &to, int64_t index, nb::handle value) {
  DataType type = to.type();
  if (eager::isComplex(type)) {
    std::complex<double> number;
    if (PyComplex_Check(value.ptr()))
      number = {PyComplex_RealAsDouble(value.ptr()), PyComplex_ImagAsDouble(value.ptr())};
    else
      number = PyFloat_AsDouble(value.ptr());
    if (type == DataType::C128)
      to.as<std::complex<double>>()[size_t(index)] = number;
    else
      to.as<std::complex<float>>()[size_t(index)] = std::complex<float>(number);
  } else if (isFloat(type)) {
    to.setDouble(index, PyFloat_AsDouble(value.ptr()));
  } else if (type == DataType::Bool) {
    to.setInt(index, PyObject_IsTrue(value.ptr()));
  } else if (PyLong_Check(value.ptr())) {
    storeInteger(to, index, value.ptr());
  } else { // towards zero, as Python's int() does, which refuses infinities and NaN
    nb::object whole = nb::steal(PyNumber_Long(value.ptr()));
    if (!whole.is_valid())
      throw nb::python_error();
    storeInteger(to, index, whole.ptr());
  }
  if (PyErr_Occurred())
    throw nb::python_error();
}

/// A nested list, flattened.
struct Flat {
  std::vector<nb::object> leaves;
  Shape shape;
};

bool isList(nb::handle value) { return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()); }

void flatten(nb::handle value, size_t depth, Flat &flat) {
  if (!isList(value)) {
    if (depth != flat.shape.size())
      throw nb::value_error("lists are nested unevenly: all at one depth must be as long");
    flat.leaves.push_back(nb::borrow(value));
    return;
  }
  if (depth >= flat.shape.size() || int64_t(nb::len(value)) != flat.shape[depth])
    throw nb::value_error("lists are nested unevenly: all at one depth must be as long");
  for (nb::handle element : nb::borrow<nb::sequence>(value))
    flatten(element, depth + 1, flat);
}

DataType typeOfLeaf(nb::handle leaf) {
  if (nb::isinstance<Tensor>(leaf))
    return nb::cast<Tensor &>(leaf).array.type();
  DataType kind = kindOf(leaf);
  if (kind == DataType::Undefined)
    throw nb::type_error("a tensor is made of numbers, tensors and lists of them");
  return kind;
}

/// Deeper lists are refused: one that contains itself has no end.
constexpr size_t kDeepestList = 64;

/// Of tensors of one shape: copied next to each other.
Array stacked(Flat &flat, DataType type) {
  Shape inner, shape = flat.shape;
  for (nb::object &leaf : flat.leaves)
    if (!nb::isinstance<Tensor>(leaf))
      leaf = nb::cast(Tensor{scalarArray(leaf, DataType::Undefined)});
  if (nb::isinstance<Tensor>(flat.leaves[0]))
    inner = nb::cast<Tensor &>(flat.leaves[0]).array.shape();
  shape.insert(shape.end(), inner.begin(), inner.end());
  Array result = take(Array::allocate(type, shape));
  int64_t size = flat.leaves.empty() ? 0 : result.size() / int64_t(flat.leaves.size());
  for (size_t i = 0; i < flat.leaves.size(); ++i) {
    if (nb::cast<Tensor &>(flat.leaves[i]).array.shape() != inner)
      throw nb::value_error("the tensors of a list must have one shape");
    Array place = result.view(inner, eager::denseStrides(inner), int64_t(i) * size);
    check(eager::assign(place, nb::cast<Tensor &>(flat.leaves[i]).array));
  }
  return result;
}

/// A single number that no tape follows.
bool isPlain(const Array &array) {
  for (const auto &tape : eager::Tape::recording())
    if (tape->isActive(array) || array.storage()->leaf)
      return false;
  return array.shape().empty();
}

} // namespace

bool isScalar(nb::handle value) { return kindOf(value) != DataType::Undefined; }

Array scalarArray(nb::handle value, DataType beside) {
  DataType kind = kindOf(value);
  HostTensor tensor(beside == DataType::Undefined ? kind : typeBeside(kind, beside), {});
  storeScalar(tensor, 0, value);
  return Array::adopt(std::move(tensor));
}

Array arrayOfList(nb::handle value, DataType type) {
  Flat flat;
  for (nb::object first = nb::borrow(value); isList(first);) {
    if (flat.shape.size() == kDeepestList)
      throw nb::value_error("lists are nested more than 64 deep");
    flat.shape.push_back(int64_t(nb::len(first)));
    if (flat.shape.back() == 0)
      break;
    first = nb::borrow<nb::sequence>(first)[0];
  }
  flatten(value, 0, flat);
  DataType found = DataType::Undefined;
  bool hasTensors = false;
  for (nb::handle leaf : flat.leaves) {
    DataType one = typeOfLeaf(leaf);
    hasTensors |= nb::isinstance<Tensor>(leaf) && !isPlain(nb::cast<Tensor &>(leaf).array);
    found = found == DataType::Undefined ? one : eager::promotedType(found, one).value_or(found);
  }
  if (found == DataType::Undefined)
    found = DataType::F64;
  if (type == DataType::Undefined && found == DataType::I64)
    for (nb::handle leaf : flat.leaves) { // beyond int64 there is uint64
      int overflow = 0;
      if (PyLong_Check(leaf.ptr()))
        PyLong_AsLongLongAndOverflow(leaf.ptr(), &overflow);
      if (overflow > 0)
        found = DataType::U64;
    }
  type = type == DataType::Undefined ? found : type;
  if (hasTensors)
    return stacked(flat, type);
  HostTensor tensor(type, flat.shape);
  if (!tensor.valid())
    throw std::bad_alloc();
  for (size_t i = 0; i < flat.leaves.size(); ++i) {
    nb::object leaf = flat.leaves[i];
    if (nb::isinstance<Tensor>(leaf)) {
      const Array &array = nb::cast<Tensor &>(leaf).array;
      waitFor(array);
      leaf = scalarOf(array, array.offset());
    }
    storeScalar(tensor, int64_t(i), leaf);
  }
  return Array::adopt(std::move(tensor));
}

nb::object scalarOf(const Array &array, int64_t offset) {
  const std::byte *at = array.elements() + (offset - array.offset()) * byteSize(array.type());
  const HostTensor element(array.type(), {}, at, array.storage());
  switch (info(array.type()).kind) {
  case TypeClass::Bool:
    return nb::bool_(element.getInt(0) != 0);
  case TypeClass::Signed:
    return nb::steal(PyLong_FromLongLong(element.getInt(0)));
  case TypeClass::Unsigned:
    return nb::steal(PyLong_FromUnsignedLongLong(uint64_t(element.getInt(0))));
  case TypeClass::Complex: {
    std::complex<double> value = array.type() == DataType::C128
                                     ? element.as<std::complex<double>>()[0]
                                     : std::complex<double>(element.as<std::complex<float>>()[0]);
    return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
  }
  default:
    return nb::float_(element.getDouble(0));
  }
}

static nb::object listAt(const Array &array, size_t axis, int64_t offset) {
  if (axis == array.shape().size())
    return scalarOf(array, offset);
  nb::list result;
  for (int64_t i = 0; i < array.shape()[axis]; ++i)
    result.append(listAt(array, axis + 1, offset + i * array.strides()[axis]));
  return result;
}

nb::object listOf(const Array &array) {
  check(eager::tellTapes([&](eager::Tape &tape) { return tape.reads(array); }));
  waitFor(array);
  return listAt(array, 0, array.offset());
}

} // namespace tensmith::python
