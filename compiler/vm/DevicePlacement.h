// Which of a program's values are the device's and which the host's, and the copies between them.
//
// Each value has a home, where it is made: what operators without kernels compute is the host's,
// and so are the caller's tensors; what kernels compute is the device's. Kernels of a few integers
// whose operands are all the host's, which is how exported models compute shapes, stay there: no
// copy is made for the arithmetic of shapes. Homes are found by starting with all of them on the
// host, and moving to the device what has to be, with all that must lie where it lies: a view with
// what it looks at, what a loop carries in with what it carries out, the results of two branches
// with one another (as in Shen et al., "Nimble: Efficiently Compiling Dynamic Neural Networks for
// Model Inference", 2021, by unification).
//
// A value that is read in the other memory too gets one copy there, next to where it is made, which
// all readers share; functions that control flow calls are handed both. Constants are in both
// memories from the beginning. Procedures pass tensors in the device's memory, and single numbers,
// which their own instructions compute with, in the host's.
#pragma once

#include "base/Status.h"
#include "runtime/plan_generated.h"

namespace tensmith::vm {

/// Rewrites a plan for a machine with that device. The reasons of copies go into the instructions'
/// locations.
void placeOnDevice(plan::ModuleT &module, const std::string &device);

} // namespace tensmith::vm
