// tensmith format: programs of the language, and comprehensions, in their one layout.
#include "client/Compiler.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>
#include <iterator>

namespace tensmith::cli {
namespace {

struct Settings {
  std::vector<std::string> files;
  bool check = false;
};

std::string textOf(const std::string &file) {
  if (file == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  Bytes bytes = readFile(file);
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// All are read and found right before the first is written.
int format(const Settings &settings) {
  std::vector<std::pair<std::string, std::string>> changed;
  for (const std::string &file : settings.files) {
    std::string text = textOf(file), formatted = formatProgram(text, file == "-" ? "stdin" : file);
    if (file == "-" && !settings.check)
      std::cout << formatted;
    else if (text != formatted)
      changed.push_back({file, std::move(formatted)});
  }
  for (const auto &[file, text] : changed) {
    if (settings.check)
      std::cout << fmt::format("{}: is not formatted\n", file == "-" ? "stdin" : file);
    else
      writeFile(file, std::as_bytes(std::span(text)));
  }
  return settings.check && !changed.empty() ? kFailure : kSuccess;
}

} // namespace

void addFormat(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("format", "Lay programs of the language out, in place");
  command
      ->add_option("FILE", settings->files,
                   "Programs (.tsm) and comprehensions (.tc); '-': a program on stdin, to stdout")
      ->required();
  command->add_flag("--check", settings->check,
                    "Write nothing, and name the files that are laid out otherwise");
  command->footer("Examples:\n"
                  "  tensmith format model.tsm\n"
                  "  tensmith format --check examples/programs/*.tsm\n"
                  "  tensmith format - < model.tsm\n"
                  "Exit status: with --check, 1 where a file is laid out otherwise.");
  command->callback([settings, &chosen] { chosen = [settings] { return format(*settings); }; });
}

} // namespace tensmith::cli
