// The extension module under the package `tensmith`: handles of the C API as Python objects.
//
// The interpreter's lock is released while models compile and run.
#include "cache/LoadedPlugins.h"
#include "client/CompilerLibrary.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "python/Builder.h"
#include "python/Conversion.h"
#include "python/KeptModules.h"
#include "python/Settings.h"
#include "python/TensorExchange.h"
#include "python/Training.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace {

const char *codeName(int code) {
  static constexpr const char *kNames[] = {
      "ok",          "invalid_argument",   "invalid_model", "invalid_module",
      "unsupported", "resource_exhausted", "io_error",      "internal",
      "failed"};
  return size_t(code) < std::size(kNames) ? kNames[code] : "internal";
}

/// As tensmith.Error, whose `code` says what kind of failure it is. Names of models, which messages
/// hold, need not be UTF-8.
void raise(const std::exception_ptr &thrown, void *type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error &error) {
    nb::handle errorType(static_cast<PyObject *>(type));
    std::string_view what = error.what();
    nb::object message =
        nb::steal(PyUnicode_DecodeUTF8(what.data(), Py_ssize_t(what.size()), "replace"));
    nb::object instance = errorType(message);
    instance.attr("code") = codeName(error.code);
    PyErr_SetObject(errorType.ptr(), instance.ptr());
  }
}

/// The compiler, which is loaded by the first that asks.
const tensmith::client::CompilerLibrary &compiler() {
  const auto &library = tensmith::client::compilerLibrary();
  if (!library.failure.empty())
    throw Error(library.failure, TS_UNSUPPORTED);
  return library;
}

nb::dict portOf(const ts_port &port) {
  nb::dict result;
  result["name"] = port.name;
  result["kind"] = port.kind == TS_TENSOR     ? "tensor"
                   : port.kind == TS_SEQUENCE ? "sequence"
                   : port.kind == TS_OPTIONAL ? "optional"
                   : port.kind == TS_MAP      ? "map"
                   : port.kind == TS_DATA     ? "data"
                                              : "none";
  result["type"] = ts_type_name(port.type);
  nb::list dims;
  for (int64_t i = 0; i < port.rank; ++i)
    dims.append(nb::str(port.dims[i]));
  result["dims"] = port.rank < 0 ? nb::object(nb::none()) : nb::object(dims);
  return result;
}

/// The states of a module, held for as long as steps are made with them.
class States {
public:
  explicit States(ts_module *module) : module_(module) {
    for (size_t i = 0; i < ts_module_state_count(module); ++i) {
      ts_tensor *tensor = nullptr;
      check(ts_module_state_initial(module, i, &tensor));
      tensors_.emplace_back(tensor);
    }
  }

  States(const States &) = delete;
  States &operator=(const States &) = delete;

  size_t size() const { return tensors_.size(); }
  ts_tensor *tensor(size_t index) const { return tensors_.at(index).get(); }
  ts_state state(size_t index) const { return ts_module_state(module_, index); }
  nb::object array(size_t index) const { return fromTensor(tensors_.at(index).get()); }

private:
  ts_module *module_; // of the Module that Python keeps alive
  std::vector<Owned<ts_tensor>> tensors_;
};

class Module {
public:
  Module(ts_module *module, int threads, int64_t depth, int64_t instructions) : module_(module) {
    ts_session_options options{sizeof(options), threads, 0, depth, instructions, 0, 0, 0, nullptr};
    ts_session *session = nullptr;
    check(ts_session_create(module, &options, &session));
    session_.reset(session);
    if (const char *warning = ts_module_warning(module))
      if (PyErr_WarnEx(PyExc_RuntimeWarning, warning, 2) != 0)
        throw nb::python_error();
  }

  /// `seed`: what random operators without one draw by; none: other numbers in each run.
  /// `exchange`: of a library whose tensors inputs may be, and results are; else NumPy's arrays.
  nb::list run(nb::list inputs, std::optional<uint64_t> seed, const TensorExchange *exchange) {
    std::vector<Owned<ts_tensor>> held;
    std::vector<ts_tensor *> pointers;
    for (nb::handle input : inputs) {
      size_t number = held.size();
      ts_type type = number < ts_module_input_count(module_.get())
                         ? ts_module_input(module_.get(), number).type
                         : TS_UNDEFINED;
      held.push_back(exchange && exchange->takes(input) ? exchange->toTensor(input)
                                                        : toTensor(input, type));
      pointers.push_back(held.back().get());
    }
    std::vector<ts_tensor *> outputs(ts_module_output_count(module_.get()));
    ts_run_options options{sizeof(options), nullptr, nullptr, nullptr, seed ? &*seed : nullptr};
    ts_status *status;
    {
      nb::gil_scoped_release unlocked;
      status = ts_session_run_with(session_.get(), pointers.data(), pointers.size(), outputs.data(),
                                   outputs.size(), &options);
    }
    check(status);
    nb::list results;
    for (ts_tensor *output : outputs) {
      Owned<ts_tensor> owned(output);
      results.append(exchange ? exchange->fromTensor(output) : fromTensor(output));
    }
    return results;
  }

