// tensmith run: the outputs of a model or module for given inputs.
#include "client/Compiler.h"
#include "client/Progress.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Inputs.h"
#include "tools/tensmith/InstructionReport.h"
#include "tools/tensmith/Report.h"
#include "tools/tensors/Results.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <numeric>
#include <set>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string file, outputFolder;
  int top = 0, threads = 0;
  bool json = false, verify = false, checkNan = false, reference = false, profile = false;
  InputSettings inputs;
  CompileSettings compile;
};

constexpr int64_t kShownElements = 16, kShownRows = 16;

bool isReal(const HostTensor &values) {
  TypeClass kind = info(values.type()).kind;
  return kind == TypeClass::Float || kind == TypeClass::Signed || kind == TypeClass::Unsigned;
}

/// Smallest, largest and mean of the elements that are numbers, and how many are not.
Json summary(const HostTensor &values) {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t odd = 0;
  for (int64_t i = 0; i < values.size(); ++i) {
    double value = values.getDouble(i);
    if (!std::isfinite(value)) {
      ++odd;
      continue;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  Json json = {{"nonfinite", odd}};
  if (values.size() > odd)
    json.update({{"min", least}, {"max", most}, {"mean", sum / double(values.size() - odd)}});
  return json;
}

/// The indices of the largest elements of a row, the largest first; NaN counts as the least.
std::vector<int64_t> largest(const HostTensor &values, int64_t row, int64_t columns, int count) {
  std::vector<int64_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int64_t column) {
    double value = values.getDouble(row * columns + column);
    return std::isnan(value) ? -INFINITY : value;
  };
  auto end = order.begin() + std::min<int64_t>(count, columns);
  std::partial_sort(order.begin(), end, order.end(), [&](int64_t a, int64_t b) {
    double left = key(a), right = key(b);
    return left != right ? left > right : a < b;
  });
  order.erase(end, order.end());
  return order;
}

/// For each row along the last dimension: [{"index", "value"}, ...].
Json topOf(const HostTensor &values, int count) {
  int64_t columns = values.rank() ? values.shape().back() : 1;
  Json rows = Json::array();
  for (int64_t row = 0; columns && row < values.size() / columns; ++row) {
    Json entries = Json::array();
    for (int64_t column : largest(values, row, columns, count))
      entries.push_back({{"index", column}, {"value", values.getDouble(row * columns + column)}});
    rows.push_back(entries);
  }
  return rows;
}

Json describeOutput(const Port &port, const Tensor &tensor, const Settings &settings) {
  Json json = {{"name", port.name}, {"type", ts_type_name(tensor.type())}};
  if (tensor.kind() != TS_TENSOR) {
    json["type"] = typeText(tensor);
    return json;
  }
  json["shape"] = tensor.shape();
  HostTensor values = view(tensor);
  if (isReal(values)) {
    json.update(summary(values));
    if (settings.top > 0)
      json["top"] = topOf(values, settings.top);
  }
  return json;
}

void printElements(const HostTensor &values) {
  int64_t shown = std::min(values.size(), kShownElements);
  std::cout << "  ";
  for (int64_t i = 0; i < shown; ++i)
    std::cout << elementText(values, i) << (i + 1 < shown ? ", " : "");
  std::cout << (shown < values.size() ? ", ...\n" : "\n");
}

void printTop(const Json &rows) {
  int64_t shown = std::min<int64_t>(int64_t(rows.size()), kShownRows);
  for (int64_t row = 0; row < shown; ++row) {
    std::cout << (rows.size() > 1 ? fmt::format("  row {}:\n", row) : "");
    for (const Json &entry : rows[size_t(row)])
      std::cout << fmt::format("  {:>8}  {}\n", entry["index"].get<int64_t>(),
                               float(entry["value"].get<double>()));
  }
  if (shown < int64_t(rows.size()))
    std::cout << fmt::format("  ... and {} more rows; --json has them\n",
                             int64_t(rows.size()) - shown);
}

void printOutput(const Json &output, const Tensor &tensor) {
  std::cout << printable(output["name"].get<std::string>()) << ": " << typeText(tensor) << '\n';
  if (output.contains("file"))
    std::cout << "  in " << output["file"].get<std::string>() << '\n';
  if (tensor.kind() != TS_TENSOR)
    return;
  if (output.contains("top"))
    return printTop(output["top"]);
  printElements(view(tensor));
  if (output.contains("min") && tensor.size() > kShownElements)
    std::cout << fmt::format("  min {}, max {}, mean {}\n", float(output["min"]),
                             float(output["max"]), float(output["mean"]));
  if (output.value("nonfinite", 0) > 0)
    std::cout << fmt::format("  {} elements are infinite or NaN\n",
                             output["nonfinite"].get<int64_t>());
}

Json profileOf(const Settings &settings, const Module &module, const std::vector<Tensor> &inputs) {
  try {
    Session session(module, {.threads = settings.threads,
                             .memoryLimit = settings.compile.memoryLimit,
                             .timeLimit = settings.compile.timeLimit});
    session.run(inputs); // so that the first use of everything isn't measured
    return instructionsOf(parseJson(session.profile(inputs, 1), settings.file));
  } catch (const Error &error) {
    fail(settings.file, error.what());
  }
}

std::vector<Tensor> outputsOf(const Settings &settings, const Module &module,
                              const std::vector<Tensor> &inputs) {
  if (settings.reference) {
    CompileSettings compile = settings.compile;
    compile.seed = settings.inputs.seed;
    return evaluateByReference(settings.file, compile, inputs, module.outputs().size(), {});
  }
  try {
    Progress progress("running " + settings.file);
    return Session(module, {.threads = settings.threads,
                            .checkFinite = settings.checkNan,
                            .memoryLimit = settings.compile.memoryLimit,
                            .timeLimit = settings.compile.timeLimit,
                            .seed = settings.inputs.seed})
        .run(inputs);
  } catch (const Error &error) {
    fail(settings.file, error.what());
  }
}

int run(const Settings &settings) {
  if (settings.reference && settings.profile)
    failUsage("--profile measures compiled code, which --reference does without");
  if (settings.reference && kindOf(settings.file) == FileKind::Module)
    failUsage(settings.file + ": is a module, and the reference evaluator takes what it was made "
                              "from: tensmith run model.onnx --reference");
  CompileSettings compile = settings.compile;
  compile.byReference |= settings.reference; // only the signature is needed then
  Module module = loadOrCompile(settings.file, compile, settings.verify);
  auto inputs =
      makeInputs(module.inputs(), settings.inputs, settings.compile.shapes, settings.file);
  std::vector<Tensor> outputs = outputsOf(settings, module, inputs);
  if (!settings.outputFolder.empty())
    makeFolder(settings.outputFolder);
  std::vector<Port> ports = module.outputs();
  Json all = Json::array();
  std::set<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json output = describeOutput(ports[i], outputs[i], settings);
    if (!settings.outputFolder.empty())
      output["file"] = save(outputs[i], settings.outputFolder, fileName(ports[i].name, names));
    if (!settings.json)
      printOutput(output, outputs[i]);
    all.push_back(std::move(output));
  }
  Json profile = settings.profile ? profileOf(settings, module, inputs) : Json();
  if (settings.profile && !settings.json)
    printInstructions(profile);
  Json result = {{"file", settings.file}, {"outputs", all}};
  if (settings.profile)
    result["profile"] = profile;
  if (settings.json)
    printJson(result);
  return kSuccess;
}

} // namespace

