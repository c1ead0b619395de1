// Sizes that several broadcast to, taken apart and put together again; and sizes that grow too
// long.
//
// The size of a broadcast is the first of its parts that isn't 1, as an expression over them. What
// replaces a symbol in it may be such a size again, and may have parts that it has already. As an
// expression it would hold them twice, and nobody would find that it is the same size. So sizes are
// replaced part by part, and each part is kept once: the first of a, b and a again that isn't 1 is
// that of a and b.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace tensmith::graph {

/// Sizes that one broadcasts from, beyond which it is a size that the run alone tells: the
/// expression has twice as many terms with each.
inline constexpr size_t kMostBroadcastParts = 4;

/// The first of the sizes that is not 1.
mlir::AffineExpr sizeOfBroadcast(llvm::ArrayRef<mlir::AffineExpr> parts);

/// The part whose being 1 such a size asks by this quotient, or null for another expression.
mlir::AffineExpr partOfQuestion(mlir::AffineExpr expression);

/// The sizes of which `sizeOfBroadcast` made this one, or the size itself.
llvm::SmallVector<mlir::AffineExpr> partsOfBroadcast(mlir::AffineExpr size);

/// The size with what the map says in the place of its symbols, once; the size as it is where that
/// would be a long one.
mlir::AffineExpr replaceSizes(mlir::AffineExpr size,
                              const llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> &by);

/// Whether it has more parts than a size of a type may have. Then a result has a size that the run
/// alone tells, so that what a long chain of operators makes of sizes stays small.
bool isLongSize(mlir::AffineExpr size);

} // namespace tensmith::graph
