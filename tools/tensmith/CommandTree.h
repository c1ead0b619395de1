// The commands and their options as data, read off CLI11's tree: what completions and manual pages
// are made of, so that neither can say anything else than the help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tensmith::cli {

struct OptionFacts {
  std::vector<std::string> names; // "-o", "--output"; of a positional "MODEL"
  std::string value;              // "FILE"; empty of a flag
  std::vector<std::string> choices;
  std::string help;
  bool positional = false, required = false, repeatable = false;
};

struct OptionGroup {
  std::string title, description; // no title: the command's own
  std::vector<OptionFacts> options;
};

struct CommandFacts {
  std::vector<std::string> path; // {"cache", "list"}; empty of the program
  std::string description, footer;
  std::vector<OptionGroup> groups;
  std::vector<CommandFacts> commands;
};

/// `path`: of the command, from the program on.
CommandFacts factsOf(const CLI::App &app, std::vector<std::string> path = {});

/// What completes a value: files, folders, one of the choices, or nothing that is known.
enum class Completion { Nothing, File, Folder, Choices };
Completion completionOf(const OptionFacts &option);

/// The command and those within it, parents first.
std::vector<const CommandFacts *> flattened(const CommandFacts &command);
/// All options that have names, of all groups; those of positionals are left out.
std::vector<const OptionFacts *> namedOptions(const CommandFacts &command);
std::vector<const OptionFacts *> positionals(const CommandFacts &command);
std::string joined(const std::vector<std::string> &words, const std::string &between);

} // namespace tensmith::cli
