// The table, and how values of JSON's kinds become settings. Both TOML's nodes and the command
// line's words are made JSON first.
#include "train/SettingTable.h"

#include "base/ByteCount.h"
#include "files/Failure.h"
#include "files/Words.h"
#include "train/Schedule.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tensmith::train {
namespace {

using S = Settings;
constexpr OnResume kMay = OnResume::May, kMayNot = OnResume::MayNot;
constexpr bool kPath = true;

const std::vector<Setting> &table() {
  static const std::vector<Setting> settings = {
      {"", "model", "model", &S::model, "FILE", "The ONNX model to train", kMayNot, 0, 0, kPath},
      {"", "output", "output", &S::output, "DIR",
       "Folder of the run: checkpoints, metrics, the trained model (default: the model's name and "
       "-run, here)",
       kMay, 0, 0, kPath},
      {"", "epochs", "epochs", &S::epochs, "N", "Times that all samples are seen (default 10)",
       kMay, 1, 1e9},
      {"", "batch", "batch", &S::batch, "N", "Samples in a step (default 32)", kMayNot, 1, 1e9},
      {"", "seed", "seed", &S::seed, "N", "Of the order of samples and of augmentation (default 1)",
       kMayNot, 0, 4e9},
      {"", "threads", "threads", &S::threads, "N", "Default: as many as CPUs", kMay, 1, 4096},
      {"", "shape", "shape", &S::shapes, "NAME=DIMS",
       "Fix an input's dimensions or a symbol besides the batch: sequence=128", kMayNot},
      {"", "plugin", "plugin", &S::plugins, "FILE",
       "A shared library that adds operators, rewrites, templates or targets", kMay},
      {"", "memory", "memory", &S::memory, "SIZE",
       "What a step may hold, weights and batch included: 2GiB, 500MB; values are then computed "
       "again for the gradients (default: any)",
       kMayNot},
      {"",
       "precision",
       "precision",
       &S::precision,
       "POLICY",
       "fast (default); exact: the model's own sums; bf16, f16: factors of products in 16 bits, "
       "everything else in 32 (f16 with a scaled loss)",
       kMayNot,
       0,
       0,
       false,
       {"fast", "exact", "bf16", "f16"}},
      {"", "casts", "casts", &S::casts, "NAME=RULE",
       "What bf16 and f16 round, in place of operators' own rules: of operators, nodes or their "
       "types always, never, or where what reads it is (follow)",
       kMayNot},
      {"", "libraries", "libraries", &S::libraries, "NAMES",
       "Who does products, convolutions, softmax and layer norm: generated (default); onednn, "
       "openblas, xsmm or a list of them, the first that can; measured: whoever is fastest here",
       kMayNot},
      {"",
       "recomputation",
       "recomputation",
       &S::recomputation,
       "PLAN",
       "What is computed again: cost (default), the least work that does; segments, or recursive, "
       "parts of the network and parts within parts",
       kMayNot,
       0,
       0,
       false,
       {"cost", "segments", "recursive"}},
      {"", "overwrite", "overwrite", &S::overwrite, "",
       "Begin anew though there are checkpoints in the output, which are removed", kMay},
      {"", "resume", "resume", &S::resume, "", "Go on from the newest checkpoint in the output",
       kMay},

      {"data", "train", "data", &S::data, "PATH...",
       "Samples: a folder of IDX files or with a folder of pictures for each class; an .npz, .csv "
       "or .parquet file; two .npy files, inputs and targets, or several as NAME=FILE",
       kMayNot, 0, 0, kPath},
      {"data", "test", "test", &S::test, "PATH...",
       "Samples to test the result on (default: what --data's folder has for it)", kMayNot, 0, 0,
       kPath},
      {"data",
       "format",
       "data-format",
       &S::format,
       "FORMAT",
       "auto (default, by the names), idx, numpy, csv, pictures, parquet",
       kMayNot,
       0,
       0,
       false,
       {"auto", "idx", "numpy", "csv", "pictures", "parquet"}},
      {"data", "target", "target", &S::target, "NAME",
       "The array or column that the loss compares with (default: target, label, y, or the last)",
       kMayNot},
      {"data", "validation", "validation", &S::validation, "PART",
       "Part of the samples kept apart, on which each epoch is judged: 0.1 (default 0)", kMayNot, 0,
       0.9},
      {"data", "scale", "scale", &S::scale, "X",
       "element = (value * scale - mean) / std; default 1/255 for bytes, else 1", kMayNot, -1e30,
       1e30},
      {"data", "mean", "mean", &S::mean, "X,...", "One, or one for each channel", kMayNot, -1e30,
       1e30},
      {"data", "std", "std", &S::deviation, "X,...", "One, or one for each channel", kMayNot, 1e-30,
       1e30},
      {"data", "shuffle", "shuffle", &S::shuffle, "", "A new order in each epoch (default yes)",
       kMayNot},
      {"data", "workers", "workers", &S::workers, "N",
       "Threads that make batches ahead of the step (default 1)", kMay, 1, 64},
      {"data", "queue", "queue", &S::queue, "N", "Batches made ahead at most (default 4)", kMay, 1,
       1024},

      {"augmentation", "crop", "crop", &S::crop, "N",
       "Shift pictures at random by up to N pixels, with zeros around them (default 0)", kMayNot, 0,
       1024},
      {"augmentation", "flip", "flip", &S::flip, "", "Mirror every other picture, at random",
       kMayNot},

      {"loss", "name", "loss", &S::loss, "NAME",
       "cross_entropy (default), mean_squared_error, or an output of the model that is one number",
       kMayNot},
      {"loss", "of", "of", &S::of, "OUTPUT",
       "The output that is compared with the target (default: the first)", kMayNot},

      {"optimiser",
       "name",
       "optimiser",
       &S::optimiser,
       "NAME",
       "sgd, momentum, nesterov, adam (default), adamw, rmsprop, adagrad, lamb, rescaled, "
       "rescaled_rms, or a program of the language (.tsm)",
       kMayNot,
       0,
       0,
       false,
       {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad", "lamb", "rescaled",
        "rescaled_rms"}},
      {"optimiser", "learning_rate", "learning-rate", &S::learningRate, "X", "Default 0.001",
       kMayNot, 0, 1e6},
      {"optimiser", "weight_decay", "weight-decay", &S::weightDecay, "X",
       "Default 0, of adamw and lamb 0.01", kMayNot, 0, 1e3},
      {"optimiser", "clip_norm", "clip-norm", &S::clipNorm, "X",
       "Largest norm of the whole gradient (default 0: any)", kMayNot, 0, 1e30},
      {"optimiser", "ema_decay", "ema-decay", &S::emaDecay, "X",
       "Keep exponential averages of the parameters, 0.999, which are then the result (default 0: "
       "none)",
       kMayNot, 0, 0.999999999},
      {"optimiser", "trainable", "trainable", &S::trainable, "NAME...",
       "Parameters by name or pattern (fc*); default: all that the loss depends on", kMayNot},
      {"optimiser", "hyperparameters", "hyperparameter", &S::hyperparameters, "NAME=X",
       "One of the optimiser's own: beta1=0.9 (repeatable)", kMayNot},

      {"schedule",
       "name",
       "schedule",
       &S::schedule,
       "NAME",
       "Of the learning rate: constant (default), cosine (to the end of the epochs), step, or a "
       "program of the language (.tsm)",
       kMayNot,
       0,
       0,
       false,
       {"constant", "cosine", "step"}},
      {"schedule", "warm_up", "warm-up", &S::warmUp, "STEPS", "Rise linearly first (default 0)",
       kMayNot, 0, 1e12},
      {"schedule", "final_rate", "final-rate", &S::finalRate, "X",
       "Where the cosine ends, as part of the learning rate (default 0)", kMayNot, 0, 1},
      {"schedule", "step_every", "step-every", &S::stepEvery, "EPOCHS",
       "When the schedule 'step' multiplies", kMayNot, 1, 1e9},
      {"schedule", "step_factor", "step-factor", &S::stepFactor, "X", "By what (default 0.1)",
       kMayNot, 1e-12, 1},

      {"processes", "number", "processes", &S::processes, "N",
       "Train with so many processes, started by mpirun; fail where there are others (default: as "
       "many as were started)",
       kMay, 1, 4096},
      {"processes", "zero", "zero", &S::zero, "STAGE",
       "What processes share out: 0 nothing (default), 1 the optimiser's state, 2 the gradients "
       "too",
       kMay, 0, 2},
      {"processes", "bucket", "bucket", &S::bucket, "BYTES",
       "Gradients are summed in parts of so many bytes, while the next are computed (default "
       "25MiB)",
       kMay},
      {"processes", "timeout", "process-timeout", &S::processTimeout, "SECONDS",
       "How long another process may take to answer (default 600)", kMay, 1, 1e9},

      {"checkpoints", "every", "checkpoint-every", &S::checkpointEvery, "STEPS",
       "Write one after so many steps, too (default: at the end of each epoch)", kMay, 1, 1e12},
      {"checkpoints", "keep", "keep-checkpoints", &S::keep, "N", "How many to keep (default 3)",
       kMay, 1, 1e6},
      {"log", "every", "log-every", &S::logEvery, "STEPS", "Means of so many steps (default 50)",
       kMay, 1, 1e12},
      {"log", "tensorboard", "tensorboard", &S::tensorboard, "",
       "Write TensorBoard's event files (default yes)", kMay},
      {"log", "trace", "trace", &S::trace, "FILE",
       "Write when the parts of one step ran, for chrome://tracing or Perfetto; of several "
       "processes the first's",
       kMay, 0, 0, kPath},
  };
  return settings;
}

std::string shown(const Json &value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) // null in JSON
    return fmt::format("{}", value.get<double>());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string range(const Setting &setting) {
  if (setting.most >= 1e9)
    return setting.least > -1e30 ? fmt::format(" from {} on", setting.least) : "";
  return fmt::format(" from {} to {}", setting.least, setting.most);
}

bool within(const Setting &setting, double value) {
  return value >= setting.least && value <= setting.most; // false of a NaN
}

/// Sets a field of each kind, or gives what was expected instead.
struct Assign {
  Settings &settings;
  const Setting &setting;
  const Json &value;

