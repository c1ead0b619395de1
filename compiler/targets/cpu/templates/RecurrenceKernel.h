// The template for a loop of the model whose body is small: all its iterations in one kernel.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kRecurrence;

} // namespace tensmith::kernel
