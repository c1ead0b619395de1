// Pictures from files, as bytes. Decoding and resizing are stb's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensmith {

struct Picture {
  int height, width, channels;
  std::vector<uint8_t> pixels; // rows of pixels of channels
};

/// A PNG or JPEG with so many channels: 1 (grey), 3 or 4. `path` is named where it can't be read.
Picture decodePicture(const std::string &path, int channels);

/// Filtered with a triangle, without keeping the sides' proportion.
Picture resized(const Picture &from, int height, int width, const std::string &path);

} // namespace tensmith
