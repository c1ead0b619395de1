// The template of statements of comprehensions that reduce; see NestTemplate.cpp.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::nest {

extern const kernel::Template kNests;

} // namespace tensmith::nest
