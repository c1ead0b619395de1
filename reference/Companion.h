// Libraries beside the one that this code is in, for operators that few programs have and that need
// much: they are opened when such an operator is first evaluated, so that nobody else depends on
// them.
#pragma once

namespace tensmith::reference {

/// A function that `library` exports; null where the library isn't there.
void *companionFunction(const char *library, const char *function);

} // namespace tensmith::reference
