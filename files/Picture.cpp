// The only file that has stb's code in it.
#include "files/Picture.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <climits>
#include <fmt/format.h>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_MAX_DIMENSIONS 32768
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_STATIC
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>
#pragma clang diagnostic pop

namespace tensmith {

Picture decodePicture(const std::string &path, int channels) {
  Bytes file = readFile(path);
  auto bytes = reinterpret_cast<const stbi_uc *>(file.data());
  int width = 0, height = 0, own = 0;
  if (file.size() > size_t(INT_MAX) ||
      !stbi_info_from_memory(bytes, int(file.size()), &width, &height, &own))
    fail(path, "is not a PNG or JPEG picture that can be read; convert it");
  stbi_uc *pixels = stbi_load_from_memory(bytes, int(file.size()), &width, &height, &own, channels);
  if (!pixels)
    fail(path, std::string("can't be decoded: ") + stbi_failure_reason() + "; write it again");
  Picture picture = {height, width, channels, {}};
  picture.pixels.assign(pixels, pixels + size_t(height) * size_t(width) * size_t(channels));
  stbi_image_free(pixels);
  return picture;
}

Picture resized(const Picture &from, int height, int width, const std::string &path) {
  if (height == from.height && width == from.width)
    return from;
  Picture to = {height, width, from.channels, {}};
  to.pixels.resize(size_t(height) * size_t(width) * size_t(from.channels));
  if (!stbir_resize_uint8_generic(from.pixels.data(), from.width, from.height, 0, to.pixels.data(),
                                  width, height, 0, from.channels, STBIR_ALPHA_CHANNEL_NONE, 0,
                                  STBIR_EDGE_CLAMP, STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR,
                                  nullptr))
    fail(path, fmt::format("can't be resized to {} by {}", width, height));
  return to;
}

} // namespace tensmith
