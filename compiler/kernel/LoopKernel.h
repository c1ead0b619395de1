// The template that takes every region: a parallel loop nest over the elements of its results.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kLoops;

} // namespace tensmith::kernel
