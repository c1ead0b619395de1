// Sizes as people write them, read: the other way round of compiler/graph/TypeText.h.
#pragma once

#include "base/Status.h"
#include "compiler/graph/Shape.h"

#include <string_view>

namespace tensmith {

/// "3", "batch", "2*n+1", "(n+1)/2", "ceil(n/2)", "n%4" over the context's symbols; "max(a, b)" is
/// the size that both broadcast to. InvalidArgument where it is none of those, with the place.
Result<mlir::AffineExpr> parseSize(std::string_view text, graph::ShapeContext &shapes);

} // namespace tensmith
