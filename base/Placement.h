// Memory that a caller has set aside for a tensor that somebody else makes.
#pragma once

#include <cstddef>
#include <span>

namespace tensmith {

/// While it lives, what the thread's host tensors are made of is taken from `memory` as far as it
/// fits in there; `memory` outlives them.
class Placement {
public:
  explicit Placement(std::span<std::byte> memory) : memory_(memory), outer_(innermost_) {
    innermost_ = this;
  }
  ~Placement() { innermost_ = outer_; }
  Placement(const Placement &) = delete;

  /// The memory of so many bytes, once; null where there is none, or not as much.
  static std::byte *take(size_t bytes);

private:
  static thread_local Placement *innermost_;
  std::span<std::byte> memory_;
  Placement *outer_;
};

} // namespace tensmith
