// tensmith export: a program of the language in, an ONNX model out.
#include "client/Compiler.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/OutputPath.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, out;
  std::vector<std::string> shapes;
};

int exportModel(const Settings &settings) {
  std::string out = settings.out;
  if (out.empty())
    out = std::filesystem::path(settings.model).filename().replace_extension(".onnx");
  keepApart(out, "--output", settings.model, "the model");
  CompileSettings compile;
  compile.shapes = settings.shapes;
  Bytes bytes = exportOnnx(settings.model, compile);
  writeFile(out, bytes);
  std::cout << fmt::format("{}: {}\n", out, bytesText(double(bytes.size())));
  return kSuccess;
}

} // namespace

void addExport(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("export", "Write a program of the language as ONNX");
  command->add_option("MODEL", settings->model, "A program (.tsm), or the graph dialect's text")
      ->required();
  command->add_option("-o,--output", settings->out, "Default: the model's name with .onnx, here")
      ->type_name("FILE");
  command
      ->add_option("--shape", settings->shapes,
                   "Fix a size that main's types name: NAME=SIZE; others stay open in the model")
      ->type_name("NAME=SIZE");
  command->footer("Examples:\n"
                  "  tensmith export run/model.tsm -o model.onnx\n"
                  "  tensmith export recurrent.tsm --shape length=35");
  command->callback(
      [settings, &chosen] { chosen = [settings] { return exportModel(*settings); }; });
}

} // namespace tensmith::cli
