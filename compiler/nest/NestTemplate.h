// The template of statements of comprehensions that reduce; see NestTemplate.cpp.
#pragma once

#include "compiler/kernel/WholeTemplate.h"

namespace tensmith::nest {

extern const kernel::WholeTemplate kNests;

} // namespace tensmith::nest
