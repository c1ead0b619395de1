// Which of a program's values are which device's and which the host's, and the copies between them.
//
// Each value has a home, where it is made: what operators without kernels compute is the host's,
// and so are the caller's tensors, unless they are resident on the first device; what kernels
// compute is their device's. Kernels of a few
// integers whose operands are all the host's, which is how exported models compute shapes, stay
// there: no copy is made for the arithmetic of shapes. Homes are found by starting with all of them
// on the host, and moving to devices what has to be, with all that must lie where it lies: a view
// with what it looks at, what a loop carries in with what it carries out, the results of two
// branches with one another (as in Shen et al., "Nimble: Efficiently Compiling Dynamic Neural
// Networks for Model Inference", 2021, by unification). Of several devices each gets a stretch of
// the kernels, in the order of the plan, which is estimated to take about as long as the others.
//
// A value that is read in another memory gets one copy there, next to where it is made, which all
// readers share; functions that control flow calls are handed all of them. From device to device it
// goes by way of the host. Constants are in all memories from the beginning. Procedures pass
// tensors in the first device's memory, and single numbers, which their own instructions compute
// with, in the host's.
#pragma once

#include "compiler/vm/ModuleTables.h"

namespace tensmith::vm {

/// Rewrites the plan for the devices of the tables' input. The reasons of copies go into the
/// instructions' locations.
void placeOnDevices(ModuleTables &tables);

/// Whether it is a tensor of known rank with elements that are bytes.
bool isPlain(const plan::ValueT &value);
/// Whether the instruction asks for its first operand's shape alone, which can be read anywhere.
bool readsShapeAlone(const plan::ModuleT &module, const plan::InstructionT &instruction);

} // namespace tensmith::vm
