// Conversion of tensors from and to DLPack's structures (base/DLPack.h), without a copy where their
// layouts agree.
#pragma once

#include "base/DLPack.h"
#include "runtime/Tensor.h"

namespace tensmith::runtime {

/// Takes over `managed` when it succeeds: its deleter runs when the tensor goes, or before the
/// return where the elements had to be copied (strides, alignment). On failure it stays the
/// caller's.
Result<TensorRef> fromDlpack(DLManagedTensor *managed);

/// A view that keeps the tensor; the receiver calls its deleter.
Result<DLManagedTensor *> toDlpack(const TensorRef &tensor);

} // namespace tensmith::runtime
