// x[...] and x[...] = v.
#include "python/Eager.h"

namespace tensmith::python {
namespace {

using eager::IndexItem;

std::optional<int64_t> bound(nb::handle value) {
  if (value.is_none())
    return std::nullopt;
  nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid())
    throw nb::python_error();
  // Beyond any tensor's size a bound is as good as the largest.
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  constexpr int64_t kFar = int64_t(1) << 62;
  return overflow ? overflow * kFar : std::clamp(number, -kFar, kFar);
}

/// Of another library's array.
nb::object asTensor(nb::handle value) {
  return nb::module_::import_("tensmith.numpy").attr("asarray")(value);
}

IndexItem itemOf(nb::handle value) {
  PyObject *object = value.ptr();
  if (object == Py_None)
    return eager::NewAxis{};
  if (object == Py_Ellipsis)
    return eager::Ellipsis{};
  if (PySlice_Check(object))
    return eager::Slice{bound(value.attr("start")), bound(value.attr("stop")),
                        bound(value.attr("step"))};
  if (PyBool_Check(object))
    return scalarArray(value, DataType::Undefined);
  if (PyLong_Check(object)) {
    int64_t number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throw nb::index_error("the index is out of range");
    }
    return number;
  }
  Array array;
  if (nb::isinstance<Tensor>(value))
    array = nb::cast<Tensor &>(value).array;
  else if (PyList_Check(object))
    array = arrayOfList(value, nb::len(value) == 0 ? DataType::I64 : DataType::Undefined);
  else if (nb::hasattr(value, "__array__")) // NumPy's arrays have __index__ too
    array = nb::cast<Tensor &>(asTensor(value)).array;
  else if (nb::hasattr(value, "__index__"))
    return *bound(value);
  else
    throw nb::index_error("an index is an integer, a slice, None, ..., or a tensor of integers or "
                          "booleans");
  if (array.type() != DataType::Bool && !isInteger(array.type()))
    throw nb::index_error("a tensor that is an index must have elements that are integers or "
                          "booleans");
  waitFor(array);
  if (isInteger(array.type()) && array.rank() == 0)
    return nb::cast<int64_t>(scalarOf(array, array.offset()));
  return array;
}

std::vector<IndexItem> itemsOf(nb::handle key) {
  std::vector<IndexItem> items;
  if (!PyTuple_Check(key.ptr())) {
    items.push_back(itemOf(key));
    return items;
  }
  for (nb::handle each : nb::borrow<nb::tuple>(key))
    items.push_back(itemOf(each));
  return items;
}

eager::Selection selectionOf(const Array &array, nb::handle key) {
  Result<eager::Selection> selection = eager::select(array, itemsOf(key));
  if (!selection.ok())
    throw nb::index_error(selection.status().message().c_str());
  return std::move(*selection);
}

Tensor getItem(const Tensor &tensor, nb::object key) {
  eager::Selection selection = selectionOf(tensor.array, key);
  if (!selection.places)
    return {selection.view};
  waitFor(tensor.array);
  return {take(eager::gather(selection))};
}

void setItem(Tensor &tensor, nb::object key, nb::object value) {
  eager::Selection selection = selectionOf(tensor.array, key);
  Array from;
  if (nb::isinstance<Tensor>(value))
    from = nb::cast<Tensor &>(value).array;
  else if (isScalar(value))
    from = scalarArray(value, tensor.array.type());
  else
    from = nb::cast<Tensor &>(asTensor(value)).array;
  // NumPy takes values with leading dimensions of 1 too.
  while (from.shape().size() > selection.resultShape().size() && from.shape()[0] == 1)
    from =
        from.view(Shape(from.shape().begin() + 1, from.shape().end()),
                  eager::Strides(from.strides().begin() + 1, from.strides().end()), from.offset());
  if (!selection.places)
    return check(eager::assign(selection.view, from));
  if (!tensor.array.storage()->writable)
    throw nb::value_error("the tensor is on memory that may only be read; assign to a copy");
  Array values = take(eager::cast(from, tensor.array.type()));
  waitFor(values);
  waitFor(tensor.array, /*toWrite=*/true);
  if (values.storage() == tensor.array.storage()) {
    Array apart = take(Array::allocate(values.type(), values.shape()));
    eager::copyElements(apart, values);
    values = apart;
  }
  check(eager::scatter(selection, values));
}

} // namespace

void bindIndexing(nb::class_<Tensor> &tensor) {
  tensor.def("__getitem__", getItem, nb::arg("key").none());
  tensor.def("__setitem__", setItem, nb::arg("key").none(), nb::arg("value"));
}

} // namespace tensmith::python
