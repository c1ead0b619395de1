// The template around a chain of convolutions: a band of lines of the last one at a time.
#pragma once
#include "compiler/kernel/ConvChain.h"
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kChain;

} // namespace tensmith::kernel
