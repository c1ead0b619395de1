// Eager tensors in Python: what the files of the module `_eager` share.
//
// All calls hold the interpreter's lock, so that operations are issued one at a time; who waits for
// the engine, or evaluates for long, lets go of it.
#pragma once

#include "eager/Dispatch.h"
#include "eager/Indexing.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace tensmith::python {

namespace nb = nanobind;
using eager::Array;

/// The class `Tensor`: an array by reference.
struct Tensor {
  Array array;
};

/// What a program has given. Only what Python asks for becomes a tensor of its own: most results
/// are moved to tensors that there are. The rest is kept for the program's next calls.
struct Results {
  Results(std::vector<Array> given, std::shared_ptr<eager::SpareResults> kept)
      : arrays(std::move(given)), isShown(arrays.size(), false), isUpdate(arrays.size(), false),
        spare(std::move(kept)) {}
  Results(Results &&) = default;
  ~Results() {
    for (size_t i = 0; spare && i < arrays.size(); ++i)
      if (arrays[i] && !isUpdate[i])
        spare->keep(i, std::move(arrays[i]));
  }

  std::vector<Array> arrays;                  // none where it has been moved
  std::vector<bool> isShown;                  // to Python, which may have kept it
  std::vector<bool> isUpdate;                 // an input's array, which the run has written over
  std::shared_ptr<eager::SpareResults> spare; // null: nothing is kept
};

/// One of each element type; Python sees them as `tensmith.numpy.float32` and its like.
struct ElementKind {
  DataType type;
};
nb::object elementKind(DataType type);
/// Python's numbers, texts, element types and lists of integers or floats.
Attributes attributesOf(const nb::dict &given);

/// Raises ValueError, TypeError, MemoryError or RuntimeError.
[[noreturn]] void raise(const Status &status);
inline void check(const Status &status) {
  if (!status.ok())
    raise(status);
}
template <typename T> T take(Result<T> result) {
  if (!result.ok())
    raise(result.status());
  return std::move(*result);
}

/// The one result of an operator.
Array apply(const eager::Operator &op, const Attributes &attributes,
            std::span<const Array> operands);
Array apply(std::string_view name, std::span<const Array> operands,
            const Attributes &attributes = {});
/// Without the interpreter's lock.
void waitFor(const Array &array, bool toWrite = false);

/// Whether it is a bool, int, float or complex of Python's (or a subclass, as NumPy's float64).
bool isScalar(nb::handle value);
/// A scalar as an array of no dimensions. Beside an array of `beside` it takes that type where it
/// can have it, as the standard says; Undefined: Python's own kind.
Array scalarArray(nb::handle value, DataType beside);
/// Whether it is a NumPy array or number. Throws TypeError of subclasses of arrays: what they mean
/// beside elements (masks, units) would be lost.
bool isNumpy(nb::handle value);
/// A tensor as it is; of a NumPy array or number a tensor of its elements as they are now.
nb::object tensorOf(nb::handle value);
/// Nested lists of scalars and tensors; `type` may be Undefined.
Array arrayOfList(nb::handle value, DataType type);
/// An element as Python's bool, int, float or complex.
nb::object scalarOf(const Array &array, int64_t offset);
nb::object listOf(const Array &array);

void bindIndexing(nb::module_ &m, nb::class_<Tensor> &tensor);
void bindExchange(nb::module_ &m, nb::class_<Tensor> &tensor);
void bindOperators(nb::module_ &m, nb::class_<Tensor> &tensor);
void bindFiles(nb::module_ &m);
void bindTape(nb::module_ &m, nb::class_<Tensor> &tensor);
void bindGuards(nb::module_ &m);
void bindCoexecution(nb::module_ &m);
/// The calls between the co-executed step under way and the innermost function, hashed.
size_t stackOfStep();
extern PyType_Slot tensorSlots[];

} // namespace tensmith::python
