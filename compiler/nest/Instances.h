// Which loops a tensor of several instances has a new one in each iteration of.
//
// The elements of all instances share one memory. So from the first touch of an instance to its
// last nothing may touch another one: there must be loops around all that touches the tensor whose
// iterations and the instances are in one to one correspondence. Parallel ones among them need
// memory for each thread, and vectors can't be among them.
#pragma once

#include "compiler/nest/ScheduleTree.h"

namespace tensmith::nest {

/// Tensors whose instances would be alive at once, in words; empty: there are none.
std::string interleavedInstances(const Nest &nest, const Node &tree, const Relations &relations);

/// By tensor the outermost parallel loop in whose iterations instances begin and end.
std::map<std::string, std::string> parallelInstances(const Nest &nest, const Node &tree,
                                                     const Relations &relations);

} // namespace tensmith::nest
