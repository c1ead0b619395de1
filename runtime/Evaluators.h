// How the compiler's library gives the runtime's the references that a plug-in brings: each of the
// two has a table of its own, and both are of one build.
#pragma once

#include "reference/Reference.h"

#include <tensmith/tensmith.h>

#include <cstddef>

/// The rows live as long as the process. TS_INVALID_ARGUMENT where a name is taken; none is added
/// then.
extern "C" TS_API ts_status *ts_add_evaluators(const tensmith::reference::Entry *const *rows,
                                               size_t count);
