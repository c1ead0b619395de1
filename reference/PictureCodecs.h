// What the library of picture codecs exports. The runtime loads it when a program decodes a picture
// for the first time, so that no other program depends on the codecs.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct TensmithPicture {
  int64_t height, width;
  uint8_t *pixels; // rows of red, green, blue; freed by `free`
};

/// Null, or what is wrong with the file.
using TensmithDecodePicture = const char *(const uint8_t *bytes, size_t size,
                                           TensmithPicture *picture);
}

namespace tensmith::reference {
/// Bounds what a file of a few bytes can claim: 2^28 pixels, and sides of 2^15.
inline constexpr int64_t kLargestSide = 1 << 15, kMostPixels = 1 << 28;
} // namespace tensmith::reference
