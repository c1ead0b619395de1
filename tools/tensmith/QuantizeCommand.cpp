// tensmith quantize: a model of floats in, one of few bits out, and what it loses.
#include "client/Compiler.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/OutputPath.h"
#include "tools/tensmith/Report.h"
#include "train/Toml.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, out, data, rules, report;
  std::string weights, activations, per, calibration, rounding;
  std::vector<std::string> keep;
  double percentile = 0, smooth = 0, accuracy = 0, size = 0;
  bool bestWeightRanges = false, awq = false, biasCorrection = false, equalise = false;
  bool sensitivity = false, training = false;
  CompileSettings compile;
};

/// "8" is a number in JSON; "uint8" and "float" are texts.
Json wordOf(const std::string &word) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  bool isNumber = error == std::errc() && end == word.data() + word.size();
  return isNumber ? Json(number) : Json(word);
}

Json rulesOf(const std::string &path) {
  Bytes bytes = readFile(path);
  auto parsed = toml::parse(
      std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size()), path);
  if (!parsed)
    fail(path, fmt::format("line {}: {}", parsed.error().source().begin.line,
                           parsed.error().description()));
  return train::jsonOf(parsed.table());
}

/// What options say goes over what the file says.
Json settingsOf(const CLI::App &command, const Settings &given) {
  Json json = given.rules.empty() ? Json::object() : rulesOf(given.rules);
  auto set = [&](const char *option, const char *key, Json value) {
    if (command.count(option) > 0)
      json[key] = std::move(value);
  };
  set("--weights", "weights", wordOf(given.weights));
  set("--activations", "activations", wordOf(given.activations));
  if (command.count("--per") > 0) {
    Json table =
        json.contains("weights") && json["weights"].is_object() ? json["weights"] : Json::object();
    if (json.contains("weights") && !json["weights"].is_object())
      table[json["weights"].is_number() ? "bits" : "type"] = json["weights"];
    table["per"] = wordOf(given.per);
    json["weights"] = table;
  }
  set("--calibration", "calibration", given.calibration);
  set("--percentile", "percentile", given.percentile);
  set("--rounding", "rounding", given.rounding);
  set("--keep", "keep", given.keep);
  set("--smooth", "smooth", given.smooth);
  set("--accuracy", "accuracy", given.accuracy);
  set("--size", "size", given.size);
  set("--best-weight-ranges", "weight_ranges", given.bestWeightRanges ? "mse" : "minmax");
  set("--awq", "awq", given.awq);
  set("--bias-correction", "bias_correction", given.biasCorrection);
  set("--equalise", "equalise", given.equalise);
  set("--sensitivity", "sensitivity", given.sensitivity);
  set("--for-training", "training", given.training);
  return json;
}

std::string layerLine(const Json &layer) {
  std::string line =
      fmt::format("  {:<32} {:<8} ", layer.value("node", ""), layer.value("operator", ""));
  if (layer.contains("kept"))
    line += "float: " + layer.value("kept", "");
  else
    line += fmt::format("{}; {}", layer.value("weights", ""), layer.value("activations", ""));
  if (layer.contains("error_alone"))
    line += fmt::format("; alone: error {:.1e}, loses {:.2f} %", layer["error_alone"].get<double>(),
                        layer["lost_alone"].get<double>());
  return line + "\n";
}

std::string outputLine(const Json &output) {
  std::string line = "  output " + output.value("output", "") + ":";
  line += output["db"].is_number() ? fmt::format(" {:.1f} dB", output["db"].get<double>())
                                   : std::string(" equal");
  if (output.contains("same_answers"))
    line += fmt::format(", {:.2f} % of answers stay", 100 * output["same_answers"].get<double>());
  if (output.contains("accuracy_before"))
    line += fmt::format(", accuracy {:.2f} % (float {:.2f} %)",
                        100 * output["accuracy_after"].get<double>(),
                        100 * output["accuracy_before"].get<double>());
  return line + "\n";
}

void tell(const Settings &settings, const std::string &out, const Json &report) {
  for (const Json &layer : report["layers"])
    std::cout << layerLine(layer);
  for (const Json &output : report.value("outputs", Json::array()))
    std::cout << outputLine(output);
  std::cout << fmt::format("{}: weights {} (float {})\n", out,
                           bytesText(report["bytes"]["after"].get<double>()),
                           bytesText(report["bytes"]["before"].get<double>()));
}

