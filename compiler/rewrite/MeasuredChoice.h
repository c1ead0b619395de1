// Choices that are made by measuring, under the policy `measured`: estimates say which are worth a
// measurement, and the fastest of those is taken.
//
// What is timed is a function with the operator and what stands around it, with its own weights,
// compiled by each choice in turn. Estimates are off by some tenths; what they put further behind
// is not tried.
#pragma once

#include "compiler/rewrite/Rewrites.h"

#include "mlir/IR/OwningOpRef.h"

namespace tensmith::rewrite {

/// A module whose `main` is the pattern with what a generated kernel may take in besides. Constants
/// that it uses stay constants.
mlir::OwningOpRef<mlir::ModuleOp> functionAround(const libraries::Pattern &pattern);

/// Whether all sizes are known, and the operator is no part of a loop or of attention, which are
/// one kernel with more than the pattern.
bool canBeMeasured(const libraries::Pattern &pattern, const Options &options);

/// Against the best, by estimates.
inline constexpr double kWorthATry = 1.5;

struct Candidate {
  llvm::StringLiteral choice; // a key of schedules
  int64_t value;
  double cycles; // as estimated
};

/// The number of the candidate that is fastest here, of those that are worth a try; nothing where
/// choices aren't measured, or one alone is worth it.
std::optional<size_t> fastestOf(mlir::Operation *root, llvm::ArrayRef<Candidate> candidates,
                                const Options &options);

} // namespace tensmith::rewrite
