// NumPy's indexing: what `x[...]` reads and `x[...] = v` writes.
//
// Integers, slices, new axes and an ellipsis make a view. Arrays of integers and of booleans choose
// elements one by one: the arrays broadcast together, and their shape stands where the first of
// them stood, or first where a slice lies between them ("Advanced indexing" in NumPy's manual).
#pragma once

#include "eager/Array.h"

#include <variant>

namespace tensmith::eager {

struct Slice {
  std::optional<int64_t> start, stop, step;
};
struct NewAxis {};
struct Ellipsis {};
/// An integer, or an array of integers or booleans whose elements are there.
using IndexItem = std::variant<int64_t, Slice, NewAxis, Ellipsis, Array>;

/// What an index chooses: a view, and positions in its first dimensions where there are arrays.
struct Selection {
  Array view;                                 // of what is chosen as a whole at each position
  std::optional<std::vector<int64_t>> places; // offsets of those positions; none: the view is all
  Shape shape;                                // of the positions
  size_t front = 0; // dimensions of the view that stand before the positions in the result
  Shape resultShape() const;
};

/// What an index without arrays takes of each dimension; `fromEnd`: 1 where the end of a slice is
/// left out, or counted from the end.
struct Ranges {
  std::vector<int64_t> starts, steps, sizes, fromEnd;
  void add(int64_t start, int64_t step, int64_t size, bool isFromEnd);
};

/// Errors: an index out of range, too many indices, shapes that don't broadcast. `ranges` (may be
/// null) is told what the view is made of.
Result<Selection> select(const Array &array, const std::vector<IndexItem> &items,
                         Ranges *ranges = nullptr);

/// The chosen elements, as a view where that is possible. The array's elements are there.
Result<Array> gather(const Selection &selection);
/// Where the chosen elements lie in the storage: of rows of `row` elements side by side their
/// begins, in the order of resultShape().
std::vector<int64_t> placesOf(const Selection &selection, int64_t &row);
/// Writes `values`, of the array's type and broadcast to resultShape(), to the chosen places, in
/// order. The array may be written.
Status scatter(const Selection &selection, const Array &values);

} // namespace tensmith::eager
