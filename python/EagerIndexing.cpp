// x[...] and x[...] = v.
#include "python/Eager.h"

#include "eager/Tape.h"

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
  else if (isNumpy(value))
    array = nb::cast<Tensor>(tensorOf(value)).array;
  else if (nb::hasattr(value, "__index__"))
    return *bound(value);
  else
    throw nb::index_error("an index is an integer, a slice, None, ..., or a tensor of integers or "
                          "booleans");
  if (array.type() != DataType::Bool && !isInteger(array.type()))
    throw nb::index_error("a tensor that is an index must have elements that are integers or "
                          "booleans");
  check(eager::tellTapes([&](eager::Tape &tape) { return tape.reads(array); }));
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

/// Told to tapes as a slice, and a reshape where dimensions come and go.
void tellView(const Array &of, const Array &view, const eager::Ranges &ranges) {
  eager::Strides strides;
  int64_t offset = of.offset();
  for (size_t axis = 0; axis < ranges.sizes.size(); ++axis) {
    strides.push_back(of.strides()[axis] * (ranges.sizes[axis] > 1 ? ranges.steps[axis] : 1));
    offset += ranges.starts[axis] * of.strides()[axis];
  }
  Array sliced = of.view(ranges.sizes, strides, offset);
  check(eager::tellView(of, sliced,
                        {"slice", sliced.shape(), ranges.starts, ranges.steps, ranges.fromEnd}));
  check(eager::tellView(sliced, view, {"reshape", view.shape()}));
}

eager::Selection selectionOf(const Array &array, nb::handle key) {
  if (key.ptr() == Py_Ellipsis) {
    eager::Selection whole;
    whole.view = array;
    return whole;
  }
  eager::Ranges ranges;
  bool isRecorded = eager::areViewsTold();
  Result<eager::Selection> selection =
      eager::select(array, itemsOf(key), isRecorded ? &ranges : nullptr);
  if (isRecorded && selection.ok() && !selection->places)
    tellView(array, selection->view, ranges);
  if (selection.status().code() == StatusCode::ResourceExhausted)
    raise(selection.status());
  if (!selection.ok())
    throw nb::index_error(selection.status().message().c_str());
  return std::move(*selection);
}

/// How a thread whose recording must not read elements has them taken and put at places that
/// tensors tell: by operators of the graph. Of a tensor, a key, and the values that are put. Owned.
thread_local PyObject *gathering = nullptr;

bool isGathering() { return gathering; }

/// None: not at all. Gives what was set before.
nb::object setGathering(nb::object function) {
  PyObject *before =
      std::exchange(gathering, function.is_none() ? nullptr : function.release().ptr());
  return before ? nb::steal(before) : nb::none();
}

/// Whether an index, or one of several, tells places by elements.
bool hasPlaces(nb::handle key) {
  auto isPlaces = [](nb::handle each) {
    return nb::isinstance<Tensor>(each) || PyList_Check(each.ptr()) || isNumpy(each);
  };
  if (!PyTuple_Check(key.ptr()))
    return isPlaces(key);
  for (nb::handle each : nb::borrow<nb::tuple>(key))
    if (isPlaces(each))
      return true;
  return false;
}

Tensor getItem(const Tensor &tensor, nb::object key) {
  if (isGathering() && hasPlaces(key))
    return nb::cast<Tensor>(nb::handle(gathering)(nb::cast(tensor), key));
  eager::Selection selection = selectionOf(tensor.array, key);
  if (!selection.places)
    return {selection.view};
  waitFor(tensor.array);
  Array result = take(eager::gather(selection));
  if (!eager::Tape::recording().empty()) {
    int64_t row = 1;
    std::vector<int64_t> places = eager::placesOf(selection, row);
    check(eager::tellTapes(
        [&](eager::Tape &tape) { return tape.gathered(tensor.array, places, row, result); }));
  }
  return {result};
}

/// The values, broadcast to what is chosen.
void tellScatter(const Array &to, const eager::Selection &selection, const Array &values) {
  std::optional<Array> whole = values.broadcastTo(selection.resultShape());
  if (!whole)
    return; // the write says why
  int64_t row = 1;
  std::vector<int64_t> places = eager::placesOf(selection, row);
  check(eager::tellTapes([&](eager::Tape &tape) {
    tape.view(values, *whole, {"broadcast", whole->shape()});
    return tape.scattered(to, places, row, *whole);
  }));
}

void setItem(Tensor &tensor, nb::object key, nb::object value) {
  check(eager::checkWritable(tensor.array));
  if (isGathering() && hasPlaces(key)) {
    nb::handle by = gathering;
    by(nb::cast(tensor), key, value);
    return;
  }
  eager::Selection selection = selectionOf(tensor.array, key);
  Array from;
  if (nb::isinstance<Tensor>(value))
    from = nb::cast<Tensor &>(value).array;
  else if (isScalar(value))
    from = scalarArray(value, tensor.array.type());
  else
    from = nb::cast<Tensor>(tensorOf(value)).array;
  // NumPy takes values with leading dimensions of 1 too.
  while (from.shape().size() > selection.resultShape().size() && from.shape()[0] == 1) {
    Array less =
        from.view(Shape(from.shape().begin() + 1, from.shape().end()),
                  eager::Strides(from.strides().begin() + 1, from.strides().end()), from.offset());
    check(eager::tellView(from, less, {"reshape", less.shape()}));
    from = less;
  }
  if (!selection.places)
    return check(eager::assign(selection.view, from));
  Array values = take(eager::cast(from, tensor.array.type()));
  if (!eager::Tape::recording().empty())
    tellScatter(tensor.array, selection, values);
  check(eager::beforeWrite(tensor.array));
  waitFor(values);
  waitFor(tensor.array, /*toWrite=*/true);
  if (values.storage() == tensor.array.storage()) {
    Array apart = take(Array::allocate(values.type(), values.shape(), values.device()));
    check(eager::copyElements(apart, values));
    values = apart;
  }
  check(eager::scatter(selection, values));
}

/// Whether each element is `apart`, or a place of a dimension of so many.
bool arePlaces(const Tensor &indices, int64_t count, int64_t apart) {
  waitFor(indices.array);
  Array dense = take(eager::dense(indices.array));
  HostTensor places = dense.asHostTensor();
  for (int64_t i = 0; i < dense.size(); ++i)
    if (int64_t place = places.getInt(i); place != apart && (place < 0 || place >= count))
      return false;
  return true;
}

} // namespace

void bindIndexing(nb::module_ &m, nb::class_<Tensor> &tensor) {
  m.def("set_gathering", setGathering, nb::arg("function").none());
  m.def("gathering", isGathering);
  m.def("are_places", arePlaces);
  tensor.def("__getitem__", getItem, nb::arg("key").none());
  tensor.def("__setitem__", setItem, nb::arg("key").none(), nb::arg("value"));
}

} // namespace tensmith::python
