// The template of products by weights in blocks of few bits; see BlockProductKernel.cpp.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kBlockProduct;

} // namespace tensmith::kernel
