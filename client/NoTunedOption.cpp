// The package that runs modules alone has no compiler: no compilation asks for tuned points, and
// SQLite is not linked.
#include "client/TunedOption.h"

namespace tensmith::client {

std::unique_ptr<tune::TunedPoints> takeTuned(const TunedOption &, ts_compile_options &,
                                             const std::function<void(const std::string &)> &) {
  return nullptr;
}

void tellOfOthers(const tune::TunedPoints *, const std::function<void(const std::string &)> &) {}

} // namespace tensmith::client
