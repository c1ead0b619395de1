// Runs of training for Python: those of `tensmith train`, told and ended by Python's own means.
//
// The interpreter's lock is released while it trains; it is taken to call back, and a few times a
// second to see whether there is a signal that a handler of Python's wants to be told of.
#include "python/Training.h"

#include "base/Spelling.h"
#include "client/Screen.h"
#include "client/TrainingRun.h"
#include "files/Failure.h"
#include "files/Words.h"
#include "python/Conversion.h"
#include "train/SettingTable.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>

namespace {

namespace client = tensmith::client;
namespace train = tensmith::train;
using train::Json;

/// What ends a run from within: an exception that Python has raised meanwhile, or a callback's word
/// that it is enough.
class Interruption {
public:
  /// With the interpreter's lock: the error that Python has set.
  void hold() {
    if (!raised_)
      raised_ = std::make_exception_ptr(nb::python_error());
    else
      PyErr_Clear();
    stop_ = SIGINT;
  }
  void endsHere() {
    int none = 0;
    stop_.compare_exchange_strong(none, client::kEnough);
  }
  const std::atomic<int> &stop() const { return stop_; }
  void raise() const {
    if (raised_)
      std::rethrow_exception(raised_);
  }

private:
  std::atomic<int> stop_ = 0;
  std::exception_ptr raised_;
};

class PythonWatcher : public train::Watcher {
public:
  PythonWatcher(nb::handle callback, bool shown, Interruption &interruption)
      : callback_(callback), interruption_(interruption) {
    if (shown)
      screen_.emplace();
  }

  void progress(const std::string &stage, double fraction, const std::string &figures) override {
    if (screen_)
      screen_->progress(stage, fraction, figures);
    if (auto now = Clock::now(); now >= nextLook_) {
      nextLook_ = now + std::chrono::milliseconds(50);
      nb::gil_scoped_acquire lock;
      if (PyErr_CheckSignals() != 0)
        interruption_.hold();
    }
  }

  void say(const std::string &line) override {
    if (screen_)
      screen_->say(line);
  }

  void warn(const std::string &line) override {
    nb::gil_scoped_acquire lock;
    if (PyErr_WarnEx(PyExc_RuntimeWarning, line.c_str(), 2) != 0)
      interruption_.hold();
  }

