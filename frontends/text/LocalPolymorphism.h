// Local values that are used at several types: `let twice = fn(f) => ...` within a function.
//
// Inference gives a local name one type. What is a value as it is written (a function, a number, a
// name, data of those) computes nothing and changes nothing, so each of its uses may have a copy of
// its own: `let f = fn(v) => v; (f(x), f(k))` becomes `let f' = fn(v) => v; let f = fn(v) => v;
// (f'(x), f(k))`, in which every copy has one type, for inference, lowering and evaluation alike.
// These are the values that ML's value restriction lets be generalised (Wright 1995). It is done
// for programs that have no types without, so that no other grows by it.
#pragma once

#include "frontends/text/Ast.h"

namespace tensmith::text {

/// Whether anything was copied. Beyond a bound a value keeps its one type.
bool copyLocalValues(Module &module);

} // namespace tensmith::text