  States *states() const { return new States(module_.get()); }

  nb::list stateList() const {
    nb::list result;
    for (size_t i = 0; i < ts_module_state_count(module_.get()); ++i) {
      ts_state state = ts_module_state(module_.get(), i);
      nb::dict entry;
      entry["name"] = state.name;
      entry["kind"] = state.kind == TS_STATE_PARAMETER ? "parameter"
                      : state.kind == TS_STATE_SLOT    ? "slot"
                                                       : "step";
      entry["input"] = state.input;
      entry["output"] = state.output;
      result.append(entry);
    }
    return result;
  }

  /// Runs once and updates the states. `inputs` are those that are no states, in order; the results
  /// likewise.
  nb::list step(nb::list inputs, const States &states) {
    size_t inputCount = ts_module_input_count(module_.get());
    std::vector<ts_tensor *> given(inputCount), outputs(ts_module_output_count(module_.get()));
    for (size_t i = 0; i < states.size(); ++i) {
      ts_state state = states.state(i);
      given[state.input] = states.tensor(i);
      if (state.output != TS_NO_OUTPUT)
        outputs[state.output] = states.tensor(i);
    }
    std::vector<Owned<ts_tensor>> held;
    for (size_t i = 0; i < inputCount; ++i) {
      if (given[i])
        continue;
      if (held.size() == inputs.size())
        throw nb::value_error("the step has more inputs");
      held.push_back(toTensor(inputs[held.size()], ts_module_input(module_.get(), i).type));
      given[i] = held.back().get();
    }
    std::vector<bool> isState;
    for (ts_tensor *output : outputs)
      isState.push_back(output != nullptr);
    ts_status *status;
    {
      nb::gil_scoped_release unlocked;
      status = ts_session_run(session_.get(), given.data(), given.size(), outputs.data(),
                              outputs.size());
    }
    check(status);
    nb::list results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (isState[i])
        continue;
      Owned<ts_tensor> owned(outputs[i]);
      results.append(fromTensor(outputs[i]));
    }
    return results;
  }

  nb::list ports(bool inputs) const {
    nb::list result;
    size_t count =
        inputs ? ts_module_input_count(module_.get()) : ts_module_output_count(module_.get());
    for (size_t i = 0; i < count; ++i)
      result.append(
          portOf(inputs ? ts_module_input(module_.get(), i) : ts_module_output(module_.get(), i)));
    return result;
  }

  std::string describe() const {
    char *json = nullptr;
    check(ts_module_describe(module_.get(), &json));
    std::string text(json);
    ts_string_free(json);
    return text;
  }

  int threads() const { return ts_session_threads(session_.get()); }
  std::tuple<int64_t, int64_t, int64_t, int64_t> copies() const {
    ts_copies made = ts_session_copies(session_.get());
    return {made.to_device, made.to_host, made.bytes_to_device, made.bytes_to_host};
  }

private:
  Owned<ts_module> module_;
  Owned<ts_session> session_;
};

void loadPlugin(const std::string &path) {
  compiler();
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().loadPlugin(path.c_str());
  }
  check(status);
  tensmith::cache::notePlugin(path);
}

/// `kept`: what notes the files that the model is made of; may be null.
void compileFile(const std::string &path, const std::string &out, const Settings &settings,
                 KeptModules *kept) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers);
  compiler();
  if (kept)
    kept->begin(options);
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().compileFile(path.c_str(), &options, out.c_str());
  }
  check(status);
}

nb::bytes exportOnnx(const std::string &path, const Settings &settings) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers);
  void *model = nullptr;
  size_t size = 0;
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().exportOnnx(path.c_str(), &options, nullptr, nullptr, 0, &model, &size);
  }
  check(status);
  nb::bytes result(model, size);
  compiler().freeBytes(model);
  return result;
}

/// The settings' calibration values are the samples. Gives the model, and the report as JSON.
std::tuple<nb::bytes, std::string> quantizeModel(const std::string &path, const std::string &json,
                                                 const Settings &settings) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers);
  options.calibration = TS_CALIBRATE_NONE;
  void *model = nullptr;
  size_t size = 0;
  char *report = nullptr;
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().quantizeModel(path.c_str(), json.c_str(), &options,
                                      options.calibration_names, options.calibration_values,
                                      options.calibration_count, &model, &size, &report);
  }
  check(status);
  std::tuple<nb::bytes, std::string> result(nb::bytes(model, size), report);
  compiler().freeBytes(model);
  compiler().freeBytes(report);
  return result;
}

