// Co-execution in Python: what `ts.coexecute` (tensmith.coexecution) is made of.
#include "python/Eager.h"

#include "eager/Coexecution.h"

#include <nanobind/stl/shared_ptr.h>

namespace tensmith::python {

using eager::Coexecution;

void bindCoexecution(nb::module_ &m) {
  nb::class_<eager::Segment>(m, "Segment")
      .def_ro("text", &eager::Segment::text)
      .def("give", [](eager::Segment &segment, const std::shared_ptr<eager::Compiled> &compiled) {
        segment.compiled = compiled;
      });
  nb::class_<Coexecution>(m, "Coexecution")
      .def(nb::init<>())
      .def("begin", &Coexecution::begin)
      .def("end", [](Coexecution &coexecution) { check(coexecution.end()); })
      .def_prop_ro("refusal", &Coexecution::refusal)
      .def("uncompiled", &Coexecution::uncompiled)
      .def("statistics",
           [](const Coexecution &coexecution) {
             nb::dict result;
             result["recorded"] = coexecution.counts().recorded;
             result["coexecuted"] = coexecution.counts().coexecuted;
             result["fall_backs"] = coexecution.counts().fellBack;
             return result;
           })
      .def("paths",
           [](const Coexecution &coexecution) {
             nb::list result;
             for (const auto &path : coexecution.paths()) {
               nb::list segments;
               for (const auto &segment : path->segments)
                 segments.append(nb::make_tuple(
                     segment->inputs.size(), segment->outputs.size(),
                     segment->end < path->places.size() ? path->places[segment->end] : ""));
               result.append(nb::make_tuple(path->runs, segments));
             }
             return result;
           })
      .def("departures", &Coexecution::departures);
  m.def("coexecuting", [] { return Coexecution::current() != nullptr; });
}

} // namespace tensmith::python
