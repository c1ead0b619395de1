// tensmith compile: a model in, a module out.
#include "client/Compiler.h"
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

int compile(const Settings &settings) {
  std::string out = settings.out;
  if (out.empty())
    out = std::filesystem::path(settings.model).filename().replace_extension(".so");
  auto start = std::chrono::steady_clock::now();
  compileModel(settings.model, settings.compile, out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code unknown;
  auto size = std::filesystem::file_size(out, unknown);
  if (settings.json)
    printJson({{"model", settings.model}, {"module", out}, {"bytes", size}, {"seconds", seconds}});
  else
    std::cout << fmt::format("{}: {} in {}\n", out, bytesText(double(size)), timeText(seconds));
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
                  "  tensmith compile model.onnx --target x86-64-v3 --dump-ir stages/");
  command->callback([settings, &chosen] { chosen = [settings] { return compile(*settings); }; });
}

} // namespace tensmith::cli
