// States of a module: what one run gives and the next one takes, as weights that are trained.
//
// A session keeps none of it. The caller may give the same tensor as a state's input and as its
// output: where the plan says `in_place`, the kernel that computes the output writes over the
// input, which nothing reads any more; elsewhere the run computes into memory of its own and copies
// at its end. Whether the order of the instructions allows it is checked when the module is loaded.
#pragma once

#include "base/Status.h"
#include "runtime/Tensor.h"
#include "runtime/plan_generated.h"

#include <span>

namespace tensmith::runtime {

class Module;

/// What is wrong with the states of a plan whose functions and ports have been verified; empty
/// where nothing is.
std::string verifyStates(const plan::Module &module, uint64_t weightsBytes);

/// A tensor of its own memory with the value that the state begins with.
Result<TensorRef> initialValue(const Module &module, const plan::State &state);

/// The destinations that results may be written to as they are computed: those that share memory
/// with no other tensor of the call, or only with the input that they update in place. Null in the
/// place of the others.
std::vector<Tensor *> directDestinations(const Module &module, std::span<const TensorRef> inputs,
                                         std::span<Tensor *const> destinations);

} // namespace tensmith::runtime
