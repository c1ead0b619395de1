// NumPy's .npy files (numpy/lib/format.py, versions 1 to 3), in and out.
#pragma once

#include "files/Files.h"

#include "base/HostTensor.h"

namespace tensmith {

/// `where` names the file in messages. Elements of types that NumPy lacks (bf16, fp8, ...) are
/// stored as opaque bytes, and are taken for `expected` where that has their size.
HostTensor readNpy(std::span<const std::byte> bytes, const std::string &where,
                   DataType expected = DataType::Undefined);
Bytes writeNpy(const HostTensor &tensor);

} // namespace tensmith
