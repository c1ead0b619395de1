// Where a tensor's elements lie: row-major, or as its layout says.
#pragma once

#include "compiler/nest/LoopProgram.h"

namespace tensmith::nest {

/// Of a layout's entries, or of the dimensions if there is none.
std::vector<LayoutDimension> layoutOf(const Tensor &tensor);

/// How far apart in memory elements lie whose places differ by one in the variable, of which
/// `count` values from 0 on are meant. 0: the place doesn't depend on it; nothing: they are not
/// evenly apart, or it isn't known how far.
std::optional<int64_t> strideAlong(const LoopProgram &program, const Tensor &tensor,
                                   const std::vector<Affine> &indices, const std::string &variable,
                                   int64_t count);

} // namespace tensmith::nest
