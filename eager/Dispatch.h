// The one way by which an operation of eager tensors happens.
//
// `dispatch` finds the results' types, and has the operation done: where it is issued if it is
// small and what it reads is there, else by the engine; by a compiled kernel where one is worth it
// and there (Kernels.h), else by the operator's evaluation. Whatever else is to happen to an
// operation (recording it, tracing it into a graph) has its place here, and nowhere else.
//
// Called by one thread at a time: Python's, which holds the interpreter's lock.
#pragma once

#include "eager/Operators.h"

namespace tensmith::eager {

/// One array for each result, which may not be computed yet. The failure of an operation that is
/// known at once (types and sizes that don't fit) comes back here; others where a result is read.
Result<std::vector<Array>> dispatch(const Operator &op, const Attributes &attributes,
                                    std::span<const Array> operands);

/// Copies `from`, broadcast and converted, into `to`, which may be a view.
Status assign(const Array &to, const Array &from);

/// Waits until the array's elements are there; `toWrite`: and nobody reads them any more.
Status wait(const Array &array, bool toWrite = false);

/// Asked for the place in the caller's program of an operation that does not run at once; null:
/// none is noted.
void setPlaces(std::string (*placeOfCaller)());

/// Operands of an element-wise operator as their promoted type; `array` itself where it has it.
Result<Array> cast(const Array &array, DataType type);

} // namespace tensmith::eager
