// A status of the runtime's C API as one of ours.
#pragma once

#include "base/Status.h"

#include <tensmith/tensmith.h>

namespace tensmith {

/// Frees it.
inline Status taken(ts_status *status) {
  if (!status)
    return {};
  Status result(StatusCode(ts_status_get_code(status)), ts_status_message(status));
  ts_status_free(status);
  return result;
}

} // namespace tensmith
