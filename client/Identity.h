// What a compiled module depends on beside the model and the options, found out without the
// compiler: loading that, and LLVM with it, takes longer than making a session.
#pragma once

#include <string>

namespace tensmith::client {

/// Which compiler would be loaded: the identifier that its linker gave the library, or its size and
/// time where it has none. Empty where there is no compiler.
std::string compilerIdentity();

/// Everything about this machine that a compiler asks: its processor, caches and CPUs, and what was
/// measured of it.
std::string machineIdentity();

} // namespace tensmith::client
