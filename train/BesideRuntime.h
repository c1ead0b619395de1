// Where libraries lie that are opened when something needs them.
#pragma once

#include <string>

namespace tensmith::train {

/// The library's path in the runtime's folder, where the runtime looks for it as well when a module
/// names it: of two copies one would be told what the other one does.
std::string besideRuntime(const std::string &library);

} // namespace tensmith::train
