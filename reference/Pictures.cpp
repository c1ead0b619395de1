// Reference evaluation of decode_image: the codecs lie in a library of their own, which is loaded
// from beside this one when it is first needed.
#include "reference/Companion.h"
#include "reference/PictureCodecs.h"
#include "reference/Text.h"

#include <cstdlib>

namespace tensmith::reference {
namespace {

constexpr const char *kLibrary = "libtensmith_pictures.so";

/// ITU-R BT.601, in 16-bit fixed point.
uint8_t luma(const uint8_t *pixel) {
  return uint8_t((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

void storePixels(const TensmithPicture &picture, const std::string &kind, std::span<uint8_t> y) {
  size_t count = size_t(picture.height * picture.width);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t *pixel = picture.pixels + 3 * i;
    if (kind == "grayscale")
      y[i] = luma(pixel);
    else
      for (size_t c = 0; c < 3; ++c)
        y[3 * i + c] = pixel[kind == "bgr" ? 2 - c : c];
  }
}

} // namespace

Outcome evaluateDecodeImage(const Invocation &invocation) {
  static auto *decode = reinterpret_cast<TensmithDecodePicture *>(
      companionFunction(kLibrary, "tensmithDecodePicture"));
  if (!decode)
    return unsupported(std::string("decode_image: ") + kLibrary +
                       " is not beside the runtime; install it, or build it with the packages of "
                       "scripts/packages.debian");
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x", 1);
  workspace.require(!workspace.ok() || x.type() == DataType::U8, "x", "must be bytes");
  if (!workspace.ok())
    return workspace.status();
  TensmithPicture picture{};
  std::span<const uint8_t> bytes = x.as<uint8_t>();
  if (const char *problem = decode(bytes.data(), bytes.size(), &picture))
    workspace.reject("x", std::string("as a picture ") + problem);
  std::string kind = invocation.attributes.string("pixels", "rgb");
  HostTensor y = workspace.allocate(DataType::U8,
                                    {picture.height, picture.width, kind == "grayscale" ? 1 : 3});
  if (workspace.ok())
    storePixels(picture, kind, y.as<uint8_t>());
  std::free(picture.pixels);
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
