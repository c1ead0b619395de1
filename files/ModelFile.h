// Whether a file can be a model at all, and what people give instead of one: checkpoints, models of
// other programs, pictures, folders, pointers of Git LFS.
//
// Known by their first bytes, or where those say little by their ending. Each is refused with what
// it is and how a model is made of it. What is not known is left to the front ends.
#pragma once

#include "base/Status.h"

#include <string>
#include <string_view>

namespace tensmith {

/// Of a model's path: that it is a file which can be read, isn't empty, and is no other format's.
/// IoError or InvalidModel otherwise; the message names the path.
Status checkModelFile(const std::string &path);

/// The same of a model's first bytes; `name` is the file's, or empty. The message doesn't name it.
Status checkModelStart(std::string_view start, std::string_view name);
/// How many of them it looks at.
inline constexpr size_t kModelStart = 512;

} // namespace tensmith
