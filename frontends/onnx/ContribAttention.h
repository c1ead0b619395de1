// What ONNX Runtime's attention operators share; see ContribAttention.cpp and Contrib.h.
#pragma once

#include "frontends/onnx/Contrib.h"

namespace tensmith::onnx_import {

/// `count` of the last dimension from `start` on.
Value columns(NodeImport &n, Value x, int64_t start, int64_t count);

/// [batch, length, heads * size] as [batch, length, heads, size].
Value apart(NodeImport &n, Value x, int64_t heads);

/// Dimensions 1 and 2 of four swapped.
Value headsFirst(NodeImport &n, Value x);

/// The sum of those parts that there are, of what is added to the scores.
Value total(NodeImport &n, ArrayRef<Value> parts);

struct Query {
  Value q, k, v, bias, pastKey, pastValue; // bias, pastKey and pastValue may be null
  int64_t heads = 0, keyHeads = 0;
  bool isCausal = false;
};

/// graph.attention of it, with scale and softcap of the node, and its four results; the last one
/// are the scores of that stage. Null, with an error, where the operands don't go together.
mlir::Operation *attend(NodeImport &n, const Query &query, int64_t shownStage = 0);

// Rules of ContribGroupedAttention.cpp.
LogicalResult groupQueryAttention(NodeImport &n);
LogicalResult contribRotaryEmbedding(NodeImport &n);

} // namespace tensmith::onnx_import
