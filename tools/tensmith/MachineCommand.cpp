// tensmith machine: what is compiled for when no target is named.
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Compiler.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace tensmith::cli {

static int describe(bool asJson) {
  Json machine = parseJson(describeMachine(), "machine");
  if (asJson) {
    printJson(machine);
    return kSuccess;
  }
  Table table({"property", "value"});
  for (const auto &[key, value] : machine.items())
    table.add({key, cellText(value)});
  std::cout << table.text();
  return kSuccess;
}

void addMachine(CLI::App &app, Action &chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("machine", "Describe the machine: CPU, caches, threads");
  command->add_flag("--json", *json, "As JSON");
  command->footer("Example:\n  tensmith machine --json");
  command->callback([json, &chosen] { chosen = [json] { return describe(*json); }; });
}

} // namespace tensmith::cli
