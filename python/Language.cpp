// Language models for Python, the extension module `_language`: what tensmith/language.py is made
// of.
#include "files/Failure.h"
#include "generation/LanguageModel.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace tensmith::generation;

namespace {

/// As tensmith.Error, whose `code` says of what kind it is.
void raise(const std::exception_ptr &thrown, void *) {
  auto give = [](const char *what, const char *code) {
    nb::object error = nb::module_::import_("tensmith._tensmith").attr("Error")(what);
    error.attr("code") = code;
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const tensmith::Failure &failure) {
    give(failure.what(), failure.status == tensmith::kUsage ? "invalid_argument" : "invalid_model");
  } catch (const tensmith::Error &error) {
    give(error.what(), error.code() == TS_RESOURCE_EXHAUSTED ? "resource_exhausted" : "internal");
  }
}

using Logits = nb::ndarray<nb::numpy, float, nb::ndim<1>>;
using GivenLogits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::shared_ptr<LanguageModel> load(const std::string &path, int threads, int64_t context,
                                    const std::string &cache, bool noCache) {
  nb::gil_scoped_release unlocked;
  ModelSettings settings;
  settings.threads = threads, settings.context = context;
  settings.cacheDir = cache, settings.noCache = noCache;
  return LanguageModel::load(path, settings);
}

/// The logits in memory of their own.
Logits become(Context &context, const std::vector<Token> &tokens) {
  float *copy = nullptr;
  size_t size = 0;
  {
    nb::gil_scoped_release unlocked;
    std::span<const float> logits = context.become(tokens);
    size = logits.size();
    copy = new float[size];
    std::copy(logits.begin(), logits.end(), copy);
  }
  nb::capsule owner(copy, [](void *memory) noexcept { delete[] static_cast<float *>(memory); });
  return Logits(copy, {size}, owner);
}

nb::bytes asBytes(const std::string &text) { return nb::bytes(text.data(), text.size()); }

} // namespace

NB_MODULE(_language, m) {
  nb::register_exception_translator(raise);
  nb::set_leak_warnings(false); // a model that lives as long as the interpreter is no fault
  nb::class_<LanguageModel>(m, "LanguageModel")
      .def("encode", [](const LanguageModel &model, const std::string &text, bool control,
                        bool begins) { return model.tokenizer().encode(text, control, begins); })
      .def("decode",
           [](const LanguageModel &model, const std::vector<Token> &tokens) {
             return asBytes(model.tokenizer().decode(tokens));
           })
      .def("bytes_of", [](const LanguageModel &model,
                          Token token) { return asBytes(model.tokenizer().bytesOf(token)); })
      .def("ends",
           [](const LanguageModel &model, Token token) { return model.tokenizer().ends(token); })
      .def_prop_ro("vocabulary",
                   [](const LanguageModel &model) { return model.architecture().vocabulary; })
      .def_prop_ro("context", &LanguageModel::contextLength);
  m.def("load", &load, nb::arg("path"), nb::arg("threads"), nb::arg("context"), nb::arg("cache"),
        nb::arg("no_cache"));
  nb::class_<Context>(m, "Context")
      .def("__init__",
           [](Context *self, const std::shared_ptr<LanguageModel> &model) {
             new (self) Context(model);
           })
      .def("become", &become, nb::arg("tokens"))
      .def_prop_ro("tokens", [](const Context &context) { return context.tokens(); });
  nb::class_<Sampler>(m, "Sampler")
      .def(
          "__init__",
          [](Sampler *self, double temperature, int64_t topK, double topP, double minP,
             double repeatPenalty, int64_t repeatLast, uint64_t seed) {
            new (self) Sampler({temperature, topK, topP, minP, repeatPenalty, repeatLast, seed});
          },
          nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"),
          nb::arg("repeat_penalty"), nb::arg("repeat_last"), nb::arg("seed"))
      .def("next", [](Sampler &sampler, const GivenLogits &logits, const std::vector<Token> &past) {
        return sampler.next({logits.data(), logits.size()}, past);
      });
}
