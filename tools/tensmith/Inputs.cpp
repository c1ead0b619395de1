// The option `--input`, and the files that it takes beside .npy: archives and pictures.
#include "tools/tensmith/Inputs.h"

#include "client/Verbosity.h"
#include "files/Failure.h"
#include "files/Npy.h"
#include "files/Npz.h"
#include "files/Words.h"
#include "tools/tensors/Arguments.h"

#include <CLI/CLI.hpp>

namespace tensmith::cli {
namespace {

std::string entryOf(const Npz &archive, const std::string &wanted, const std::string &path) {
  if (archive.has(wanted))
    return wanted;
  if (archive.names().size() == 1)
    return archive.names()[0];
  fail(path, "has no array '" + printable(wanted) + "'; it has: " + listed(archive.names()));
}

std::optional<HostTensor> readOther(const std::string &path, const Port &input,
                                    const ImageSettings &images) {
  std::string kind = ending(path);
  if (kind == ".npz") {
    Npz archive(path);
    std::string entry = entryOf(archive, input.name, path);
    return readNpy(archive.read(entry), path + ": '" + printable(entry) + "'",
                   DataType(input.type));
  }
  if (kind == ".png" || kind == ".jpg" || kind == ".jpeg")
    return readImage(path, input, images);
  return std::nullopt;
}

/// The arrays of `--input all.npz`, under their names.
void spread(const std::string &path, const std::vector<Port> &inputs, const std::string &file,
            const OtherFiles::Take &take) {
  Npz archive(path);
  size_t found = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (archive.has(inputs[i].name)) {
      std::string from = path + ": '" + printable(inputs[i].name) + "'";
      take(i, readNpy(archive.read(inputs[i].name), from, DataType(inputs[i].type)), from);
      ++found;
    }
  if (!found && !inputs.empty())
    fail(path, "has none of the inputs of " + file + " (" + listed(namesOf(inputs)) +
                   "); it has: " + listed(archive.names()));
}

} // namespace

void InputSettings::addTo(CLI::App &command) {
  auto *group = command.add_option_group("Inputs");
  group
      ->add_option("--input,-i", given,
                   "NAME=file.npy, NAME=file.npz, all.npz, NAME=photo.png or .jpg, or\n"
                   "NAME=1x3x224x224xf32=random (or zeros, ones, range); NAME=random where the\n"
                   "size is known. The only input's name may be left out (repeatable)")
      ->type_name("WHAT")
      ->allow_extra_args(false);
  group
      ->add_option("--seed", seed,
                   "Of random inputs (default 0), and of random operators that have none of\n"
                   "their own (default: other numbers in each run)")
      ->type_name("N");
  images.addTo(command);
}

std::vector<Tensor> makeInputs(const std::vector<Port> &inputs, const InputSettings &settings,
                               const std::vector<std::string> &shapes, const std::string &file) {
  InputWords words = {settings.given, shapes, settings.seed.value_or(0), file, true,
                      client::note,   {}};
  words.others.named = ", file.npz, file.png, file.jpg";
  words.others.one = [&](const std::string &path, const Port &input) {
    return readOther(path, input, settings.images);
  };
  words.others.all = [&](const std::string &path, const OtherFiles::Take &take) {
    if (ending(path) != ".npz")
      return false;
    spread(path, inputs, file, take);
    return true;
  };
  return makeInputs(inputs, words);
}

} // namespace tensmith::cli
