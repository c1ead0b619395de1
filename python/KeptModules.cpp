// Files are hashed without the interpreter's lock; see KeptModules.h.
#include "python/KeptModules.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

KeptModules::KeptModules(const std::string &path, std::optional<nb::bytes> bytes,
                         const Settings &settings)
    : settings_(settings) {
  ts_compile_options options = settings_.options(pointers_);
  options.warn_context = &warnings_;
  options.warn = [](void *warnings, const char *message) {
    static_cast<std::vector<std::string> *>(warnings)->push_back(message);
  };
  std::optional<std::span<const std::byte>> given;
  if (bytes)
    given = std::as_bytes(std::span(bytes->c_str(), bytes->size()));
  nb::gil_scoped_release unlocked;
  cache_ = std::make_unique<tensmith::client::ModuleCache>(path, given, options);
}

nb::object KeptModules::find() {
  std::optional<tensmith::client::ModuleCache::Found> found;
  {
    nb::gil_scoped_release unlocked;
    found = cache_->find();
  }
  if (!found)
    return nb::none();
  uint64_t bytes = found->module.bytes();
  return nb::make_tuple(found->module.release(), bytes, found->interface);
}

bool KeptModules::keep(nb::object module, const std::string &interface) {
  if (nb::isinstance<nb::bytes>(module)) {
    auto bytes = nb::cast<nb::bytes>(module);
    nb::gil_scoped_release unlocked;
    return cache_->keepBytes({bytes.c_str(), bytes.size()}, interface);
  }
  std::string path = nb::cast<std::string>(nb::str(module));
  nb::gil_scoped_release unlocked;
  return cache_->keepFile(path, interface);
}

void bindKeptModules(nb::module_ &m) {
  nb::class_<KeptModules>(m, "KeptModules")
      .def(nb::init<const std::string &, std::optional<nb::bytes>, const Settings &>(),
           nb::arg("path"), nb::arg("bytes").none(), nb::arg("settings"))
      .def("find", &KeptModules::find)
      .def("keep", &KeptModules::keep)
      .def("keep_interface", &KeptModules::keepInterface)
      .def_prop_ro("warnings", &KeptModules::warnings);
}
