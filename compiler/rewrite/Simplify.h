// The patterns of `simplify`, which other rewrites run beside their own, and what they share.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tensmith::rewrite {

void addSimplifyPatterns(mlir::RewritePatternSet &patterns);
/// Rules that keep every float's bits (AlgebraicRules.td); `ofReals`: those of real numbers, too
/// (RealRules.td).
void addAlgebraicRules(mlir::RewritePatternSet &patterns, bool ofReals);

llvm::SmallVector<int64_t> inversePermutation(llvm::ArrayRef<int64_t> permutation);
mlir::Value transposed(mlir::PatternRewriter &rewriter, mlir::Location location, mlir::Value x,
                       llvm::ArrayRef<int64_t> permutation);

} // namespace tensmith::rewrite
