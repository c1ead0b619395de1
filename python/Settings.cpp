// From Python's words to the C API's, whose options point into what is held here; see Settings.h.
#include "python/Settings.h"

#include "client/Compiler.h"
#include "files/Failure.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

namespace nb = nanobind;

ts_compile_options Settings::options(Pointers &pointers) const {
  ts_compile_options result = tensmith::client::defaultOptions();
  auto add = [&](const std::vector<std::string> &names) {
    for (const std::string &name : names)
      pointers.names.push_back(name.c_str());
  };
  add(shapes);
  add(overridable);
  add(casts);
  add(calibrationNames);
  for (const Derivative &derivative : derivatives) {
    add(derivative.of);
    add(derivative.by);
  }
  if (training)
    for (const auto *names : {&training->settingNames, &training->trainable, &training->outputs})
      add(*names);
  const char *const *next = pointers.names.data();
  auto take = [&](const std::vector<std::string> &names) {
    return std::exchange(next, next + names.size());
  };
  result.shapes = take(shapes);
  result.shape_count = shapes.size();
  result.overridable = take(overridable);
  result.overridable_count = overridable.size();
  result.casts = take(casts);
  result.cast_count = casts.size();
  result.calibration = ts_calibration(calibration);
  result.calibration_names = take(calibrationNames);
  for (nb::handle value : calibrationValues)
    pointers.handles.push_back(pointers.tensors.emplace_back(toTensor(value)).get());
  result.calibration_values = pointers.handles.data();
  result.calibration_count = pointers.handles.size();
  result.calibration_source = calibrationSource ? calibrationSource->c_str() : nullptr;
  for (const Derivative &derivative : derivatives) {
    const char *const *of = take(derivative.of);
    pointers.derivatives.push_back({derivative.tangent ? TS_TANGENT : TS_GRADIENT, of,
                                    derivative.of.size(), take(derivative.by), derivative.by.size(),
                                    derivative.takesCotangent});
  }
  result.derivatives = pointers.derivatives.data();
  result.derivative_count = pointers.derivatives.size();
  if (training) {
    ts_training_options &step = pointers.training;
    step.size = sizeof(step);
    step.loss = training->loss.c_str();
    step.of = training->of ? training->of->c_str() : nullptr;
    step.optimiser = training->optimiser.c_str();
    step.schedule = training->schedule.c_str();
    step.setting_names = take(training->settingNames);
    step.setting_values = training->settingValues.data();
    step.setting_count = training->settingNames.size();
    step.clip_norm = training->clipNorm;
    step.weight_decay = training->weightDecay.value_or(0);
    step.no_weight_decay = training->weightDecay == 0.0;
    step.ema_decay = training->emaDecay;
    step.trainable = take(training->trainable);
    step.trainable_count = training->trainable.size();
    step.outputs = take(training->outputs);
    step.output_count = training->outputs.size();
    result.training = &step;
  }
  result.optimization = fuse;
  result.target = target ? target->c_str() : nullptr;
  result.cache_dir = cache ? cache->c_str() : nullptr;
  result.dump_ir_dir = dump ? dump->c_str() : nullptr;
  result.evaluate_by_reference = reference;
  result.precision = ts_precision(precision);
  result.schedules = schedules ? schedules->c_str() : nullptr;
  result.libraries = libraries ? libraries->c_str() : nullptr;
  result.memory_budget = memory;
  result.recomputation = recomputation ? recomputation->c_str() : nullptr;
  result.device = device ? device->c_str() : nullptr;
  result.resident = resident;
  result.function = function ? function->c_str() : nullptr;
  result.for_evaluation = forEvaluation;
  result.fast_math = fastMath;
  result.debug_info = debugInfo;
  auto warn = [](const std::string &message) {
    if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1))
      throw nb::python_error();
  };
  try {
    pointers.tuned = tensmith::client::takeTuned(tuned ? tensmith::client::TunedOption{*tuned, true}
                                                       : tensmith::client::TunedOption(),
                                                 result, warn);
  } catch (const tensmith::Failure &failure) {
    throw Error(failure.what(), TS_INVALID_ARGUMENT);
  }
  return result;
}

void bindSettings(nb::module_ &m) {
  nb::class_<Derivative>(m, "Derivative")
      .def(nb::init<>())
      .def_rw("tangent", &Derivative::tangent)
      .def_rw("takes_cotangent", &Derivative::takesCotangent)
      .def_rw("of", &Derivative::of)
      .def_rw("by", &Derivative::by);
  nb::class_<Training>(m, "Training")
      .def(nb::init<>())
      .def_rw("loss", &Training::loss)
      .def_rw("of", &Training::of, nb::arg().none())
      .def_rw("optimiser", &Training::optimiser)
      .def_rw("schedule", &Training::schedule)
      .def_rw("setting_names", &Training::settingNames)
      .def_rw("setting_values", &Training::settingValues)
      .def_rw("clip_norm", &Training::clipNorm)
      .def_rw("weight_decay", &Training::weightDecay)
      .def_rw("ema_decay", &Training::emaDecay)
      .def_rw("trainable", &Training::trainable)
      .def_rw("outputs", &Training::outputs);
  nb::class_<Settings>(m, "Settings")
      .def(nb::init<>())
      .def_rw("training", &Settings::training, nb::arg().none())
      .def_rw("shapes", &Settings::shapes)
      .def_rw("overridable", &Settings::overridable)
      .def_rw("casts", &Settings::casts)
      .def_rw("derivatives", &Settings::derivatives)
      .def_rw("fuse", &Settings::fuse)
      .def_rw("target", &Settings::target, nb::arg().none())
      .def_rw("cache", &Settings::cache, nb::arg().none())
      .def_rw("dump", &Settings::dump, nb::arg().none())
      .def_rw("reference", &Settings::reference)
      .def_rw("schedules", &Settings::schedules, nb::arg().none())
      .def_rw("function", &Settings::function, nb::arg().none())
      .def_rw("tuned", &Settings::tuned, nb::arg().none())
      .def_rw("libraries", &Settings::libraries, nb::arg().none())
      .def_rw("memory", &Settings::memory)
      .def_rw("recomputation", &Settings::recomputation, nb::arg().none())
      .def_rw("device", &Settings::device, nb::arg().none())
      .def_rw("resident", &Settings::resident)
      .def_rw("for_evaluation", &Settings::forEvaluation)
      .def_rw("fast_math", &Settings::fastMath)
      .def_rw("debug_info", &Settings::debugInfo)
      .def_rw("calibration", &Settings::calibration)
      .def_rw("calibration_names", &Settings::calibrationNames)
      .def_rw("calibration_values", &Settings::calibrationValues)
      .def_rw("calibration_source", &Settings::calibrationSource, nb::arg().none())
      .def_rw("precision", &Settings::precision);
}
