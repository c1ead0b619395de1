// The boundary of the C API: nothing throws across it, and texts that cross it are the caller's.
#pragma once

#include "base/Status.h"

#include <tensmith/compiler.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace tensmith {

/// Calls `work`, which gives a Status; null where that is ok.
template <typename Work> ts_status *guarded(Work work) noexcept {
  try {
    Status status = work();
    return status.ok() ? nullptr
                       : ts_status_create(ts_status_code(status.code()), status.message().c_str());
  } catch (const std::bad_alloc &) {
    return ts_status_create(TS_RESOURCE_EXHAUSTED, "there is not enough memory");
  } catch (const std::exception &error) {
    return ts_status_create(TS_INTERNAL, error.what());
  } catch (...) {
    return ts_status_create(TS_INTERNAL, "internal error of an unknown kind");
  }
}

inline Status missing(const char *what) {
  return invalidArgument(std::string(what) + " is a null pointer");
}

/// For ts_bytes_free.
inline Status copyText(const std::string &text, char **out) {
  *out = static_cast<char *>(std::malloc(text.size() + 1));
  if (!*out)
    return {StatusCode::ResourceExhausted, "there is not enough memory"};
  std::memcpy(*out, text.c_str(), text.size() + 1);
  return {};
}

/// The same of bytes.
inline Status giveBytes(const std::string &bytes, void **out, size_t *size) {
  *out = std::malloc(bytes.size());
  if (!*out)
    return {StatusCode::ResourceExhausted, "there is not enough memory"};
  std::memcpy(*out, bytes.data(), bytes.size());
  *size = bytes.size();
  return {};
}

} // namespace tensmith
