// Tensors by name in files of safetensors. A Failure becomes Python's RuntimeError, as any
// std::runtime_error does.
#include "python/Eager.h"

#include "train/Safetensors.h"

#include <nanobind/stl/pair.h>

namespace tensmith::python {

void bindFiles(nb::module_ &m) {
  m.def("write_safetensors",
        [](const std::string &path, const std::vector<std::pair<std::string, Tensor *>> &named) {
          std::vector<train::NamedTensor> tensors;
          for (const auto &[name, tensor] : named) {
            waitFor(tensor->array);
            Array row = take(eager::dense(tensor->array));
            tensors.push_back({name, HostTensor(row.type(), row.shape(), row.data(), row.storage())});
          }
          train::writeSafetensors(path, tensors, {});
        });
  m.def("read_safetensors", [](const std::string &path) {
    train::Safetensors file = train::readSafetensors(path);
    nb::list named;
    for (train::NamedTensor &each : file.tensors)
      named.append(nb::make_tuple(each.name, nb::cast(Tensor{Array::adopt(each.tensor)})));
    return named;
  });
}

} // namespace tensmith::python
