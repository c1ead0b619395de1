// Names that are safe as files', and tensors written under them; see Results.h.
#include "tools/tensors/Results.h"

#include "files/Failure.h"
#include "files/Npy.h"

#include <fmt/format.h>

namespace tensmith::cli {

std::string fileName(const std::string &name, std::set<std::string> &taken) {
  std::string safe;
  for (unsigned char c : name.substr(0, 200))
    safe += std::isalnum(c) || c == '-' || c == '_' || (c == '.' && !safe.empty()) ? char(c) : '_';
  std::string unique = safe.empty() ? "output" : safe;
  for (int i = 1; !taken.insert(unique).second; ++i)
    unique = fmt::format("{}_{}", safe, i);
  return unique;
}

void makeFolder(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(folder, "can't be made: " + error.message() + "; name a folder that can be written to");
}

std::string save(const Tensor &tensor, const std::filesystem::path &folder,
                 const std::string &name) {
  if (tensor.kind() == TS_TENSOR) {
    auto path = folder / (name + ".npy");
    writeFile(path, writeNpy(view(tensor)));
    return path;
  }
  if (tensor.kind() == TS_SEQUENCE || tensor.kind() == TS_MAP)
    for (size_t i = 0; i < ts_tensor_sequence_length(tensor.handle()); ++i) {
      ts_tensor *element = ts_tensor_sequence_at(tensor.handle(), i);
      ts_tensor_retain(element);
      save(Tensor(element), folder, fmt::format("{}.{}", name, i));
    }
  return folder / name;
}

} // namespace tensmith::cli
