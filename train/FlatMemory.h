// Zeroed memory of its own pages, which can be given back while its place stays: what buckets lie
// in.
#pragma once

#include "files/Failure.h"

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <utility>

namespace tensmith::train {

class FlatMemory {
public:
  FlatMemory() = default;
  explicit FlatMemory(int64_t bytes) : bytes_(size_t(bytes)) {
    if (!bytes_)
      return;
    void *data =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      throw Failure("there is not enough memory for the parameters and gradients of a step");
    data_ = static_cast<std::byte *>(data);
  }
  FlatMemory(FlatMemory &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  FlatMemory &operator=(FlatMemory &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FlatMemory() {
    if (data_)
      ::munmap(data_, bytes_);
  }

  std::byte *data() const { return data_; }
  int64_t bytes() const { return int64_t(bytes_); }
  /// The contents are zeros again, and take no memory until something is written.
  void forget() const {
    if (data_)
      ::madvise(data_, bytes_, MADV_DONTNEED);
  }

private:
  std::byte *data_ = nullptr;
  size_t bytes_ = 0;
};

} // namespace tensmith::train
