// Decoding and resizing are stb's; here is what the dimensions of an input say of a picture.
#include "tools/tensmith/Image.h"

#include "tools/tensmith/Failure.h"
#include "tools/tensmith/Files.h"

#include <CLI/CLI.hpp>

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

namespace tensmith::cli {
namespace {

struct Picture {
  int height, width, channels;
  std::vector<uint8_t> pixels; // rows of pixels of channels
};

/// Which of an input's dimensions are a picture's; -1 where it has none.
struct PictureDims {
  int channels = -1, height = -1, width = -1;
};

bool isChannels(const std::string &dim) { return dim == "1" || dim == "3" || dim == "4"; }

PictureDims pictureDims(const Port &input, std::optional<ImageLayout> layout,
                        const std::string &path) {
  int rank = int(input.dims.size());
  if (!input.ranked || input.kind != TS_TENSOR || rank < 2 || rank > 4)
    fail(path, "can't be made the input '" + printable(input.name) + "' (" + typeText(input) +
                   "), which has not 2 to 4 dimensions; give an .npy file instead");
  if (rank == 2)
    return {-1, 0, 1};
  int first = rank - 3;
  bool firstFits = isChannels(input.dims[size_t(first)]);
  bool lastFits = isChannels(input.dims[size_t(first) + 2]);
  if (!layout && !firstFits && !lastFits)
    fail(path, "can't see which dimension of the input '" + printable(input.name) + "' (" +
                   typeText(input) + ") is the channels; say --image-layout nchw or nhwc");
  bool channelsFirst = layout ? *layout == ImageLayout::ChannelsFirst : firstFits;
  return channelsFirst ? PictureDims{first, first + 1, first + 2}
                       : PictureDims{first + 2, first, first + 1};
}

int sizeAlong(const Port &input, int dim, int otherwise) {
  if (dim < 0)
    return otherwise;
  return int(
      std::clamp<int64_t>(dimNumber(input.dims[size_t(dim)]).value_or(otherwise), 0, 1 << 20));
}

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

double ofChannel(const std::vector<double> &values, int channel, double otherwise) {
  return values.empty() ? otherwise : values[values.size() == 1 ? 0 : size_t(channel)];
}

void checkCount(const std::vector<double> &values, int channels, const char *option) {
  if (values.size() > 1 && int(values.size()) != channels)
    failUsage(fmt::format("{} has {} values, but the input has {} channels; give one for all, or "
                          "one for each",
                          option, values.size(), channels));
}

void fill(HostTensor &tensor, const Picture &picture, bool channelsFirst,
          const ImageSettings &settings) {
  double scale = settings.scale.value_or(isFloat(tensor.type()) ? 1.0 / 255 : 1.0);
  int64_t pixels = int64_t(picture.height) * picture.width;
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    for (int c = 0; c < picture.channels; ++c) {
      int64_t from = pixel * picture.channels + c;
      double value = picture.pixels[size_t(from)] * scale - ofChannel(settings.mean, c, 0);
      tensor.setDouble(channelsFirst ? c * pixels + pixel : from,
                       value / ofChannel(settings.deviation, c, 1));
    }
}

} // namespace

void ImageSettings::addTo(CLI::App &command) {
  auto *group = command.add_option_group(
      "Pictures", "element = (channel * scale - mean) / std, after resizing to the input's size");
  static const std::map<std::string, ImageLayout> layouts = {{"nchw", ImageLayout::ChannelsFirst},
                                                             {"nhwc", ImageLayout::ChannelsLast}};
  group
      ->add_option("--image-layout", layout,
                   "nchw or nhwc (default: where the input has 1, 3 or 4 channels)")
      ->type_name("LAYOUT")
      ->transform(CLI::CheckedTransformer(layouts, CLI::ignore_case).description(""));
  group->add_option("--image-scale", scale, "Default: 1/255 for floats, 1 for integers")
      ->type_name("X");
  group->add_option("--image-mean", mean, "One, or one for each channel: 0.485,0.456,0.406")
      ->type_name("X,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  group->add_option("--image-std", deviation, "One, or one for each channel: 0.229,0.224,0.225")
      ->type_name("X,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber);
}

HostTensor readImage(const std::string &path, const Port &input, const ImageSettings &settings) {
  PictureDims dims = pictureDims(input, settings.layout, path);
  int channels = sizeAlong(input, dims.channels, dims.channels < 0 ? 1 : 3);
  if (channels != 1 && channels != 3 && channels != 4)
    fail(path, fmt::format("can't be made the input '{}' ({}), which has {} channels; pictures "
                           "have 1, 3 or 4",
                           printable(input.name), typeText(input), channels));
  checkCount(settings.mean, channels, "--image-mean");
  checkCount(settings.deviation, channels, "--image-std");
  Picture picture = decodePicture(path, channels);
  int height = sizeAlong(input, dims.height, picture.height);
  int width = sizeAlong(input, dims.width, picture.width);
  if (height == 0 || width == 0 || int64_t(height) * width > int64_t(1) << 28)
    fail(path, fmt::format("can't be resized to {} by {}", width, height));
  picture = resized(picture, height, width, path);
  Shape shape(input.dims.size(), 1); // a batch of one
  shape[size_t(dims.height)] = height;
  shape[size_t(dims.width)] = width;
  if (dims.channels >= 0)
    shape[size_t(dims.channels)] = channels;
  HostTensor tensor(DataType(input.type), shape);
  if (!tensor.valid() || info(tensor.type()).kind == TypeClass::String)
    fail(path, "can't be made the input '" + printable(input.name) + "' (" + typeText(input) + ")");
  fill(tensor, picture, dims.channels >= 0 && dims.channels < dims.height, settings);
  return tensor;
}

} // namespace tensmith::cli
