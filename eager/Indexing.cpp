// An index is normalised first: the ellipsis becomes full slices, a mask the positions where it is
// true, and, beside arrays, an integer an array of one element.
#include "eager/Indexing.h"

#include "eager/Tape.h"
#include "reference/Elements.h"

#include <algorithm>
#include <cstring>

namespace tensmith::eager {
namespace {

Status outOfRange(int64_t index, size_t axis, int64_t size) {
  return invalidArgument("index " + std::to_string(index) + " is out of range for axis " +
                         std::to_string(axis) + ", which has size " + std::to_string(size));
}

/// Python's rules for a slice's bounds.
struct Bounds {
  int64_t start, step, count;
};
Bounds boundsOf(const Slice &slice, int64_t size) {
  int64_t step = slice.step.value_or(1);
  auto clamped = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given)
      return otherwise;
    int64_t value = *given < 0 ? *given + size : *given;
    return std::clamp(value, step < 0 ? int64_t(-1) : 0, step < 0 ? size - 1 : size);
  };
  int64_t start = clamped(slice.start, step < 0 ? size - 1 : 0);
  int64_t stop = clamped(slice.stop, step < 0 ? -1 : size);
  int64_t span = step < 0 ? start - stop : stop - start;
  uint64_t stride = step < 0 ? -uint64_t(step) : uint64_t(step);
  return {start, step, span <= 0 ? 0 : int64_t((uint64_t(span) - 1) / stride) + 1};
}

int64_t elementOf(DataType type, const std::byte *at) {
  switch (type) {
  case DataType::Bool:
  case DataType::U8:
    return *reinterpret_cast<const uint8_t *>(at);
  case DataType::I8:
    return *reinterpret_cast<const int8_t *>(at);
  case DataType::I16:
    return *reinterpret_cast<const int16_t *>(at);
  case DataType::U16:
    return *reinterpret_cast<const uint16_t *>(at);
  case DataType::I32:
    return *reinterpret_cast<const int32_t *>(at);
  case DataType::U32:
    return *reinterpret_cast<const uint32_t *>(at);
  default:
    return *reinterpret_cast<const int64_t *>(at);
  }
}

/// Memory for lists of `count` integers each: a view may have any number of elements.
Status chargeLists(Charge &charge, int64_t lists, std::optional<int64_t> count) {
  ResourceScope scope(resourcesOfProcess());
  if (count && *count <= INT64_MAX / 8 / lists && charge.take(8 * lists * *count))
    return {};
  return Status(StatusCode::ResourceExhausted, "there is no memory for the positions of an index");
}

/// An array's elements in row-major order.
std::vector<int64_t> elementsOf(const Array &array) {
  std::vector<int64_t> elements;
  elements.reserve(size_t(array.size()));
  const std::byte *first = array.elements();
  int64_t bytes = byteSize(array.type());
  reference::forEachRow(
      reference::mergeDimensions<1>(array.shape(), {array.strides()}),
      [&](const auto &offsets, const auto &steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          elements.push_back(elementOf(array.type(), first + (offsets[0] + i * steps[0]) * bytes));
      });
  return elements;
}

Array arrayOf(const std::vector<int64_t> &elements, Shape shape) {
  return Array::adopt(HostTensor::of<int64_t>(DataType::I64, std::move(shape), elements));
}

/// The axes that an item takes of the array.
size_t consumed(const IndexItem &item) {
  if (std::holds_alternative<NewAxis>(item) || std::holds_alternative<Ellipsis>(item))
    return 0;
  const auto *array = std::get_if<Array>(&item);
  return array && array->type() == DataType::Bool ? array->shape().size() : 1;
}

/// The positions where a mask is true, an array for each of its dimensions.
Status appendMask(std::vector<IndexItem> &items, const Array &mask, const Shape &shape,
                  size_t axis) {
  for (size_t i = 0; i < mask.shape().size(); ++i)
    if (mask.shape()[i] != shape[axis + i] && mask.shape()[i] != 0) // NumPy takes those
      return invalidArgument("a mask of shape " + toString(mask.shape()) +
                             " does not fit a tensor of shape " + toString(shape) + " at axis " +
                             std::to_string(axis + i));
  Charge charge; // of the elements, and of positions where all are true
  if (Status status = chargeLists(charge, mask.rank() + 1, mask.size()); !status.ok())
    return status;
  std::vector<int64_t> elements = elementsOf(mask);
  std::vector<std::vector<int64_t>> positions(mask.shape().size());
  int64_t count = 0;
  for (size_t k = 0; k < elements.size(); ++k) {
    if (!elements[k])
      continue;
    ++count;
    int64_t rest = int64_t(k);
    for (size_t i = positions.size(); i-- > 0; rest /= mask.shape()[i])
      positions[i].push_back(rest % mask.shape()[i]);
  }
  if (positions.empty()) { // a single truth: a new axis of one position or none
    items.push_back(NewAxis{});
    items.back() = arrayOf(std::vector<int64_t>(size_t(count), 0), {count});
    return {};
  }
  for (const std::vector<int64_t> &each : positions)
    items.push_back(arrayOf(each, {count}));
  return {};
}

