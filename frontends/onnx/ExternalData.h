// Files as memory, and the files beside a model that hold its weights.
#pragma once

#include "base/Status.h"

#include <memory>
#include <span>
#include <string>

namespace tensmith::onnx_import {

/// A file's bytes, mapped; unmapped with the last copy of `owner`.
struct MappedFile {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

Result<MappedFile> mapFile(const std::string &path, int64_t maxBytes);

/// Says that mapped bytes have been copied and are not needed in memory; reading them again is
/// slow, not wrong.
void releasePages(std::span<const std::byte> bytes);

/// A part of a file that a tensor names as its external data. `location` must be a plain file
/// within `folder`: a path that is absolute or leads upward, a symbolic link anywhere on the way
/// and a file with a second name (a hard link) are refused, since each can reach data that the
/// model's author has no right to read. An absent length (-1) is what follows the offset.
Result<MappedFile> mapExternalData(const std::string &folder, const std::string &location,
                                   int64_t offset, int64_t length);

} // namespace tensmith::onnx_import
