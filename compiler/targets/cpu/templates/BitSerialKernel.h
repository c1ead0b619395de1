// Kernels of numbers of a few bits: their planes, and sums of their products.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kBitSerial, kBitPlanes;

} // namespace tensmith::kernel
