// Picture files as pixels, by the libraries that everybody decodes them with: stb_image for PNG,
// BMP and PNM, libjpeg, libtiff, libwebp and OpenJPEG.
//
// The format is told by the file's first bytes. Nothing here trusts a size that a file claims: it
// is bounded before memory is taken.
#include "reference/PictureCodecs.h"

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <jpeglib.h>
#include <openjpeg.h>
#include <webp/decode.h>
#ifdef TENSMITH_HAS_TIFF
#include <tiffio.h>
#endif

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 32768
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include <stb/stb_image.h>
#pragma clang diagnostic pop

namespace tensmith::reference {
namespace {

constexpr const char *kTooLarge = "is too large", *kDamaged = "is damaged or unsupported";

struct File {
  const uint8_t *bytes;
  size_t size, position = 0;

  bool startsWith(std::string_view magic, size_t offset = 0) const {
    return size >= offset + magic.size() &&
           std::memcmp(bytes + offset, magic.data(), magic.size()) == 0;
  }
};

/// Takes memory for the pixels; null, or why it can't.
const char *allocate(TensmithPicture &picture, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kLargestSide || width > kLargestSide ||
      height * width > kMostPixels)
    return kTooLarge;
  picture = {height, width, static_cast<uint8_t *>(std::malloc(size_t(height * width * 3)))};
  return picture.pixels ? nullptr : kTooLarge;
}

/// Where the pixels of a binary PNM begin: behind three numbers, with white space and comments.
size_t pnmHeader(const File &file) {
  size_t at = 2;
  auto skip = [&](auto belongs) {
    while (at < file.size && belongs(file.bytes[at]))
      ++at;
  };
  for (int number = 0; number < 3; ++number) {
    skip([](uint8_t c) { return std::isspace(c) != 0; });
    while (at < file.size && file.bytes[at] == '#') {
      skip([](uint8_t c) { return c != '\n'; });
      skip([](uint8_t c) { return std::isspace(c) != 0; });
    }
    skip([](uint8_t c) { return std::isdigit(c) != 0; });
  }
  return at + 1;
}

const char *decodeSimple(const File &file, TensmithPicture &picture) {
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(file.bytes, int(file.size), &width, &height, &channels))
    return kDamaged;
  if (int64_t(width) * height > kMostPixels)
    return kTooLarge;
  // stb_image leaves the pixels that a PNM lacks uninitialised.
  size_t needed = size_t(width) * size_t(height) * size_t(channels);
  if (file.startsWith("P") && file.size < pnmHeader(file) + needed)
    return kDamaged;
  picture.pixels = stbi_load_from_memory(file.bytes, int(file.size), &width, &height, &channels, 3);
  picture.width = width;
  picture.height = height;
  return picture.pixels ? nullptr : kDamaged;
}

// ---- JPEG

/// libjpeg leaves by a jump where a file is damaged.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf leave;
};

void leaveJpeg(j_common_ptr decoder) {
  std::longjmp(reinterpret_cast<JpegErrors *>(decoder->err)->leave, 1);
}

const char *decodeJpeg(const File &file, TensmithPicture &picture) {
  jpeg_decompress_struct decoder;
  JpegErrors errors;
  decoder.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leaveJpeg;
  errors.manager.emit_message = [](j_common_ptr, int) {};
  const char *volatile problem = kDamaged;
  jpeg_create_decompress(&decoder);
  if (!setjmp(errors.leave)) {
    jpeg_mem_src(&decoder, file.bytes, file.size);
    jpeg_read_header(&decoder, TRUE);
    decoder.out_color_space = JCS_RGB;
    problem = allocate(picture, decoder.image_height, decoder.image_width);
    if (!problem) {
      problem = kDamaged;
      jpeg_start_decompress(&decoder);
      while (decoder.output_scanline < decoder.output_height) {
        JSAMPROW row = picture.pixels + size_t(decoder.output_scanline) * size_t(picture.width) * 3;
        jpeg_read_scanlines(&decoder, &row, 1);
      }
      problem = nullptr;
    }
  }
  jpeg_destroy_decompress(&decoder);
  return problem;
}

// ---- TIFF

#ifndef TENSMITH_HAS_TIFF
const char *decodeTiff(const File &, TensmithPicture &) {
  return "is a TIFF file, which this package doesn't read; convert it to PNG";
}
#else
tmsize_t readTiff(thandle_t handle, void *to, tmsize_t size) {
  auto &file = *static_cast<File *>(handle);
  size_t count = std::min(size_t(size), file.size - file.position);
  std::memcpy(to, file.bytes + file.position, count);
  file.position += count;
  return tmsize_t(count);
}

toff_t seekTiff(thandle_t handle, toff_t offset, int whence) {
  auto &file = *static_cast<File *>(handle);
  size_t from = whence == SEEK_CUR ? file.position : whence == SEEK_END ? file.size : 0;
  if (offset > file.size - from)
    return toff_t(-1);
  return file.position = from + size_t(offset);
}

TIFF *openTiff(File &file) {
  auto writes = [](thandle_t, void *, tmsize_t) { return tmsize_t(0); };
  auto closes = [](thandle_t) { return 0; };
  auto sizes = [](thandle_t handle) { return toff_t(static_cast<File *>(handle)->size); };
  TIFFSetErrorHandler(nullptr);
  TIFFSetWarningHandler(nullptr);
  return TIFFClientOpen("picture", "rm", &file, readTiff, writes, seekTiff, closes, sizes, nullptr,
                        nullptr);
}

