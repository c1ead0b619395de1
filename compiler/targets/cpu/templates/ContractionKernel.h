// The template around a matrix product or a convolution: register tiles over packed panels, with
// the element-wise operators that follow applied to the tile before it is stored.
#pragma once
#include "compiler/kernel/Contraction.h"
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kContraction;

} // namespace tensmith::kernel
