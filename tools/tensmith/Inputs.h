// What a model or a module is run on, from the command line's words.
#pragma once

#include "tools/tensmith/Image.h"

#include <optional>

namespace tensmith::cli {

struct InputSettings {
  std::vector<std::string> given; // NAME=file.npy, NAME=1x3xf32=random, all.npz, photo.png, ...
  ImageSettings images;
  std::optional<uint64_t> seed; // of random inputs (none: 0) and random operators

  void addTo(CLI::App &command);
};

/// One tensor for each of the module's inputs, in order. Those that are not given are random where
/// their sizes are known (`shapes` fixes symbols: "batch=4"), with a note on stderr.
std::vector<Tensor> makeInputs(const std::vector<Port> &inputs, const InputSettings &settings,
                               const std::vector<std::string> &shapes, const std::string &file);

} // namespace tensmith::cli
