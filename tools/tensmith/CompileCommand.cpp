// tensmith compile: a model in, a module out.
#include "client/Compiler.h"
#include "client/Verbosity.h"
#include "files/Paths.h"
#include "files/Words.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/OutputPath.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <set>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, out;
  bool json = false, why = false;
  CompileSettings compile;
};

/// What a module tells of its calibration.
Json calibrationOf(const std::string &module) {
  Json description = parseJson(Module::load(module).describe(), module);
  const Json &metadata = description["metadata"];
  return metadata.contains("calibration")
             ? parseJson(metadata["calibration"].get<std::string>(), module)
             : Json();
}

std::string calibrationText(const Json &calibration) {
  bool isDouble = calibration["against"] == "f64";
  std::string text;
  for (const Json &output : calibration["outputs"])
    text += fmt::format(
        "  output '{}' errs by {} of its largest element against {}, on {} inputs "
        "(bound {:.1e})\n",
        printable(output["output"].get<std::string>()),
        output["error"].is_null() ? std::string("infinitely much")
                                  : fmt::format("{:.1e}", output["error"].get<double>()),
        isDouble ? "double precision" : "the policy 'exact'",
        calibration["inputs"].get<std::string>(), calibration["bound"].get<double>());
  return text;
}

/// "conv1 (Conv), relu1 (Relu) and 3 more".
std::string nodesText(const Json &nodes) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i)
    text += (i ? ", " : "") + cellText(nodes[i]);
  return nodes.size() > kShown ? text + fmt::format(" and {} more", nodes.size() - kShown) : text;
}

/// What was decided for an operator: its name, choices and what was refused.
std::string decisionText(const Json &decision) {
  std::string text = cellText(decision["kernel"]) + ":";
  for (const auto &[name, value] : decision.items())
    if (name != "key" && name != "kernel" && name != "nodes" && name != "error" &&
        name != "refused" && name != "measured")
      text += " " + printable(name) + " " + cellText(value);
  for (const Json &refused : decision.value("refused", Json::array()))
    text += fmt::format("; {} {} would err by {} of the largest", cellText(refused["choice"]),
                        cellText(refused["value"]),
                        refused.contains("error")
                            ? fmt::format("{:.1e}", refused["error"].get<double>())
                            : std::string("infinitely much"));
  return text;
}

void printReasons(const Json &explanation) {
  for (const Json &kernel : explanation["kernels"]) {
    std::cout << fmt::format("{}: {}\n  {}\n", cellText(kernel["kernel"]), cellText(kernel["by"]),
                             nodesText(kernel["nodes"]));
    std::set<std::string> said;
    for (const Json &operand : kernel["operands"])
      said.insert(
          fmt::format("  not with {}: {}\n", cellText(operand["from"]), cellText(operand["why"])));
    for (const std::string &line : said)
      std::cout << line;
  }
  if (const Json &others = explanation["by_reference"]; !others.empty()) {
    std::cout << "evaluated by reference:\n";
    for (const Json &one : others)
      std::cout << fmt::format("  {} ({}): {}\n", cellText(one["operator"]),
                               nodesText(one["nodes"]), cellText(one["why"]));
  }
  std::map<std::string, std::vector<std::string>> refused; // by why, since many are alike
  for (const Json &one : explanation["libraries"])
    refused[cellText(one["library"]) + ": " + cellText(one["why"])].push_back(
        nodesText(one["nodes"]));
  if (!refused.empty())
    std::cout << "not by a library:\n";
  for (const auto &[why, nodes] : refused)
    std::cout << fmt::format("  {}\n    {}\n", why, fmt::join(nodes, "; "));
  if (const Json &decisions = explanation["decisions"]; !decisions.empty()) {
    std::cout << "decided:\n";
    for (const Json &decision : decisions)
      std::cout << "  " << decisionText(decision) << '\n';
  }
}

int compile(const Settings &settings) {
  std::string out = settings.out;
  if (out.empty())
    out = std::filesystem::path(settings.model).filename().replace_extension(".so");
  if (settings.why && !settings.compile.calibrate.empty())
    failUsage("--why can't be had together with --calibrate: layers that fall back are not known "
              "before the module is measured");
  keepApart(out, "--output", settings.model, "the model");
  kindOf(settings.model); // fails before the output is looked at
  if (Status status = checkWritable(out); !status.ok())
    throw Failure(status.message());
  auto start = std::chrono::steady_clock::now();
  Taken taken = compileModel(settings.model, settings.compile, out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code unknown;
  auto size = std::filesystem::file_size(out, unknown);
  Json calibration = settings.compile.calibrate.empty() ? Json() : calibrationOf(out);
  CompileSettings again = settings.compile;
  again.warns = false; // what is to be said has been said
  Json reasons = settings.why ? parseJson(explain(settings.model, again), settings.model) : Json();
  if (settings.json) {
    Json made = {{"model", settings.model}, {"module", out}, {"bytes", size}, {"seconds", seconds}};
    if (!taken.database.empty())
      made["tuned"] = {{"database", taken.database}, {"points", taken.points}};
    if (!calibration.is_null())
      made["calibration"] = calibration;
    if (settings.why)
      made["why"] = reasons;
    printJson(made);
    return kSuccess;
  }
  if (verbosity() != Verbosity::Quiet)
    std::cout << fmt::format("{}: {} in {}{}\n", out, bytesText(double(size)), timeText(seconds),
                             taken.points ? fmt::format(", {} kernels by tuned points of {}",
                                                        taken.points, printable(taken.database))
                                          : "");
  if (!calibration.is_null())
    std::cout << calibrationText(calibration);
  if (settings.why)
    printReasons(reasons);
  return kSuccess;
}

} // namespace

void addCompile(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("compile", "Compile a model to a module");
  command->add_option("MODEL", settings->model, "ONNX, or the graph dialect's text")->required();
  command->add_option("-o,--output", settings->out, "Default: the model's name with .so, here")
      ->type_name("FILE");
  command->add_flag("--json", settings->json, "Print what was made as JSON");
  command->add_flag(
      "--why", settings->why,
      "Say of each kernel which nodes it took, by which template, and why what feeds\n"
      "it is no part of it; of each operator what was decided and refused");
  addCompilation(*command, settings->compile, true);
  command->footer("Examples:\n"
                  "  tensmith compile resnet50.onnx -o resnet50.so\n"
                  "  tensmith compile bert.onnx --shape batch=1 --shape sequence=128\n"
                  "  tensmith compile model.onnx --precision bf16 --calibrate samples.npz\n"
                  "  tensmith compile model.onnx --target x86-64-v3 --dump-ir stages/\n"
                  "  tensmith compile model.onnx --why | less");
  command->callback([settings, &chosen] { chosen = [settings] { return compile(*settings); }; });
}

} // namespace tensmith::cli
