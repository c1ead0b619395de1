// Tensors by name in files of safetensors.
#include "python/Eager.h"

#include "files/Failure.h"
#include "train/Safetensors.h"

#include <nanobind/stl/pair.h>

namespace tensmith::python {

/// A Failure becomes Python's RuntimeError, whatever other modules of ours make of one: they all
/// translate one another's exceptions.
template <typename Run> static auto failing(const Run &run) {
  try {
    return run();
  } catch (const Failure &failure) {
    throw std::runtime_error(failure.what());
  }
}

void bindFiles(nb::module_ &m) {
  m.def("write_safetensors",
        [](const std::string &path, const std::vector<std::pair<std::string, Tensor *>> &named) {
          std::vector<train::NamedTensor> tensors;
          for (const auto &[name, tensor] : named) {
            waitFor(tensor->array);
            Array row = take(eager::dense(tensor->array));
            tensors.push_back(
                {name, HostTensor(row.type(), row.shape(), row.elements(), row.storage()->owner)});
          }
          failing([&] { train::writeSafetensors(path, tensors, {}); });
        });
  m.def("read_safetensors", [](const std::string &path) {
    train::Safetensors file = failing([&] { return train::readSafetensors(path); });
    nb::list named;
    for (train::NamedTensor &each : file.tensors)
      named.append(nb::make_tuple(each.name, nb::cast(Tensor{Array::adopt(each.tensor)})));
    return named;
  });
}

} // namespace tensmith::python
