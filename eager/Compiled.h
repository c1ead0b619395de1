// A compiled module that runs on arrays: what kernels of operators and recorded programs share.
#pragma once

#include "eager/Array.h"
#include "reference/Reference.h"

#include <tensmith/tensmith.h>

#include <span>

namespace tensmith::eager {

class Compiled {
public:
  /// Of a loaded module, which the caller may free. Throws tensmith::Error.
  explicit Compiled(ts_module *module);
  ~Compiled() { ts_session_free(session_); }
  Compiled(const Compiled &) = delete;

  /// All arrays are dense and ready; outputs are written over. Any number of threads may call.
  Status run(std::span<const Array> inputs, std::span<const Array> outputs) const;

  /// The tape's text that it was compiled from, in base64; empty where that is not known.
  std::string text;

private:
  ts_session *session_ = nullptr;
};

/// By the engine: the outputs, which are set aside now, once the inputs are there. `name` is what a
/// trace calls it; it lives as long as the process.
Result<std::vector<Array>> issue(std::shared_ptr<const Compiled> compiled, const char *name,
                                 std::span<const Array> inputs,
                                 std::vector<reference::ResultType> types);

} // namespace tensmith::eager
