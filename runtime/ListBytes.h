// How much the lists of a plan hold, each counted as often as it is referred to.
//
// The tables of a FlatBuffer may share a list, so that a small file stands for a program far larger
// than itself, in time, memory, and numbers that no longer fit 32 bits. What writes plans shares
// nothing: then all lists together are smaller than the file. With this checked first, the work of
// everything after is linear in the file.
#pragma once

#include "runtime/plan_generated.h"

namespace tensmith::runtime {

/// Bytes of all lists and strings, or some number above `limit` where they are more than that.
uint64_t listBytes(const plan::Module &module, uint64_t limit);

} // namespace tensmith::runtime
