// What MLIR's parser must not be given: see TextScopes.cpp.
#pragma once

#include "base/Status.h"

#include <string>
#include <string_view>

namespace tensmith {

/// InvalidModel, with `name` and the line, where the text names an operation that is none of the
/// graph dialect, uses a value before its definition or outside of the region that defines it, or
/// branches to a block. Everything else about the text is the parser's to judge.
Status checkScopes(std::string_view text, const std::string &name);

} // namespace tensmith
