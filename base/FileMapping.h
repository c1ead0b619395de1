// Files as memory that is read.
#pragma once

#include "base/Status.h"

#include <memory>
#include <span>
#include <string>

namespace tensmith {

/// A file's bytes, mapped; unmapped with the last copy of `owner`.
struct MappedFile {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// The first `size` bytes of an open file; `what` names it in an error.
Result<MappedFile> mapDescriptor(int descriptor, size_t size, const std::string &what);

/// Takes the pages of every mapped file out of memory. What is still needed of them is read again
/// when it is: a model whose weights have been packed is not there twice while code is generated.
void dropMappedPages();

} // namespace tensmith
