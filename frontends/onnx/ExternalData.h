// A model's file, and the files beside a model that hold its weights.
#pragma once

#include "base/FileMapping.h"

#include <map>
#include <string>
#include <sys/types.h>

namespace tensmith::onnx_import {

Result<MappedFile> mapFile(const std::string &path, int64_t maxBytes);

/// The files beside a model, each mapped once: a model may have more tensors than a process may
/// have mappings. Tensors keep a file mapped beyond this object's life.
///
/// `map` gives the part of a file that a tensor names as its external data. `location` must be a
/// plain file within `folder`: a path that is absolute or leads upward, a symbolic link anywhere on
/// the way and a file with a second name (a hard link) are refused, since each can reach data that
/// the model's author has no right to read. An absent length (-1) is what follows the offset.
class ExternalFiles {
public:
  Result<MappedFile> map(const std::string &folder, const std::string &location, int64_t offset,
                         int64_t length);

private:
  std::map<std::pair<dev_t, ino_t>, MappedFile> mapped_;
};

} // namespace tensmith::onnx_import
