// A loaded module, run on tensors made up after its signature; and how often each stage was
// reached.
#pragma once

#include "runtime/Module.h"

namespace tensmith::fuzz {

/// Counted in the file that TENSMITH_FUZZ_COUNTS names (that many int64), which outlives a crash.
enum class Stage { Given, Accepted, Planned, Compiled, Ran, Count };
void count(Stage stage);

/// Runs it twice, unless its inputs would be large.
void runModule(std::shared_ptr<const runtime::Module> module);

} // namespace tensmith::fuzz
