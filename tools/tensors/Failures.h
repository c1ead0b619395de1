// What a program does with what its commands throw: the one line on stderr, and the exit status.
#pragma once

#include "files/Failure.h"

#include <tensmith/tensmith.hpp>

#include <new>

namespace tensmith::cli {

/// Calls `action`, which gives an exit status. What it throws goes to `report(message, status)`,
/// which says it and gives the status back.
template <typename Action, typename Report>
int withFailuresSaid(const Action &action, const Report &report) {
  try {
    return action();
  } catch (const Failure &failure) {
    return report(failure.what(), failure.status);
  } catch (const Error &error) {
    return report(error.what(), kFailure);
  } catch (const std::bad_alloc &) {
    return report("there is not enough memory", kFailure);
  } catch (const std::exception &error) {
    return report(std::string("internal error: ") + error.what(), kFailure);
  }
}

} // namespace tensmith::cli