const char *decodeTiff(const File &original, TensmithPicture &picture) {
  File file = original;
  TIFF *tiff = openTiff(file);
  if (!tiff)
    return kDamaged;
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  const char *problem = allocate(picture, height, width);
  auto *raster =
      problem ? nullptr : static_cast<uint32_t *>(std::malloc(size_t(width) * size_t(height) * 4));
  if (!problem &&
      (!raster || !TIFFReadRGBAImageOriented(tiff, width, height, raster, ORIENTATION_TOPLEFT, 1)))
    problem = kDamaged;
  for (size_t i = 0; !problem && i < size_t(width) * height; ++i) {
    picture.pixels[3 * i] = uint8_t(TIFFGetR(raster[i]));
    picture.pixels[3 * i + 1] = uint8_t(TIFFGetG(raster[i]));
    picture.pixels[3 * i + 2] = uint8_t(TIFFGetB(raster[i]));
  }
  std::free(raster);
  TIFFClose(tiff);
  return problem;
}
#endif

// ---- WebP

const char *decodeWebp(const File &file, TensmithPicture &picture) {
  int width = 0, height = 0;
  if (!WebPGetInfo(file.bytes, file.size, &width, &height))
    return kDamaged;
  if (const char *problem = allocate(picture, height, width))
    return problem;
  bool decoded = WebPDecodeRGBInto(file.bytes, file.size, picture.pixels,
                                   size_t(width) * size_t(height) * 3, width * 3);
  return decoded ? nullptr : kDamaged;
}

// ---- JPEG 2000

opj_stream_t *streamOf(File &file) {
  opj_stream_t *stream = opj_stream_default_create(OPJ_TRUE);
  opj_stream_set_user_data(stream, &file, nullptr);
  opj_stream_set_user_data_length(stream, file.size);
  opj_stream_set_read_function(stream, [](void *to, OPJ_SIZE_T size, void *user) {
    auto &file = *static_cast<File *>(user);
    size_t count = std::min(size, file.size - file.position);
    std::memcpy(to, file.bytes + file.position, count);
    file.position += count;
    return count ? OPJ_SIZE_T(count) : OPJ_SIZE_T(-1);
  });
  opj_stream_set_skip_function(stream, [](OPJ_OFF_T count, void *user) {
    auto &file = *static_cast<File *>(user);
    if (count < 0 || size_t(count) > file.size - file.position)
      return OPJ_OFF_T(-1);
    file.position += size_t(count);
    return count;
  });
  opj_stream_set_seek_function(stream, [](OPJ_OFF_T position, void *user) {
    auto &file = *static_cast<File *>(user);
    if (position < 0 || size_t(position) > file.size)
      return OPJ_FALSE;
    file.position = size_t(position);
    return OPJ_TRUE;
  });
  return stream;
}

const char *copyComponents(const opj_image_t &image, TensmithPicture &picture) {
  const opj_image_comp_t &first = image.comps[0];
  uint32_t colours = image.numcomps >= 3 ? 3 : 1;
  for (uint32_t c = 0; c < colours; ++c) {
    const opj_image_comp_t &component = image.comps[c];
    if (component.w != first.w || component.h != first.h || component.prec != 8 || component.sgnd ||
        !component.data)
      return kDamaged;
  }
  if (const char *problem = allocate(picture, first.h, first.w))
    return problem;
  for (size_t i = 0; i < size_t(first.w) * first.h; ++i)
    for (uint32_t c = 0; c < 3; ++c)
      picture.pixels[3 * i + c] = uint8_t(image.comps[c % colours].data[i]);
  return nullptr;
}

const char *decodeJpeg2000(const File &original, TensmithPicture &picture) {
  File file = original;
  bool isBare = file.startsWith("\xff\x4f\xff\x51");
  opj_codec_t *codec = opj_create_decompress(isBare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
  opj_stream_t *stream = streamOf(file);
  opj_image_t *image = nullptr;
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  const char *problem = kDamaged;
  if (opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &image) &&
      image->numcomps > 0) {
    bool fits = int64_t(image->comps[0].w) * int64_t(image->comps[0].h) <= kMostPixels;
    if (!fits)
      problem = kTooLarge;
    else if (image->color_space != OPJ_CLRSPC_SYCC && opj_decode(codec, stream, image) &&
             opj_end_decompress(codec, stream))
      problem = copyComponents(*image, picture);
  }
  if (image)
    opj_image_destroy(image);
  opj_stream_destroy(stream);
  opj_destroy_codec(codec);
  return problem;
}

const char *decode(const File &file, TensmithPicture &picture) {
  using namespace std::string_view_literals;
  if (file.size > size_t(INT32_MAX))
    return kTooLarge;
  if (file.startsWith("\xff\xd8\xff"))
    return decodeJpeg(file, picture);
  if (file.startsWith("II*\0"sv) || file.startsWith("MM\0*"sv))
    return decodeTiff(file, picture);
  if (file.startsWith("RIFF") && file.startsWith("WEBP", 8))
    return decodeWebp(file, picture);
  if (file.startsWith("\0\0\0\x0cjP  "sv) || file.startsWith("\xff\x4f\xff\x51"))
    return decodeJpeg2000(file, picture);
  return decodeSimple(file, picture);
}

} // namespace
} // namespace tensmith::reference

extern "C" __attribute__((visibility("default"))) const char *
tensmithDecodePicture(const uint8_t *bytes, size_t size, TensmithPicture *picture) {
  *picture = {};
  const char *problem = tensmith::reference::decode({bytes, size}, *picture);
  if (problem) {
    std::free(picture->pixels);
    picture->pixels = nullptr;
  }
  return problem;
}