  std::string operator()(bool S::*field) const {
    if (!value.is_boolean())
      return "true or false is expected";
    settings.*field = value.get<bool>();
    return "";
  }
  std::string operator()(int64_t S::*field) const {
    if (!value.is_number_integer() || !within(setting, value.get<double>()))
      return "a whole number" + range(setting) + " is expected";
    settings.*field = value.get<int64_t>();
    return "";
  }
  std::string operator()(double S::*field) const {
    if (!value.is_number() || !within(setting, value.get<double>()))
      return "a number" + range(setting) + " is expected";
    settings.*field = value.get<double>();
    return "";
  }
  std::string operator()(std::optional<double> S::*field) const {
    if (value.is_null()) {
      settings.*field = std::nullopt;
      return "";
    }
    if (!value.is_number() || !within(setting, value.get<double>()))
      return "a number" + range(setting) + " is expected";
    settings.*field = value.get<double>();
    return "";
  }
  std::string operator()(std::string S::*field) const {
    if (!value.is_string())
      return "text is expected";
    auto text = value.get<std::string>();
    bool program = text.ends_with(".tsm"); // names one of the caller's
    if (!setting.choices.empty() && !program &&
        std::ranges::find(setting.choices, text) == setting.choices.end())
      return fmt::format("one of {} is expected{}", fmt::join(setting.choices, ", "),
                         suggestion(text, setting.choices));
    settings.*field = text;
    return "";
  }
  std::string operator()(ByteCount S::*field) const {
    std::optional<int64_t> bytes = value.is_string() ? parseByteCount(value.get<std::string>())
                                   : value.is_number_integer() ? parseByteCount(value.dump())
                                                               : std::nullopt;
    if (!bytes)
      return "a size is expected: 2GiB, 500MB, or a number of bytes";
    settings.*field = {*bytes};
    return "";
  }
  std::string operator()(std::vector<double> S::*field) const {
    std::vector<double> numbers;
    for (const Json &item : value.is_array() ? value : Json::array({value})) {
      if (!item.is_number() || !within(setting, item.get<double>()))
        return "a number" + range(setting) + ", or a list of them, is expected";
      numbers.push_back(item.get<double>());
    }
    settings.*field = numbers;
    return "";
  }
  std::string operator()(std::vector<std::string> S::*field) const {
    std::vector<std::string> words;
    for (const Json &item : value.is_array() ? value : Json::array({value})) {
      if (!item.is_string())
        return "text, or a list of texts, is expected";
      words.push_back(item.get<std::string>());
    }
    settings.*field = words;
    return "";
  }
  std::string operator()(std::map<std::string, double> S::*field) const {
    if (!value.is_object())
      return "names with numbers are expected: { beta1 = 0.9 }";
    for (const auto &[name, number] : value.items()) {
      if (!number.is_number() || !std::isfinite(number.get<double>()))
        return "'" + printable(name) + "' has to be a number";
      (settings.*field)[name] = number.get<double>();
    }
    return "";
  }
};

Json numberOf(const std::string &word) {
  int64_t whole = 0;
  double number = 0;
  const char *begin = word.data(), *end = begin + word.size();
  if (auto [at, error] = std::from_chars(begin, end, whole); error == std::errc() && at == end)
    return whole;
  if (auto [at, error] = std::from_chars(begin, end, number); error == std::errc() && at == end)
    return number;
  return word; // refused as text
}

} // namespace

