// The hash by which kernels, modules and caches recognise equal bytes: XXH3 of 128 bits
// (xxhash.com).
//
// Not cryptographic: it tells damage and difference, not forgery. The value is the same on every
// machine (XXH128's canonical form), so it may be stored in files and used as a file name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tensmith {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128 &) const = default;
  auto operator<=>(const Hash128 &) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

/// 32 lower-case hexadecimal digits.
std::string toHex(const Hash128 &hash);

/// The hash of pieces that are never in memory together. Strings and numbers are added with what
/// delimits them, so that ("ab", "c") and ("a", "bc") differ; `addBytes` adds the bytes alone.
class Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher &&) noexcept;
  Hasher &operator=(Hasher &&) noexcept;

  void addBytes(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(int64_t value);
  Hash128 finish() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tensmith
