// tensmith compile: a model in, a module out.
#include "client/Compiler.h"
#include "files/Words.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, out;
  bool json = false;
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

int compile(const Settings &settings) {
  std::string out = settings.out;
  if (out.empty())
    out = std::filesystem::path(settings.model).filename().replace_extension(".so");
  std::error_code none;
  if (std::filesystem::equivalent(settings.model, out, none))
    fail(out, "is the model itself; give another --output");
  auto start = std::chrono::steady_clock::now();
  compileModel(settings.model, settings.compile, out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code unknown;
  auto size = std::filesystem::file_size(out, unknown);
  Json calibration = settings.compile.calibrate.empty() ? Json() : calibrationOf(out);
  if (settings.json) {
    Json made = {{"model", settings.model}, {"module", out}, {"bytes", size}, {"seconds", seconds}};
    if (!calibration.is_null())
      made["calibration"] = calibration;
    printJson(made);
    return kSuccess;
  }
  std::cout << fmt::format("{}: {} in {}\n", out, bytesText(double(size)), timeText(seconds));
  if (!calibration.is_null())
    std::cout << calibrationText(calibration);
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
  addCompilation(*command, settings->compile, true);
  command->footer("Examples:\n"
                  "  tensmith compile resnet50.onnx -o resnet50.so\n"
                  "  tensmith compile bert.onnx --shape batch=1 --shape sequence=128\n"
                  "  tensmith compile model.onnx --precision bf16 --calibrate samples.npz\n"
                  "  tensmith compile model.onnx --target x86-64-v3 --dump-ir stages/");
  command->callback([settings, &chosen] { chosen = [settings] { return compile(*settings); }; });
}

} // namespace tensmith::cli
