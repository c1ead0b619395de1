// What a module is run on, from the command line's words: `--input NAME=file.npy`.
#pragma once

#include "tools/tensors/Values.h"

#include <functional>
#include <optional>

namespace tensmith::cli {

/// The kinds of files that a program takes beside .npy; those of a program that takes none are
/// empty.
struct OtherFiles {
  std::string named; // in messages, ", file.png"
  /// The file for the input; nothing where it is of no such kind.
  std::function<std::optional<HostTensor>(const std::string &path, const Port &input)> one;
  /// Gives `take` inputs that are all in one file, by number, and where each comes from. False
  /// where the file is of no such kind.
  using Take = std::function<void(size_t input, HostTensor tensor, const std::string &from)>;
  std::function<bool(const std::string &path, const Take &take)> all;
};

struct InputWords {
  std::vector<std::string> given;  // NAME=file.npy, NAME=1x3xf32=random, NAME=random, ...
  std::vector<std::string> shapes; // for what is made up: "batch=4", "image=1x3x224x224"
  uint64_t seed = 0;               // of random inputs
  std::string file;                // the model or module, for messages
  bool makesUp = false;            // what is not given, with a note
  std::function<void(const std::string &)> note; // of what is made up; empty: nobody is told
  OtherFiles others;
};

/// One tensor for each of the module's inputs, in order; types and shapes fit.
std::vector<Tensor> makeInputs(const std::vector<Port> &inputs, const InputWords &words);

/// ".npy", in lower case.
std::string ending(const std::string &path);
std::vector<std::string> namesOf(const std::vector<Port> &inputs);
/// "x, y", or "none".
std::string listed(const std::vector<std::string> &names);

} // namespace tensmith::cli
