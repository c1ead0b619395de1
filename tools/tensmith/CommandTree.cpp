// CLI11 keeps the choices of an option in the text of its type, "POLICY:{fast,exact}"; they are
// taken from there.
#include "tools/tensmith/CommandTree.h"

#include <CLI/CLI.hpp>

namespace tensmith::cli {
namespace {

std::vector<std::string> choicesOf(const std::string &type) {
  size_t open = type.find('{'), close = type.rfind('}');
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos || close < open)
    return choices;
  std::stringstream list(type.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(list, choice, ',');)
    choices.push_back(choice);
  return choices;
}

OptionFacts factsOf(const CLI::Option &option) {
  OptionFacts facts;
  for (const std::string &name : option.get_snames())
    facts.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    facts.names.push_back("--" + name);
  facts.positional = facts.names.empty();
  if (facts.positional)
    facts.names = {option.get_name(/*positional=*/true)};
  if (facts.positional || option.get_items_expected_max() > 0) {
    std::string type = option.get_type_name();
    facts.choices = choicesOf(type);
    facts.value = type.substr(0, type.find_first_of(":{"));
    if (facts.value.empty())
      facts.value = "VALUE";
  }
  facts.help = option.get_description();
  facts.required = option.get_required();
  facts.repeatable = option.get_items_expected_max() > 1;
  return facts;
}

OptionGroup groupOf(const CLI::App &app, std::string title, std::string description) {
  OptionGroup group{std::move(title), std::move(description), {}};
  bool isGroup = app.get_name().empty();
  for (const CLI::Option *option : app.get_options())
    if (!isGroup || option != app.get_help_ptr()) // which groups have, and their help leaves out
      group.options.push_back(factsOf(*option));
  return group;
}

CommandFacts factsBelow(const CLI::App &app, std::vector<std::string> path) {
  CommandFacts facts{
      std::move(path), app.get_description(), app.get_footer(), {groupOf(app, "", "")}, {}};
  for (const CLI::App *inner : app.get_subcommands([](const CLI::App *) { return true; })) {
    if (inner->get_name().empty()) { // a group of options
      facts.groups.push_back(groupOf(*inner, inner->get_group(), inner->get_description()));
      continue;
    }
    std::vector<std::string> below = facts.path;
    below.push_back(inner->get_name());
    facts.commands.push_back(factsBelow(*inner, std::move(below)));
  }
  return facts;
}

std::vector<const OptionFacts *> optionsWhere(const CommandFacts &command, bool positional) {
  std::vector<const OptionFacts *> options;
  for (const OptionGroup &group : command.groups)
    for (const OptionFacts &option : group.options)
      if (option.positional == positional)
        options.push_back(&option);
  return options;
}

} // namespace

CommandFacts factsOf(const CLI::App &app, std::vector<std::string> path) {
  return factsBelow(app, std::move(path));
}

Completion completionOf(const OptionFacts &option) {
  if (!option.choices.empty())
    return Completion::Choices;
  const std::string &kind = option.positional ? option.names[0] : option.value;
  for (const char *folder : {"DIR", "FOLDER"})
    if (kind.starts_with(folder))
      return Completion::Folder;
  for (const char *file : {"FILE", "PATH", "MODEL", "MODULE", "WHAT", "random|FILE"})
    if (kind.starts_with(file))
      return Completion::File;
  return option.positional && kind.size() == 1 ? Completion::File : Completion::Nothing; // A, B
}

std::vector<const CommandFacts *> flattened(const CommandFacts &command) {
  std::vector<const CommandFacts *> all = {&command};
  for (const CommandFacts &inner : command.commands)
    for (const CommandFacts *one : flattened(inner))
      all.push_back(one);
  return all;
}

std::vector<const OptionFacts *> namedOptions(const CommandFacts &command) {
  return optionsWhere(command, false);
}

std::vector<const OptionFacts *> positionals(const CommandFacts &command) {
  return optionsWhere(command, true);
}

std::string joined(const std::vector<std::string> &words, const std::string &between) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

} // namespace tensmith::cli
