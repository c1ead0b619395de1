// Co-execution in Python: what `ts.coexecute` (tensmith.coexecution) is made of.
#include "python/Eager.h"

#include "eager/Coexecution.h"

#include <nanobind/stl/shared_ptr.h>

namespace tensmith::python {

using eager::Coexecution;

namespace {

/// The function that begins a step, at which its call stack ends. Lives as long as the process.
PyObject *beginner = nullptr;

nb::object codeOf(nb::handle frame) {
  static auto &name = *new nb::str("f_code");
  return nb::getattr(frame, name);
}

void begin(Coexecution &coexecution) {
  if (!beginner)
    beginner = codeOf(reinterpret_cast<PyObject *>(PyEval_GetFrame())).release().ptr();
  coexecution.begin();
}

} // namespace

size_t stackOfStep() {
  static auto &lasti = *new nb::str("f_lasti"), &back = *new nb::str("f_back");
  size_t stack = 0;
  nb::object at = nb::borrow(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
  while (at.is_valid() && !at.is_none()) {
    nb::object code = codeOf(at);
    if (code.ptr() == beginner)
      break;
    size_t part = reinterpret_cast<size_t>(code.ptr()) + nb::cast<size_t>(nb::getattr(at, lasti));
    stack = (stack ^ part) * 0x9E3779B97F4A7C15u + (stack >> 29);
    at = nb::getattr(at, back);
  }
  return stack;
}

void bindCoexecution(nb::module_ &m) {
  nb::class_<eager::Segment>(m, "Segment")
      .def_ro("text", &eager::Segment::text)
      .def("give", [](eager::Segment &segment, const std::shared_ptr<eager::Compiled> &compiled) {
        segment.compiled = compiled;
      });
  nb::class_<Coexecution>(m, "Coexecution")
      .def(nb::init<>())
      .def("begin", begin)
      .def("end", [](Coexecution &coexecution) { check(coexecution.end()); })
      .def_prop_ro("refusal", &Coexecution::refusal)
      .def("uncompiled", &Coexecution::uncompiled)
      .def("statistics",
           [](const Coexecution &coexecution) {
             nb::dict result;
             result["recorded"] = coexecution.counts().recorded;
             result["coexecuted"] = coexecution.counts().coexecuted;
             result["by_blocks"] = coexecution.counts().byBlocks;
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
      .def("ignore_paths", &Coexecution::ignorePaths)
      .def_prop_ro("blocks", [](const Coexecution &c) { return c.graph().blocks().size(); })
      .def_prop_ro("nodes", [](const Coexecution &c) { return c.graph().nodeCount(); })
      .def("departures", &Coexecution::departures);
  m.def("coexecuting", [] { return Coexecution::current() != nullptr; });
  // What the function does is neither the step's nor any tape's that records now.
  m.def("aside", [](const nb::callable &function) {
    Coexecution::Paused step;
    eager::Tape::Paused tapes;
    return function();
  });
}

} // namespace tensmith::python
