// tensmith help: what --help says, by the command's name.
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Usage.h"

#include <iostream>

namespace tensmith::cli {

void addHelp(CLI::App &app, Action &chosen) {
  auto path = std::make_shared<std::vector<std::string>>();
  CLI::App *command = app.add_subcommand("help", "Show the help of a command");
  command->add_option("COMMAND", *path, "Its name, as `cache list`; none: of the program");
  command->footer("Examples:\n"
                  "  tensmith help\n"
                  "  tensmith help compile\n"
                  "  tensmith help cache list");
  command->callback([&app, path, &chosen] {
    chosen = [&app, path] {
      const CLI::App &wanted = commandAt(app, *path);
      std::string parents;
      for (const CLI::App *one = wanted.get_parent(); one; one = one->get_parent())
        parents = one->get_name() + (parents.empty() ? "" : " ") + parents;
      // CLI11's help goes on to the command that was chosen, which is this one.
      std::string name = parents + (parents.empty() ? "" : " ") + wanted.get_name();
      std::cout << wanted.get_formatter()->make_help(&wanted, name, CLI::AppFormatMode::Normal);
      return kSuccess;
    };
  });
}

} // namespace tensmith::cli
