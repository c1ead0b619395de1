// What the dimensions of an input say of a picture, and the picture as its elements.
#include "tools/tensmith/Image.h"

#include "files/Failure.h"
#include "files/Picture.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

namespace tensmith::cli {
namespace {

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
