// Zeroed memory of its own pages, which can be given back while its place stays: what buckets lie
// in.
//
// From half a huge page on they are huge ones: what another process copies of it is looked up page
// by page, which takes as long as the copying where pages are small.
#pragma once

#include "files/Failure.h"

#include <algorithm>
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
    if (!hasHugePages()) {
      data_ = map(bytes_);
      return;
    }
    data_ = alignedTo(kHugePage, map(mapped() + kHugePage), mapped());
    ::madvise(data_, mapped(), MADV_HUGEPAGE);
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
      ::munmap(data_, mapped());
  }

  std::byte *data() const { return data_; }
  int64_t bytes() const { return int64_t(bytes_); }
  /// The contents are zeros again, and take no memory until something is written.
  void forget() const {
    if (data_)
      ::madvise(data_, mapped(), MADV_DONTNEED);
  }

  static constexpr size_t kHugePage = 2 << 20;

private:
  bool hasHugePages() const { return bytes_ >= kHugePage / 2; }
  /// What is mapped: whole pages, where they are huge.
  size_t mapped() const {
    return hasHugePages() ? (bytes_ + kHugePage - 1) / kHugePage * kHugePage : bytes_;
  }
  static std::byte *map(size_t bytes) {
    void *data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      throw Failure("there is not enough memory for the parameters and gradients of a step");
    return static_cast<std::byte *>(data);
  }
  /// Of what is mapped, one unit longer than so many bytes, that many; the rest is unmapped.
  static std::byte *alignedTo(size_t unit, std::byte *data, size_t bytes) {
    size_t before = (unit - reinterpret_cast<uintptr_t>(data) % unit) % unit;
    if (before > 0)
      ::munmap(data, before);
    if (before < unit)
      ::munmap(data + before + bytes, unit - before);
    return data + before;
  }

  std::byte *data_ = nullptr;
  size_t bytes_ = 0;
};

} // namespace tensmith::train
