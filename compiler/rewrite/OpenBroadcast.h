// Broadcasting that only the run can tell: two sizes that nobody can prove to be the same, and of
// which one may be 1, as those of an upsampled image and of the one that it is added to.
//
//   add(x, y)  ->  add(gather(x, min(places, last of x)), gather(y, min(places, last of y)))
//
// along each dimension of the kind. `places` numbers the result's elements: the larger of the
// numbers of both operands' elements, which the reference evaluator broadcasts when the run begins.
// So the sizes are checked, as the operator's own would be, and the result's are known; all that is
// long is a kernel, in which an operand of 1 is read at 0.
#pragma once

#include "compiler/graph/GraphBuilder.h"

namespace tensmith::rewrite {

/// The result of an element-wise operator; fails where its broadcasting is certain.
mlir::LogicalResult broadcastByPlaces(mlir::Operation *op, graph::GraphBuilder &builder,
                                      llvm::SmallVectorImpl<mlir::Value> &results);

} // namespace tensmith::rewrite