int quantize(const CLI::App &command, const Settings &settings) {
  std::string out = settings.out;
  if (out.empty())
    out = std::filesystem::path(settings.model).stem().string() + ".quantized.onnx";
  keepApart(out, "--output", settings.model, "the model");
  QuantizedModel result =
      quantizeModel(settings.model, settingsOf(command, settings), settings.data, settings.compile);
  writeFile(out, result.model);
  if (!settings.report.empty()) {
    const std::string text = result.report.dump(2) + "\n";
    writeFile(settings.report, text);
  }
  tell(settings, out, result.report);
  return kSuccess;
}

void addMethods(CLI::App &command, Settings &settings) {
  auto *methods = command.add_option_group("Methods");
  methods
      ->add_option("--calibration", settings.calibration,
                   "Which range of activations codes cover: all that occurs (default), all but a "
                   "share, what errs least, what changes the distribution least")
      ->type_name("RULE:{minmax,percentile,mse,entropy}");
  methods->add_option("--percentile", settings.percentile, "Of the values that are not clamped")
      ->type_name("PERCENT");
  methods
      ->add_option("--rounding", settings.rounding,
                   "Weights one by one (default), or so that the layer's outputs err the least")
      ->type_name("RULE:{nearest,gptq}");
  methods->add_flag("--best-weight-ranges", settings.bestWeightRanges,
                    "Narrow the ranges of weights where that errs less");
  methods->add_flag("--awq", settings.awq, "Scale channels by how large their inputs are");
  methods->add_option("--smooth", settings.smooth, "SmoothQuant, with that exponent")
      ->type_name("0..1");
  methods->add_flag("--equalise", settings.equalise,
                    "Scale channels between convolutions so that both reach equally far");
  methods->add_flag("--bias-correction", settings.biasCorrection,
                    "Take the mean of what rounding adds off the biases");
}

} // namespace

void addQuantize(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("quantize", "Store a model's layers in few bits");
  command->add_option("MODEL", settings->model, "An ONNX model, or a program (.tsm)")->required();
  command
      ->add_option("-o,--output", settings->out, "Default: the model's name with .quantized.onnx")
      ->type_name("FILE");
  command
      ->add_option("-d,--data", settings->data,
                   "Samples (.npz) by the names of inputs, along their first dimension; 'labels' "
                   "are the right answers")
      ->type_name("FILE");
  command
      ->add_option("--weights", settings->weights,
                   "Bits (1 to 8, 16), int4, uint8 ..., float, fp8 or nf4; default: 8")
      ->type_name("FORMAT");
  command->add_option("--per", settings->per, "Weights that share a scale; default: channel")
      ->type_name("tensor|channel|SIZE");
  command
      ->add_option("--activations", settings->activations,
                   "Bits, int8, uint8 ..., or float; default: uint8")
      ->type_name("FORMAT");
  command
      ->add_option("--rules", settings->rules,
                   "Settings and rules for single nodes (docs/quantisation.md)")
      ->type_name("FILE.toml");
  command->add_option("--keep", settings->keep, "Nodes that stay in float, with * for anything (repeatable)")
      ->type_name("NODE")
      ->allow_extra_args(false);
  addMethods(*command, *settings);
  auto *budget = command->add_option_group("Accuracy");
  budget->add_flag("--sensitivity", settings->sensitivity,
                   "Say what each layer loses where it alone is quantised");
  budget
      ->add_option("--accuracy", settings->accuracy,
                   "Keep as few layers in float as are needed to lose no more percent of answers")
      ->type_name("PERCENT");
  budget
      ->add_option("--size", settings->size,
                   "Quantise as few layers as are needed for so many bytes of weights")
      ->type_name("BYTES");
  budget->add_option("--report", settings->report, "Write what was done as JSON")
      ->type_name("FILE");
  command->add_flag("--for-training", settings->training,
                    "Weights stay floats that the model rounds, so that it can be trained");
  command
      ->add_option("--shape", settings->compile.shapes,
                   "Fix an input's dimensions or a symbol while samples are run: batch=4 "
                   "(repeatable)")
      ->type_name("NAME=DIMS")
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  tensmith quantize model.onnx -o model-int8.onnx --data samples.npz\n"
      "  tensmith quantize model.onnx --weights 4 --per 32 --activations float\n"
      "  tensmith quantize model.onnx --data samples.npz --accuracy 0.5 --keep 'head*'");
  command->callback([command, settings, &chosen] {
    chosen = [command, settings] { return quantize(*command, *settings); };
  });
}

} // namespace tensmith::cli
