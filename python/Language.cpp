// Language models for Python, the extension module `_language`: what tensmith/language.py is made
// of.
#include "files/Failure.h"
#include "generation/Batch.h"
#include "generation/chat/Chat.h"

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
                                    bool exact, int weights, const std::string &cacheType,
                                    const std::string &cache, bool noCache) {
  nb::gil_scoped_release unlocked;
  ModelSettings settings;
  settings.threads = threads, settings.context = context, settings.exact = exact;
  settings.weights = weights, settings.cacheType = cacheType;
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

using Rows = nb::ndarray<nb::numpy, const float, nb::ndim<2>>;

/// `give` has each token; `hidden`, where it is not None, the place and the rows of tokens instead.
uint64_t add(Batch &batch, std::vector<Token> prompt, int64_t most, SamplingSettings sampling,
             nb::object give, nb::object end, nb::object hidden) {
  // A step, which has no lock, may be the last to know them.
  struct Callables {
    nb::object give, end, hidden;
  };
  std::shared_ptr<Callables> of(new Callables{give, end, hidden}, [](Callables *callables) {
    nb::gil_scoped_acquire locked;
    delete callables;
  });
  BatchRequest request;
  request.prompt = std::move(prompt);
  request.settings = {sampling, most};
  request.give = [of](Token token) {
    nb::gil_scoped_acquire locked;
    return nb::cast<bool>(of->give(token));
  };
  request.end = [of](BatchEnd reason) {
    nb::gil_scoped_acquire locked;
    constexpr const char *kNames[] = {"stop", "length", "cancelled"};
    of->end(kNames[size_t(reason)]);
  };
  size_t width = size_t(batch.model().architecture().width);
  if (!hidden.is_none())
    request.hidden = [of, width](int64_t first, std::span<const float> rows) {
      nb::gil_scoped_acquire locked;
      of->hidden(first,
                 nb::cast(Rows(rows.data(), {rows.size() / width, width}), nb::rv_policy::copy));
    };
  return batch.add(std::move(request));
}

nb::dict countsOf(const Batch &batch) {
  BatchCounts counts = batch.counts();
  nb::dict result;
  for (auto [name, value] : {std::pair{"running", counts.running},
                             {"waiting", counts.waiting},
                             {"held_pages", counts.heldPages},
                             {"pages", counts.pages},
                             {"prompt_tokens", counts.promptTokens},
                             {"reused_tokens", counts.reusedTokens},
                             {"tokens", counts.tokens},
                             {"steps", counts.steps},
                             {"preempted", counts.preempted},
                             {"drafted", counts.drafted},
                             {"accepted", counts.accepted}})
    result[name] = value;
  return result;
}

nb::bytes asBytes(const std::string &text) { return nb::bytes(text.data(), text.size()); }

} // namespace

NB_MODULE(_language, m) {
  nb::register_exception_translator(raise);
  nb::set_leak_warnings(false); // a model that lives as long as the interpreter is no fault
  nb::class_<Tokenizer>(m, "Tokenizer")
      .def("encode", [](const Tokenizer &tokenizer, const std::string &text, bool control,
                        bool begins) { return tokenizer.encode(text, control, begins); })
      .def("parted", [](const Tokenizer &tokenizer,
                        const std::string &text) { return tokenizer.parted(text); })
      .def("decode",
           [](const Tokenizer &tokenizer, const std::vector<Token> &tokens) {
             return asBytes(tokenizer.decode(tokens));
           })
      .def("bytes_of", [](const Tokenizer &tokenizer,
                          Token token) { return asBytes(tokenizer.bytesOf(token)); })
      .def("ends", &Tokenizer::ends)
      .def_prop_ro("size", &Tokenizer::size);
  m.def("read_tokenizer", &readTokenizer, nb::arg("path"));
  nb::class_<LanguageModel>(m, "LanguageModel")
      .def("encode", [](const LanguageModel &model, const std::string &text, bool control,
                        bool begins) { return model.tokenizer().encode(text, control, begins); })
      .def("chat",
           [](const std::shared_ptr<LanguageModel> &model, const std::string &messages,
              const std::string &variables, const std::string &source) {
             return Chat(model, source).tokens(boundedJson(messages), boundedJson(variables));
           })
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
      .def_prop_ro("context", &LanguageModel::contextLength)
      .def_prop_ro("cache_bytes", [](const LanguageModel &model) {
        return 2 * model.architecture().layers * model.cacheFormat().bytesOfToken();
      });
  m.def("load", &load, nb::arg("path"), nb::arg("threads"), nb::arg("context"), nb::arg("exact"),
        nb::arg("weights"), nb::arg("cache_type"), nb::arg("cache"), nb::arg("no_cache"));
  nb::class_<Context>(m, "Context")
      .def("__init__",
           [](Context *self, const std::shared_ptr<LanguageModel> &model) {
             new (self) Context(model);
           })
      .def("become", &become, nb::arg("tokens"))
      .def_prop_ro("tokens", [](const Context &context) { return context.tokens(); });
  nb::class_<SamplingSettings>(m, "Sampling")
      .def(
          "__init__",
          [](SamplingSettings *self, double temperature, int64_t topK, double topP, double minP,
             double repeatPenalty, int64_t repeatLast, uint64_t seed) {
            new (self) SamplingSettings{temperature, topK, topP, minP, repeatPenalty,
                                        repeatLast,  seed, 0,    0,    {}};
          },
          nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"),
          nb::arg("repeat_penalty"), nb::arg("repeat_last"), nb::arg("seed"));
  nb::class_<Batch>(m, "Batch")
      .def(
          "__init__",
          [](Batch *self, const std::shared_ptr<LanguageModel> &model, int64_t sequences,
             int64_t cacheTokens, int64_t promptPiece, const std::shared_ptr<LanguageModel> &draft,
             bool lookup, int64_t draftTokens) {
            new (self) Batch(model, {sequences, cacheTokens, promptPiece,
                                     DraftSettings{lookup, draft, draftTokens}});
          },
          nb::arg("model"), nb::arg("sequences"), nb::arg("cache_tokens"), nb::arg("prompt_piece"),
          nb::arg("draft").none(), nb::arg("lookup"), nb::arg("draft_tokens"))
      .def("add", &add, nb::arg("prompt"), nb::arg("tokens"), nb::arg("sampling"), nb::arg("give"),
           nb::arg("end"), nb::arg("hidden").none())
      .def("cancel", &Batch::cancel, nb::arg("number"))
      .def("step", &Batch::step, nb::call_guard<nb::gil_scoped_release>())
      .def("counts", &countsOf);
  nb::class_<Sampler>(m, "Sampler")
      .def(
          "__init__",
          [](Sampler *self, const SamplingSettings &settings) { new (self) Sampler(settings); },
          nb::arg("settings"))
      .def("next", [](Sampler &sampler, const GivenLogits &logits, const std::vector<Token> &past) {
        return sampler.next({logits.data(), logits.size()}, past);
      });
}
