// What the static and the dynamic forms of the movement operators share: their work, once all sizes
// are known.
#pragma once

#include "reference/Elements.h"
#include "reference/Workspace.h"

namespace tensmith::reference {

Outcome broadcastTo(Workspace &workspace, const HostTensor &x, const Shape &shape);

/// y[i] = x[starts + i * steps]; rejects "x" where that leaves it.
Outcome sliceOf(Workspace &workspace, const HostTensor &x, std::span<const int64_t> starts,
                std::span<const int64_t> steps, const Shape &shape);

/// ONNX Pad with a low and a high count for each dimension. `value` may be of type Undefined: zero.
Outcome padded(Workspace &workspace, const HostTensor &x, const HostTensor &value,
               std::span<const int64_t> low, std::span<const int64_t> high,
               const std::string &mode);

} // namespace tensmith::reference
