// Tensors in memory that ends where a page begins which nothing may touch.
//
// An access behind the last element is a fault, and one before the first is as soon as it is
// further away than the rest of its page; for a tensor without elements each access is.
#pragma once

#include "runtime/Tensor.h"

namespace tensmith::random_graphs {

/// Uninitialised. No strings.
Result<runtime::TensorRef> guarded(DataType type, const Shape &shape);
/// With the elements of the tensor; strings as they are.
Result<runtime::TensorRef> guarded(const HostTensor &tensor);

} // namespace tensmith::random_graphs
