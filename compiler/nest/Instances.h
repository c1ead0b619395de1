// Which loops a tensor of several instances has a new one in each iteration of.
//
// The elements of all instances share one memory. So from the first touch of an instance to its
// last nothing may touch another one: there must be loops around all that touches the tensor whose
// iterations and the instances are in one to one correspondence. Parallel ones among them need
// memory for each thread, and vectors can't be among them.
//
// Of a tensor of two halves that holds for all dimensions of instances but the last. Of that one
// those that share a half must not mingle: if one is touched before another, then by all points.
#pragma once

#include "compiler/nest/ScheduleTree.h"

namespace tensmith::nest {

/// Tensors whose instances would be alive at once, in words; empty: there are none.
std::string interleavedInstances(const Nest &nest, const Node &tree, const Relations &relations);

/// By tensor the outermost parallel loop in whose iterations instances begin and end.
std::map<std::string, std::string> parallelInstances(const Nest &nest, const Node &tree,
                                                     const Relations &relations);

/// The innermost loop in each of whose iterations the tensor has a new instance; empty: there is
/// none.
std::string innermostInstanceLoop(const Tensor &tensor, const Node &tree,
                                  const Relations &relations);

} // namespace tensmith::nest
