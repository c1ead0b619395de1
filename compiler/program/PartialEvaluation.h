// What of a program can be done before its inputs are known: calls of functions that are known,
// matches on values that are known, reads of references whose contents are, arithmetic on numbers.
//
// An online partial evaluator (Futamura 1971; Jones, Gomard and Sestoft, "Partial evaluation and
// automatic program generation", 1993, chapter 7), as Relay's for tensor programs (Roesch and
// others 2019). It runs each procedure on values of which some are known and writes down what is
// left, operator by operator in A-normal form, so that nothing is computed twice and effects stay
// in their order. What is known of a value is told by the residual operator that made it
// (Residual.h): a constructor, a closure, a constant, a reference, each of which may have parts
// that only the run knows.
//
// A call is unfolded, so that its body stands in its place, or left, to a version of the function
// made for what is known of the arguments (Knowledge.h):
// - a function that is not being unfolded: unfolded where something is known of an argument, or
//   where its body is short straight-line code or has effects;
// - recursion: unfolded as long as no branch that the run chooses stands between a call and the one
//   within it, or where an argument is a part of the outer call's. A recursion over data that the
//   run has thus becomes a version of the function, with the functions, tuples and weights that it
//   is given inside of it; one over data that are known becomes straight-line code.
//
// Both come to an end. The unfolding of a recursion is taken back and the call left when it grows
// beyond the bounds below, or where a branch decides it after all: so a loop that goes on for long,
// or for ever, stays a loop. In a recursion among versions, what is known must not grow. All work
// is counted in operators looked at, linear in the program's size, and once it is spent calls are
// left as they are. Without effects, equal calls are made once, so that sharing stays sharing.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tensmith::program {

/// Of a procedure whose calls are never unfolded nor inlined: what it does waits for all of its
/// arguments.
inline constexpr char kWhole[] = "program.whole";

struct PartialEvaluationBounds {
  int deepest = 300;                       // unfoldings in one another
  int64_t recursionSteps = 20'000;         // operators looked at for one recursion
  int64_t recursionSize = 2'000;           // operators that it leaves
  int64_t steps = 200'000, stepsEach = 40; // in all, and for each operator of the program
  int64_t size = 6'000, sizeEach = 4;      // operators left
  int versions = 12;                       // of a function
};

struct PartialEvaluationReport {
  int64_t steps = 0;    // operators looked at
  int64_t unfolded = 0; // calls
  int64_t versions = 0; // functions made for what is known of arguments
  int64_t takenBack = 0;
};

/// Does so for @main's program, and drops the procedures that nothing leads to.
PartialEvaluationReport evaluatePartially(mlir::ModuleOp module,
                                          const PartialEvaluationBounds &bounds = {});

} // namespace tensmith::program
