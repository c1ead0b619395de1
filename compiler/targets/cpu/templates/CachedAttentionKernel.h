// The template of attention to keys and values in pages; see CachedAttentionKernel.cpp.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kCachedAttention;

} // namespace tensmith::kernel