/// One item for each axis of the array, and new axes.
struct Normal {
  std::vector<IndexItem> items;
  std::vector<bool> isTruth; // a mask without dimensions, which takes no axis
  bool hasArrays = false;
  size_t gap = SIZE_MAX; // the number of the first item behind an ellipsis, which may be nothing
};

Result<Normal> normalised(const Array &array, const std::vector<IndexItem> &items) {
  size_t taken = 0, ellipses = 0;
  Normal normal;
  for (const IndexItem &item : items) {
    taken += consumed(item);
    ellipses += std::holds_alternative<Ellipsis>(item);
    normal.hasArrays |= std::holds_alternative<Array>(item);
  }
  size_t rank = array.shape().size();
  if (ellipses > 1)
    return invalidArgument("an index can have one ellipsis");
  if (taken > rank)
    return invalidArgument("there are " + std::to_string(taken) + " indices for a tensor of " +
                           std::to_string(rank) + " dimensions");
  size_t axis = 0;
  auto fill = [&] {
    for (size_t i = 0; i < rank - taken; ++i, ++axis)
      normal.items.push_back(Slice{}), normal.isTruth.push_back(false);
  };
  for (const IndexItem &item : items) {
    const auto *chosen = std::get_if<Array>(&item);
    if (std::holds_alternative<Ellipsis>(item)) {
      fill();
      normal.gap = normal.items.size();
    } else if (chosen && chosen->type() == DataType::Bool) {
      if (Status status = appendMask(normal.items, *chosen, array.shape(), axis); !status.ok())
        return status;
      normal.isTruth.resize(normal.items.size(), chosen->shape().empty());
    } else if (normal.hasArrays && std::holds_alternative<int64_t>(item)) {
      normal.items.push_back(arrayOf({std::get<int64_t>(item)}, {}));
      normal.isTruth.push_back(false);
    } else {
      normal.items.push_back(item);
      normal.isTruth.push_back(false);
    }
    axis += consumed(item);
  }
  if (ellipses == 0)
    fill();
  return normal;
}

/// What the loop over the items has made.
struct Chosen {
  std::vector<Array> arrays;
  std::vector<int64_t> strides, sizes; // of the axes that the arrays choose from; 0 of a truth
  std::vector<size_t> axes;
  std::vector<size_t> numbers; // of the items
  size_t front = 0;            // dimensions before the first array
};

Status addPlaces(Selection &selection, const Chosen &chosen, size_t gap) {
  std::vector<const Shape *> shapes;
  for (const Array &array : chosen.arrays)
    shapes.push_back(&array.shape());
  std::optional<Shape> shape = broadcastShapes(shapes);
  if (!shape)
    return invalidArgument("the arrays of an index do not broadcast together");
  selection.shape = *shape;
  Charge charge; // of the places, and of one array's indices
  std::optional<int64_t> count = elementCount(*shape);
  if (Status status = chargeLists(charge, 2, count); !status.ok())
    return status;
  selection.places.emplace(size_t(*count), 0);
  for (size_t k = 0; k < chosen.arrays.size(); ++k) {
    std::vector<int64_t> indices = elementsOf(*chosen.arrays[k].broadcastTo(*shape));
    for (size_t i = 0; i < indices.size(); ++i) {
      int64_t size = chosen.sizes[k], index = indices[i] < 0 ? indices[i] + size : indices[i];
      if (index < 0 || index >= size)
        return outOfRange(indices[i], chosen.axes[k], size);
      (*selection.places)[i] += index * chosen.strides[k];
    }
  }
  bool together = chosen.numbers.back() - chosen.numbers.front() + 1 == chosen.numbers.size() &&
                  (gap <= chosen.numbers.front() || gap > chosen.numbers.back());
  selection.front = together ? chosen.front : 0;
  return {};
}

} // namespace

Shape Selection::resultShape() const {
  if (!places)
    return view.shape();
  Shape result(view.shape().begin(), view.shape().begin() + int64_t(front));
  result.insert(result.end(), shape.begin(), shape.end());
  result.insert(result.end(), view.shape().begin() + int64_t(front), view.shape().end());
  return result;
}

void Ranges::add(int64_t start, int64_t step, int64_t size, bool isFromEnd) {
  starts.push_back(start);
  steps.push_back(step);
  sizes.push_back(size);
  fromEnd.push_back(isFromEnd);
}

