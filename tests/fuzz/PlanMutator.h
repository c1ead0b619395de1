// Changes to a module's plan that leave it a FlatBuffer: to its values, instructions and sizes.
//
// The plan is unpacked, changed and packed again, so that it is the verifier that must see what is
// wrong with it.
#pragma once

#include "runtime/plan_generated.h"
#include "tests/fuzz/Draw.h"

namespace tensmith::fuzz {

/// One change, somewhere. Some have no effect.
void mutate(plan::ModuleT &module, Draw &draw);

} // namespace tensmith::fuzz
