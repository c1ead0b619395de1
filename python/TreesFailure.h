// Failures of trees/ as the package's one error, tensmith.Error, whose `code` says of what kind
// they are.
#pragma once

#include "base/Status.h"

#include <nanobind/nanobind.h>

#include <utility>

/// Throws it as a Python error, unless there is none.
void raiseFailure(const tensmith::Status &status);

template <typename T> T valueOrRaise(tensmith::Result<T> result) {
  raiseFailure(result.ok() ? tensmith::Status() : result.status());
  return std::move(*result);
}