std::string Settings::origin(const std::string &option) const {
  auto found = origins.find(option);
  return found == origins.end() ? "--" + option : found->second;
}

std::span<const Setting> settingTable() { return table(); }

const Setting *findSetting(const std::string &section, const std::string &key) {
  for (const Setting &setting : table())
    if (section == setting.section && key == setting.key)
      return &setting;
  return nullptr;
}

std::string assign(Settings &settings, const Setting &setting, const Json &value) {
  std::string expected = std::visit(Assign{settings, setting, value}, setting.field);
  return expected.empty() ? "" : fmt::format("is {}; {}", shown(value), expected);
}

std::string assign(Settings &settings, const Setting &setting,
                   const std::vector<std::string> &words) {
  auto is = [&]<typename T>(T S::*) { return std::holds_alternative<T S::*>(setting.field); };
  if (is(&S::flip))
    return assign(settings, setting, Json(!words.empty() && words[0] == "true"));
  if (is(&S::hyperparameters)) {
    Json map = Json::object();
    for (const std::string &word : words) {
      size_t equals = word.find('=');
      if (equals == std::string::npos)
        return "'" + printable(word) + "' is no NAME=NUMBER";
      if (map.contains(word.substr(0, equals)))
        return "'" + printable(word) + "' is given more than once; say it once";
      map[word.substr(0, equals)] = numberOf(word.substr(equals + 1));
    }
    return assign(settings, setting, map);
  }
  if (is(&S::model) || is(&S::memory))
    return assign(settings, setting, Json(words.at(0)));
  if (is(&S::data))
    return assign(settings, setting, Json(words));
  if (!is(&S::mean))
    return assign(settings, setting, numberOf(words.at(0)));
  Json numbers = Json::array();
  for (const std::string &word : words)
    numbers.push_back(numberOf(word));
  return assign(settings, setting, numbers);
}