nb::bytes compileBytes(nb::bytes model, const std::string &name, const Settings &settings,
                       KeptModules *kept) {
  Pointers pointers;
  ts_compile_options options = settings.options(pointers);
  compiler();
  if (kept)
    kept->begin(options);
  void *module = nullptr;
  size_t size = 0;
  const char *data = model.c_str();
  size_t length = model.size();
  ts_status *status;
  {
    nb::gil_scoped_release unlocked;
    status = compiler().compileBytes(data, length, name.c_str(), &options, &module, &size);
  }
  check(status);
  nb::bytes result(module, size);
  compiler().freeBytes(module);
  return result;
}

/// `bytes`: of a file, that are the module; 0: all.
Module *load(nb::object source, int threads, int64_t depth, int64_t instructions, uint64_t bytes) {
  ts_module *module = nullptr;
  ts_load_options options{sizeof options, 0, bytes, 0};
  if (nb::isinstance<nb::bytes>(source)) {
    auto given = nb::cast<nb::bytes>(source);
    check(ts_module_load_bytes(given.c_str(), given.size(), nullptr, &module));
  } else {
    check(ts_module_load(nb::cast<std::string>(nb::str(source)).c_str(), &options, &module));
  }
  return new Module(module, threads, depth, instructions);
}

/// Beside its place first, and then renamed: what is mapped from there stays as it is.
void saveFile(const std::string &path, nb::bytes contents) {
  try {
    tensmith::writeFile(path, std::string_view(contents.c_str(), contents.size()));
  } catch (const tensmith::Failure &failure) {
    throw Error(failure.what(), TS_IO_ERROR);
  }
}

/// A model's declared interface as JSON; of `bytes` where they are given, else of the file.
std::string describeInterface(const std::string &path, std::optional<nb::bytes> bytes) {
  char *json = nullptr;
  check(compiler().describeInterface(path.c_str(), bytes ? bytes->c_str() : nullptr,
                                     bytes ? bytes->size() : 0, &json));
  std::string text(json);
  ts_string_free(json);
  return text;
}

/// The comprehensions of a text as JSON; `name` stands for a file in messages.
std::string describeComprehensions(const std::string &text, const std::string &name) {
  char *json = nullptr;
  check(compiler().describeComprehensions(text.data(), text.size(), name.c_str(), &json));
  std::string described(json);
  ts_string_free(json);
  return described;
}

} // namespace

NB_MODULE(_tensmith, m) {
  nb::object error = nb::steal(PyErr_NewException("tensmith._tensmith.Error", nullptr, nullptr));
  error.attr("code") = "internal";
  m.attr("Error") = error;
  nb::register_exception_translator(raise, error.ptr());
  nb::set_leak_warnings(false); // a model that lives as long as the interpreter is no fault
  bindSettings(m);
  bindTraining(m);
  bindKeptModules(m);
  bindBuilder(m);
  nb::class_<States>(m, "States").def("array", &States::array);
  nb::class_<TensorExchange>(m, "TensorExchange")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object>(), nb::arg("type"),
           nb::arg("to_capsule"), nb::arg("from_capsule"), nb::arg("is_negated"),
           nb::arg("is_conjugated"))
      .def_prop_ro("is_direct", &TensorExchange::isDirect);
  nb::class_<Module>(m, "Module")
      .def("states", &Module::states, nb::keep_alive<0, 1>())
      .def("state_list", &Module::stateList)
      .def("step", &Module::step)
      .def("run", &Module::run, nb::arg("inputs"), nb::arg("seed").none() = nb::none(),
           nb::arg("exchange").none() = nb::none())
      .def("ports", &Module::ports)
      .def("describe", &Module::describe)
      .def_prop_ro("threads", &Module::threads)
      .def_prop_ro("copies", &Module::copies);
  m.def("convert", convertArray);
  m.def("convert_list", convertList);
  m.def("to_dlpack", toDlpack);
  m.def("load_plugin", &loadPlugin);
  m.def("compile_file", &compileFile, nb::arg("path"), nb::arg("out"), nb::arg("settings"),
        nb::arg("kept").none() = nb::none());
  m.def("export_onnx", &exportOnnx);
  m.def("quantize_model", &quantizeModel);
  m.def("compile_bytes", &compileBytes, nb::arg("model"), nb::arg("name"), nb::arg("settings"),
        nb::arg("kept").none() = nb::none());
  m.def("write_file", &saveFile);
  m.def("load", &load, nb::arg("source"), nb::arg("threads"), nb::arg("depth"),
        nb::arg("instructions"), nb::arg("bytes") = 0);
  m.def("describe_interface", &describeInterface, nb::arg("path"), nb::arg("bytes").none());
  m.def("describe_comprehensions", &describeComprehensions);
  m.def("version", [] { return ts_version(); });
}
