// Rotary position embedding, for all operators that have it: the standard's, ONNX Runtime's, and
// attention that rotates its queries and keys itself.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

/// Cosines or sines for each position, as [batch, sequence, 1, rotated / 2]; rows of the cache,
/// those of `positions` unless that is null. Null where the ranks don't go together.
Value rotations(NodeImport &n, Value cache, Value positions);

/// x [batch, sequence, heads, size] with the first `rotated` elements of each head turned: its
/// halves, or even and odd elements where interleaved; all of them where `rotated` is 0. Null, with
/// an error, where a head is known to have fewer; else the run tells.
Value rotatedHeads(NodeImport &n, Value x, Value cosines, Value sines, int64_t rotated,
                   bool interleaved);

} // namespace tensmith::onnx_import
