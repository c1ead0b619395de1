// Looking at a run from the inside: each step's results as they are computed, and the step at which
// a number stops being one.
//
// A result holds a NaN or an infinity because an operand did, or because its step made it. Only the
// latter is where to look, so each value of a frame is looked through once, when it is first seen,
// and a step is at fault where its results hold what none of its operands does. Operands are looked
// through before the step: a kernel may write over one.
#pragma once

#include "runtime/Session.h"

namespace tensmith::runtime {
struct Run;

/// What the elements of a value are besides finite numbers.
enum class Special : uint8_t { None = 0, NaN = 1, Infinity = 2, Unknown = 0xff };

/// Before the step: its operands are looked through, where they have not been.
void noteOperands(const Run &run, Frame &frame, const Step &step);
/// After it. Errors: InvalidArgument, naming the result and its first such element.
Status checkFinite(const Run &run, Frame &frame, const Step &step);

/// Hands the step's results to the run's observer.
Status observeResults(const Run &run, const Frame &frame, const Step &step);

/// Of a step of main: brings outputs among its results to the caller's memory, where the plan has
/// them elsewhere, and tells of them.
Status tellWritten(Run &run, const Frame &frame, const Step &step);

} // namespace tensmith::runtime
