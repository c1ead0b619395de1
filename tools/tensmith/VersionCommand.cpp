// tensmith version: which program, runtime, compiler and LLVM these are.
#include "client/Compiler.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

std::string buildText() {
#ifdef NDEBUG
  const char *assertions = "no assertions";
#else
  const char *assertions = "assertions";
#endif
  return fmt::format("{}, {}", TENSMITH_BUILD_TYPE, assertions);
}

/// What can be said of the compiler, or under "missing" why nothing can.
Json compilerFacts() {
  try {
    Json facts = parseJson(describeCompiler(), "the compiler's library");
    facts["path"] = compilerPath();
    return facts;
  } catch (const std::exception &error) {
    return {{"missing", error.what()}};
  }
}

int show(bool json) {
  Json compiler = compilerFacts();
  if (json) {
    printJson({{"version", TENSMITH_VERSION_TEXT},
               {"runtime", ts_version()},
               {"build", buildText()},
               {"built_with", __VERSION__},
               {"compiler", compiler}});
    return kSuccess;
  }
  std::cout << fmt::format("tensmith {}\n", TENSMITH_VERSION_TEXT);
  auto line = [](const char *what, const std::string &value) {
    std::cout << fmt::format("  {:<14} {}\n", what, value);
  };
  line("runtime", ts_version());
  line("build", buildText());
  line("built with", __VERSION__);
  if (compiler.contains("missing"))
    line("compiler", cellText(compiler["missing"]));
  else
    line("compiler", cellText(compiler["path"])), line("LLVM", cellText(compiler["llvm"])),
        line("module format", cellText(compiler["module_format"]));
  return kSuccess;
}

} // namespace

void addVersion(CLI::App &app, Action &chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand(
      "version", "Show the versions of the program, the runtime, the compiler and LLVM");
  command->add_flag("--json", *json, "As JSON");
  command->footer("Examples:\n"
                  "  tensmith version\n"
                  "  tensmith version --json");
  command->callback([json, &chosen] { chosen = [json] { return show(*json); }; });
}

} // namespace tensmith::cli
