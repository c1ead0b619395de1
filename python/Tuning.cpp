// Tuning from Python: the run of the command line, in this process. What it is asked for and what
// it reports are JSON.
#include "python/Conversion.h"

#include "files/Failure.h"
#include "tune/ModelTuner.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <atomic>

namespace nb = nanobind;

namespace {

namespace tune = tensmith::tune;
namespace client = tensmith::client;
using client::Json;

tune::TuneRequest requestOf(const Json &json) {
  tune::TuneRequest request;
  request.model = json.at("model");
  request.database = json.at("database");
  request.seconds = json.at("seconds");
  request.trials = json.at("trials");
  request.tuning.search = json.at("search");
  request.tuning.seed = json.at("seed");
  request.tuning.batch = json.at("batch");
  request.runners.commands = json.at("runners");
  request.runners.threads = json.at("run_threads");
  request.compile.shapes = json.at("shapes");
  request.compile.target = json.at("target");
  request.compile.precision = json.at("precision");
  request.compile.libraries = json.at("libraries");
  request.compile.cacheDir = json.at("cache_dir");
  request.compile.progress = false;
  if (request.database.empty())
    request.database = request.compile.tuned.database;
  if (request.database.empty())
    tensmith::failUsage("there is no folder for tuned points; name a file (database)");
  return request;
}

std::string tuneModel(const std::string &asked, nb::object progress) {
  std::atomic<bool> stop = false;
  std::exception_ptr raised;
  tune::TuneCallbacks callbacks;
  callbacks.stop = &stop;
  callbacks.say = [](const std::string &line) {
    nb::gil_scoped_acquire locked;
    PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1);
    PyErr_Clear();
  };
  callbacks.progress = [&](const tune::TuneProgress &now) {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals()) { // the run ends as by Ctrl-C on the command line
      PyErr_Clear();
      stop = true;
    }
    try {
      if (!raised && !progress.is_none())
        progress(now.trials, now.elapsed, now.before, now.best, now.kernel);
    } catch (...) {
      raised = std::current_exception();
      stop = true;
    }
  };
  std::string report;
  try {
    tune::TuneRequest request = requestOf(Json::parse(asked));
    nb::gil_scoped_release unlocked;
    report = tune::tuneModel(request, callbacks).dump();
  } catch (const tensmith::Failure &failure) {
    PyErr_SetString(PyExc_ValueError, failure.what());
    throw nb::python_error();
  }
  if (raised)
    std::rethrow_exception(raised);
  return report;
}

} // namespace

NB_MODULE(_tune, m) {
  nb::set_leak_warnings(false);
  m.def("tune", &tuneModel, nb::arg("request"), nb::arg("progress").none());
  m.def("default_database", &tune::defaultDatabase);
}
