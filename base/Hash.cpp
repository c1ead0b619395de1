// XXH3 through xxhash's header, compiled into this file alone: no library to link.
#include "base/Hash.h"

#include <bit>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tensmith {
namespace {

Hash128 fromXxhash(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

} // namespace

struct Hasher::State {
  XXH3_state_t xxhash;
};

Hash128 hash128(std::span<const std::byte> bytes) {
  return fromXxhash(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 hash128(std::string_view text) {
  return fromXxhash(XXH3_128bits(text.data(), text.size()));
}

std::string toHex(const Hash128 &hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t half : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4)
      text += kDigits[(half >> shift) & 15];
  return text;
}

Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->xxhash); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher &Hasher::operator=(Hasher &&) noexcept = default;

void Hasher::addBytes(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxhash, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add(int64_t(text.size()));
  addBytes(std::as_bytes(std::span(text)));
}

void Hasher::add(int64_t value) {
  uint64_t bits = uint64_t(value);
  if constexpr (std::endian::native == std::endian::big)
    bits = __builtin_bswap64(bits);
  addBytes(std::as_bytes(std::span(&bits, 1)));
}

Hash128 Hasher::finish() const { return fromXxhash(XXH3_128bits_digest(&state_->xxhash)); }

} // namespace tensmith