Result<Selection> select(const Array &array, const std::vector<IndexItem> &items, Ranges *ranges) {
  Result<Normal> normal = normalised(array, items);
  if (!normal.ok())
    return normal.status();
  Shape shape;
  Strides strides;
  int64_t offset = array.offset();
  Chosen chosen;
  size_t axis = 0;
  for (size_t number = 0; number < normal->items.size(); ++number) {
    const IndexItem &item = normal->items[number];
    if (std::holds_alternative<NewAxis>(item)) {
      shape.push_back(1);
      strides.push_back(0);
      continue;
    }
    bool isTruth = normal->isTruth[number];
    int64_t size = isTruth ? 1 : array.shape()[axis];
    int64_t stride = isTruth ? 0 : array.strides()[axis];
    if (const auto *index = std::get_if<int64_t>(&item)) {
      int64_t at = *index < 0 ? *index + size : *index;
      if (at < 0 || at >= size)
        return outOfRange(*index, axis, size);
      offset += at * stride;
      if (ranges)
        ranges->add(at, 1, 1, false);
    } else if (const auto *slice = std::get_if<Slice>(&item)) {
      if (slice->step == 0)
        return invalidArgument("a slice's step can't be 0");
      Bounds bounds = boundsOf(*slice, size);
      offset += bounds.count > 0 ? bounds.start * stride : 0;
      if (ranges)
        ranges->add(bounds.count ? bounds.start : 0, bounds.count ? bounds.step : 1, bounds.count,
                    !slice->stop || *slice->stop < 0);
      shape.push_back(bounds.count);
      strides.push_back(bounds.count > 1 ? bounds.step * stride : stride);
    } else {
      if (chosen.arrays.empty())
        chosen.front = shape.size();
      chosen.arrays.push_back(std::get<Array>(item));
      chosen.strides.push_back(stride);
      chosen.sizes.push_back(size);
      chosen.axes.push_back(axis);
      chosen.numbers.push_back(number);
    }
    axis += !isTruth;
  }
  Selection selection;
  selection.view = array.view(std::move(shape), std::move(strides), offset);
  if (!chosen.arrays.empty())
    if (Status status = addPlaces(selection, chosen, normal->gap); !status.ok())
      return status;
  return selection;
}

std::vector<int64_t> placesOf(const Selection &selection, int64_t &row) {
  const Array &view = selection.view;
  auto front = ptrdiff_t(selection.front);
  Array before = view.view({view.shape().begin(), view.shape().begin() + front},
                           {view.strides().begin(), view.strides().begin() + front}, view.offset());
  Array after = view.view({view.shape().begin() + front, view.shape().end()},
                          {view.strides().begin() + front, view.strides().end()}, 0);
  row = after.isDense() ? after.size() : 1;
  std::vector<int64_t> inner =
      after.isDense() ? std::vector<int64_t>{0} : placesOf(Geometry(after));
  std::vector<int64_t> places;
  for (int64_t outer : placesOf(Geometry(before)))
    for (int64_t place : *selection.places)
      for (int64_t each : inner)
        places.push_back(outer + place + each);
  return places;
}

/// Copies between `whole`, which has resultShape(), and the chosen elements.
static void copyChosen(const Selection &selection, const Array &whole, bool toWhole) {
  const Array &view = selection.view;
  int64_t bytes = byteSize(view.type());
  size_t middle = selection.front, positions = selection.shape.size();
  Strides rest(whole.strides().begin(), whole.strides().begin() + int64_t(middle));
  rest.insert(rest.end(), whole.strides().begin() + int64_t(middle + positions),
              whole.strides().end());
  auto inner = reference::mergeDimensions<2>(view.shape(), {rest, view.strides()});
  Strides outer(whole.strides().begin() + int64_t(middle),
                whole.strides().begin() + int64_t(middle + positions));
  size_t next = 0;
  std::byte *const ofWhole = toWhole ? whole.data() : const_cast<std::byte *>(whole.elements());
  std::byte *const ofView = toWhole ? const_cast<std::byte *>(view.elements()) : view.data();
  auto copyAt = [&](int64_t inWhole, int64_t inView) {
    reference::forEachRow(inner, [&](const auto &offsets, const auto &steps, int64_t count) {
      std::byte *a = ofWhole + (inWhole + offsets[0]) * bytes;
      std::byte *b = ofView + (inView + offsets[1]) * bytes;
      for (int64_t i = 0; i < count; ++i) {
        std::byte *x = a + i * steps[0] * bytes, *y = b + i * steps[1] * bytes;
        std::memcpy(toWhole ? x : y, toWhole ? y : x, size_t(bytes));
      }
    });
  };
  reference::forEachRow(reference::mergeDimensions<1>(selection.shape, {outer}),
                        [&](const auto &offsets, const auto &steps, int64_t count) {
                          for (int64_t i = 0; i < count; ++i)
                            copyAt(offsets[0] + i * steps[0], (*selection.places)[next++]);
                        });
}

Result<Array> gather(const Selection &selection) {
  if (!selection.places)
    return selection.view;
  Result<Array> result =
      Array::allocate(selection.view.type(), selection.resultShape(), selection.view.device());
  if (result.ok() && result->size() > 0)
    copyChosen(selection, *result, true);
  return result;
}

Status scatter(const Selection &selection, const Array &values) {
  std::optional<Array> whole = values.broadcastTo(selection.resultShape());
  if (!whole)
    return invalidArgument("a value of shape " + toString(values.shape()) +
                           " can't be assigned to a place of shape " +
                           toString(selection.resultShape()));
  if (whole->size() == 0)
    return {};
  if (!selection.places)
    return copyElements(selection.view, *whole);
  copyChosen(selection, *whole, false);
  return {};
}

} // namespace tensmith::eager