void addRun(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("run", "Run a model or a module, and show its outputs");
  command->add_option("FILE", settings->file, "A model (compiled first) or a module")->required();
  command->add_option("--output", settings->outputFolder, "Save each output there as .npy")
      ->type_name("DIR");
  command->add_option("--top", settings->top, "Show the K largest of each output's last dimension")
      ->type_name("K")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", settings->threads, "Default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--verify", settings->verify, "Check the hash of a module's weights first");
  command->add_flag("--check-nan", settings->checkNan,
                    "Stop at the node whose result holds a NaN or an infinity that its operands "
                    "don't; with -O0 nodes are looked at one by one instead of fused");
  command->add_flag("--reference", settings->reference,
                    "Evaluate the model, or the program of the language, by the reference instead "
                    "of compiled code (slow)");
  command->add_flag("--profile", settings->profile,
                    "Run once more, and show the time of each kind of instruction, of each place "
                    "in a program, and of each kernel; measuring adds some 40 ns to each");
  command->add_flag("--json", settings->json, "Print the outputs' description as JSON");
  settings->inputs.addTo(*command);
  addCompilation(*command, settings->compile, false);
  command->footer(
      "Examples:\n"
      "  tensmith run model.onnx --input x=photo.jpg --image-mean 0.485,0.456,0.406 \\\n"
      "      --image-std 0.229,0.224,0.225 --top 5\n"
      "  tensmith run model.so --input ids=ids.npy --input mask=1x128xi64=ones --output results/\n"
      "  tensmith run bert.onnx --shape batch=1 --shape sequence=16 --json\n"
      "  tensmith run model.onnx --input x=x.npy --check-nan -O0\n"
      "  tensmith run program.tsm --input x=x.npy --profile");
  command->callback([settings, &chosen] { chosen = [settings] { return run(*settings); }; });
}

} // namespace tensmith::cli
