// Pictures as inputs: decoded, resized to what the input asks for, scaled and laid out.
//
// element = (channel * scale - mean) / deviation, with channels of 0 to 255 in the order red,
// green, blue, alpha; one channel is grey. Resizing filters with a triangle (what other programs
// call bilinear, with antialiasing), without keeping the sides' proportion.
#pragma once

#include "tools/tensors/Values.h"

#include <optional>

namespace CLI {
class App;
}

namespace tensmith::cli {

enum class ImageLayout { ChannelsFirst, ChannelsLast };

struct ImageSettings {
  std::optional<ImageLayout> layout;   // else by the input's dimensions
  std::optional<double> scale;         // else 1/255 for floats, 1 for integers
  std::vector<double> mean, deviation; // one for all channels, or one for each

  void addTo(CLI::App &command);
};

/// The picture as a tensor for that input, whose symbolic sizes become the picture's own.
HostTensor readImage(const std::string &path, const Port &input, const ImageSettings &settings);

} // namespace tensmith::cli
