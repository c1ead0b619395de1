// The weighted quantile sketch for Python, by which bench/boosting-sketch measures its error.
#include "python/Trees.h"

#include "trees/QuantileSketch.h"

#include <nanobind/ndarray.h>

#include <stdexcept>

namespace nb = nanobind;
using tensmith::trees::QuantileSketch;

namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void addAll(QuantileSketch &sketch, const Floats &values, const Floats &weights) {
  if (values.size() != weights.size())
    throw nb::value_error("a sketch takes as many weights as values");
  for (size_t at = 0; at < values.size(); ++at)
    sketch.add(values.data()[at], weights.data()[at]);
}

/// The value at each rank from 0 to the whole weight, in equal steps.
nb::object valuesOf(const QuantileSketch &sketch, int64_t ranks) {
  auto summary = sketch.summary();
  if (ranks < 2 || summary.isEmpty())
    throw nb::value_error("two ranks or more of a sketch that is not empty are expected");
  std::vector<float> values;
  for (int64_t rank = 0; rank < ranks; ++rank)
    values.push_back(summary.at(summary.weight() * double(rank) / double(ranks - 1)).value);
  size_t shape[] = {values.size()};
  return nb::cast(nb::ndarray<nb::numpy, const float>(values.data(), 1, shape, nb::none()),
                  nb::rv_policy::copy);
}

} // namespace

void addSketch(nb::module_ &module) {
  nb::class_<QuantileSketch>(module, "QuantileSketch")
      .def(nb::init<double, int64_t>(), nb::arg("eps"), nb::arg("values"))
      .def("add", addAll, nb::arg("values"), nb::arg("weights"))
      .def("merge", &QuantileSketch::merge, nb::arg("other"))
      .def("values", valuesOf, nb::arg("ranks"))
      .def_prop_ro("weight", [](const QuantileSketch &sketch) { return sketch.summary().weight(); })
      .def_prop_ro("error", [](const QuantileSketch &sketch) { return sketch.summary().error(); })
      .def_prop_ro("bound", &QuantileSketch::bound)
      .def_prop_ro("entries", &QuantileSketch::entries)
      .def_prop_ro("most_entries", &QuantileSketch::mostEntries);
}
