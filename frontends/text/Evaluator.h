// The meaning of the language, run directly: an evaluator of typed expressions, with the reference
// evaluation for operators.
//
// It shares the parser and the types with the compiler and nothing else, neither the lowering nor
// the machine that procedures run on, and so is the oracle of both. What an expression needs is
// computed before it, from left to right, whether it will be used or not: compiled code may leave
// out what nothing needs, so a program may end there that doesn't end here.
//
// A machine of continuations (Felleisen and Friedman's CEK, 1986): frames lie on the heap, and an
// expression in tail position takes the place of its frame, so recursion is bounded by the limits
// alone.
#pragma once

#include "frontends/text/Program.h"
#include "frontends/text/Value.h"

namespace tensmith::text {

struct EvaluationOptions {
  int64_t depth = int64_t(1) << 23; // of expressions in one another, calls among them
  int64_t steps = INT64_MAX;
  /// Not 0: each float that an operator gives is moved by up to so much of the largest among its
  /// results and operands, at random. How far that moves what main returns tells what roundings do
  /// (D. S. Parker, "Monte Carlo Arithmetic", UCLA CSD-970002, 1997).
  double noise = 0;
  uint64_t seed = 0;
  /// Where operators that draw random numbers are to draw others than the text says: each of them
  /// draws once more, by this.
  std::optional<uint64_t> draws;
  /// What run_key() is; none: an error, as in a constant.
  std::optional<uint64_t> runKey;
};

/// The value of a constant at the top, where it is of that type.
Result<ValueRef> evaluateConstant(Program &program, const FunctionDecl &constant, Term *type,
                                  const EvaluationOptions &options);

/// What main returns for the inputs. Errors name the place in the text.
Result<ValueRef> evaluate(Program &program, std::vector<ValueRef> inputs,
                          const EvaluationOptions &options = {});
/// The fields where main returns a tuple of several, which are a module's outputs, else the value.
std::vector<ValueRef> outputsOf(Program &program, const ValueRef &result);

} // namespace tensmith::text
