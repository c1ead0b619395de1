// The template around a chain of convolutions: a band of lines of the last one at a time.
#pragma once
#include "compiler/kernel/Template.h"
#include "compiler/targets/cpu/templates/ConvChain.h"

namespace tensmith::kernel {

extern const Template kChain;

} // namespace tensmith::kernel
