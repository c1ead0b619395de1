// Forks of a process that has operations and compilations on other threads.
#pragma once

namespace tensmith::eager {

/// A fork takes only its own thread along. Operations and compilations on others are done first,
/// and theirs are not begun before it is over; operations begin compilations, so they come first.
/// One that forks itself, to run another program, does not wait for itself.
void orderForks();

} // namespace tensmith::eager
