// What is rounded to 16 bits where a step of training is of mixed precision: a rule for each
// operator, which rewrite/MixedPrecision.cpp goes by.
//
// Products of matrices are what takes the time, and their sums forgive rounded factors
// (Micikevicius et al., "Mixed precision training", ICLR 2018). Element-wise arithmetic is made in
// f32 registers whatever it reads and writes: there is nothing to gain but memory.
//
// A user may ask for other rules, by names of operators and of nodes. What is asked for rides in
// the operator's location: rewrites replace operators, and hand their locations on.
#pragma once

#include "base/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/Support/GlobPattern.h"

#include <optional>

namespace tensmith::graph {

enum class CastRule : uint8_t {
  Always, // operands are rounded, sums are f32; so is the result, if a product depends on it
  Follow, // f32; the result is rounded where a product reads it rounded
  Never,  // f32, as is what it gives: sums, norms, softmax, losses, and what grows fast
};

/// Of an operator of the graph dialect that is no control flow: what was asked for, else its own
/// rule; `Never` where nothing is said.
CastRule castRule(mlir::Operation *op);

/// What was asked for; none: nothing was. `Never` before `Always` before `Follow` where it was made
/// of several.
std::optional<CastRule> askedCastRule(mlir::Operation *op);

/// Of an operator that is `Never` rounded whatever it does and whatever is asked, as those of
/// optimisers are: gradients and updates lose nothing.
inline constexpr char kKeepsPrecision[] = "graph.keeps_precision";
void keepPrecision(mlir::Operation *op);

/// "NAMES=RULE" as users write it.
struct CastRequest {
  std::string names; // a pattern: "*" stands for any characters
  llvm::GlobPattern pattern;
  CastRule rule;
};

/// InvalidArgument where a text is not "NAMES=always", "=follow" or "=never".
Result<std::vector<CastRequest>> parseCasts(llvm::ArrayRef<std::string> texts);

/// Gives operators the rules that are asked for: of those whose names match, by the last request
/// that does. An operator goes by its name in this dialect ("matmul"), by its node's name and by
/// its node's type ("Gemm"), and so does all that computes its gradient. InvalidArgument where
/// names match nothing.
Status askForCasts(llvm::ArrayRef<mlir::func::FuncOp> functions,
                   llvm::ArrayRef<CastRequest> requests);

/// A table of the rules, as JSON: [{"operator": "matmul", "rule": "always", "count": 3,
/// "asked": false}, ...], by names.
std::string castTable(llvm::ArrayRef<mlir::func::FuncOp> functions);

} // namespace tensmith::graph
