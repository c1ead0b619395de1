// Tensors of the public API as the programs see them: made, read as numbers, named in text.
//
// Numbers of all types go through base/HostTensor.h, which knows every format.
#pragma once

#include "base/HostTensor.h"
#include "files/Words.h"

#include <tensmith/tensmith.hpp>

namespace tensmith::cli {

/// A view of the tensor's elements; valid as long as the tensor. Strings are copied.
HostTensor view(const Tensor &tensor);
/// A tensor of the API that owns the elements.
Tensor toTensor(HostTensor tensor);

/// "f32 1x3x224x224", "i64 scalar", "sequence of 3", "none".
std::string typeText(const Tensor &tensor);
/// "f32 batchx3x224x224".
std::string typeText(const Port &port);
/// The element for people: shortest text that reads back as the same f32, "true", a quoted string.
std::string elementText(const HostTensor &tensor, int64_t index);

/// Whether the dimension's text is a number, and which.
std::optional<int64_t> dimNumber(const std::string &dim);

} // namespace tensmith::cli