  void measured(const train::Metric &metric) override {
    if (callback_.is_none())
      return;
    nb::gil_scoped_acquire lock;
    PyObject *answer =
        PyObject_CallFunction(callback_.ptr(), "s", train::toJson(metric).dump().c_str());
    if (!answer)
      interruption_.hold();
    else if (answer == Py_False)
      interruption_.endsHere();
    Py_XDECREF(answer);
  }

private:
  using Clock = std::chrono::steady_clock;
  nb::handle callback_;
  Interruption &interruption_;
  std::optional<client::Screen> screen_;
  Clock::time_point nextLook_;
};

/// As tensmith.Error: what can't be meant is an invalid argument, and all else has failed.
[[noreturn]] void raiseFailure(const tensmith::Failure &failure) {
  throw Error(failure.what(),
              failure.status == tensmith::kUsage ? int(TS_INVALID_ARGUMENT) : kFailed);
}

/// Those of a configuration, if the model is one, and over them those that are given by option.
train::Settings settingsOf(const std::string &json) {
  train::Settings settings;
  Json given = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    tensmith::failUsage("train: a number in a setting is not finite");
  if (std::string model = given["model"].get<std::string>(); model.ends_with(".toml")) {
    train::readConfiguration(model, settings);
    given.erase("model");
  }
  for (const train::Setting &setting : train::settingTable()) {
    if (!given.contains(setting.option))
      continue;
    std::string name = setting.option;
    std::ranges::replace(name, '-', '_');
    if (std::string problem = train::assign(settings, setting, given[setting.option]);
        !problem.empty())
      tensmith::failUsage("train: " + name + " " + problem);
    settings.origins[setting.option] = name;
  }
  train::checkSettings(settings);
  return settings;
}

/// The arrays where they lie, each with its name.
std::optional<train::Dataset> samplesOf(nb::handle arrays, const std::string &where) {
  if (arrays.is_none())
    return std::nullopt;
  std::vector<std::pair<std::string, tensmith::HostTensor>> tensors;
  for (nb::handle entry : arrays) {
    auto name = nb::cast<std::string>(entry[0]);
    std::string place = where + (name.empty() ? "" : ": " + tensmith::printable(name));
    std::shared_ptr<ts_tensor> tensor(toTensor(entry[1]).release(), ts_tensor_free);
    if (ts_tensor_kind(tensor.get()) != TS_TENSOR)
      tensmith::fail(place, "is no array");
    auto type = tensmith::DataType(ts_tensor_type(tensor.get()));
    if (type == tensmith::DataType::String)
      tensmith::fail(place, "holds text; train on numbers");
    const int64_t *shape = ts_tensor_shape(tensor.get());
    tensors.emplace_back(name,
                         tensmith::HostTensor(type, {shape, shape + ts_tensor_rank(tensor.get())},
                                              ts_tensor_data(tensor.get()), tensor));
  }
  return train::arraysDataset(std::move(tensors), where);
}

nb::dict resultOf(const client::Trained &trained, bool stopped) {
  nb::dict result;
  nb::list history;
  for (const train::Metric &metric : trained.outcome.metrics)
    history.append(nb::str(train::toJson(metric).dump().c_str()));
  nb::dict states;
  for (const auto &[name, tensor] : trained.states)
    states[name.c_str()] = fromTensor(tensor.handle());
  result["first"] = trained.first;
  result["folder"] = trained.folder.string();
  result["checkpoint"] = trained.outcome.checkpoint.string();
  result["step"] = trained.outcome.position.step;
  result["stopped"] = stopped;
  result["history"] = history;
  result["state"] = states;
  return result;
}

nb::dict trainModel(const std::string &json, nb::object data, nb::object test, nb::object callback,
                    bool progress) {
  Interruption interruption;
  try {
    client::Samples samples = {samplesOf(data, "data"), samplesOf(test, "test")};
    train::Settings settings = settingsOf(json);
    auto watch = [&](bool first) {
      return std::make_unique<PythonWatcher>(callback, progress && first, interruption);
    };
    client::TrainingHost host = {watch, interruption.stop(), progress};
    std::optional<client::Trained> trained;
    {
      nb::gil_scoped_release unlocked;
      trained = client::trainModel(std::move(settings), std::move(samples), host);
    }
    interruption.raise();
    return resultOf(*trained, trained->outcome.interrupted);
  } catch (const tensmith::Failure &failure) {
    raiseFailure(failure);
  } catch (const tensmith::Error &error) {
    throw Error(error.what(), error.code());
  }
}

/// What a setting is where it isn't made; null where that can't be said by a value.
Json defaultOf(const train::Setting &setting) {
  train::Settings settings;
  Json value = train::valueOf(settings, setting);
  bool isNone = value == "" || value == Json::array();
  return isNone || !train::assign(settings, setting, value).empty() ? Json() : value;
}

/// The table of settings as JSON: what the function's documentation and its signature are made of.
std::string trainingSettings() {
  Json all = Json::array();
  for (const train::Setting &setting : train::settingTable())
    all.push_back({{"section", setting.section},
                   {"option", setting.option},
                   {"value", setting.valueName},
                   {"help", setting.help},
                   {"default", defaultOf(setting)}});
  return all.dump();
}

} // namespace

void bindTraining(nb::module_ &m) {
  m.def("train", &trainModel, nb::arg("settings"), nb::arg("data").none(), nb::arg("test").none(),
        nb::arg("callback").none(), nb::arg("progress"));
  m.def("training_settings", &trainingSettings);
  m.def("known_spelling", [](const std::string &word, const std::vector<std::string> &names) {
    return tensmith::knownSpelling(word, names);
  });
  m.def("suggestion", &tensmith::suggestion);
}