Json valueOf(const Settings &settings, const Setting &setting) {
  return std::visit(
      [&](auto field) -> Json {
        if constexpr (std::is_same_v<decltype(field), std::optional<double> S::*>)
          return settings.*field ? Json(*(settings.*field)) : Json();
        else if constexpr (std::is_same_v<decltype(field), ByteCount S::*>)
          return (settings.*field).bytes;
        else
          return settings.*field;
      },
      setting.field);
}

Json toJson(const Settings &settings) {
  Json all = Json::object();
  for (const Setting &setting : table())
    all[setting.option] = valueOf(settings, setting);
  return all;
}

std::vector<std::string> changedSince(const Json &recorded, const Settings &settings) {
  std::vector<std::string> changes;
  for (const Setting &setting : table()) {
    bool free = setting.onResume == OnResume::May || setting.path;
    if (free || !recorded.contains(setting.option))
      continue;
    if (const Json &before = recorded[setting.option]; before != valueOf(settings, setting))
      changes.push_back(fmt::format("--{} was {}", setting.option, shown(before)));
  }
  // The cosine ends with the epochs.
  if (settings.schedule == "cosine" && recorded.contains("epochs") &&
      recorded["epochs"] != settings.epochs)
    changes.push_back(
        fmt::format("--epochs was {}, which the schedule depends on", shown(recorded["epochs"])));
  return changes;
}

/// What a loss that is an output of the model doesn't read.
static void checkLoss(const Settings &settings) {
  if (settings.loss == "cross_entropy" || settings.loss == "mean_squared_error")
    return;
  for (const char *option : {"of", "target"})
    if (settings.origins.contains(option))
      failUsage(fmt::format("{}: the loss '{}' is an output of the model, which has no --{}; "
                            "cross_entropy and mean_squared_error have",
                            settings.origin(option), printable(settings.loss), option));
}

void checkSettings(const Settings &settings) {
  if (settings.model.empty())
    failUsage("train: no model is given; name an ONNX file, or `model` in the configuration");
  if (settings.data.empty())
    failUsage("train: no data is given; say --data, or `train` in [data] of the configuration");
  checkSchedule(settings);
  checkLoss(settings);
  if (settings.learningRate <= 0)
    failUsage(settings.origin("learning-rate") + ": the learning rate has to be above 0");
}

} // namespace tensmith::train
