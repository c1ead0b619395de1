// Names that are unknown are compared with those that are known; see Usage.h.
#include "tools/tensmith/Usage.h"

#include "base/Spelling.h"
#include "files/Failure.h"
#include "files/Words.h"

#include <algorithm>
#include <fmt/format.h>

namespace tensmith::cli {
namespace {

std::vector<const CLI::App *> inner(const CLI::App &app) {
  return app.get_subcommands([](const CLI::App *) { return true; });
}

std::vector<std::string> commandNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : inner(app))
    if (!command->get_name().empty())
      names.push_back(command->get_name());
  return names;
}

/// The options that this command takes, its groups' included.
std::vector<std::string> optionNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  for (const CLI::App *group : inner(command))
    if (group->get_name().empty())
      for (const std::string &name : optionNames(*group))
        names.push_back(name);
  return names;
}

/// The innermost command that was read.
const CLI::App &chosenOf(const CLI::App &app) {
  auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosenOf(*chosen[0]);
}

/// "tensmith cache list".
std::string nameOf(const CLI::App &command) {
  const CLI::App *parent = command.get_parent();
  return parent ? nameOf(*parent) + " " + command.get_name() : command.get_name();
}

/// The message for words that CLI11 could not place.
std::string unexpected(const CLI::App &app, const std::vector<std::string> &words) {
  const CLI::App &chosen = chosenOf(app);
  std::string help = nameOf(chosen) + " --help";
  std::vector<std::string> known = optionNames(chosen), commands = commandNames(chosen);
  for (const std::string &word : words) {
    std::string name = word.substr(0, word.find('='));
    if (!commands.empty() && !name.starts_with("-"))
      return fmt::format("there is no command '{}'{}; see {}", printable(word),
                         suggestion(name, commands), help);
    if (name.starts_with("--") && std::ranges::find(known, name) == known.end())
      return fmt::format("there is no option {}{}; see {}", printable(name),
                         suggestion(name, known), help);
  }
  return "'" + printable(words.empty() ? "" : words[0]) + "' is not expected; see " + help;
}

/// CLI11's "--precision: bf61 not in {fast,exact,bf16}", with the choice that was meant.
std::string withSuggestion(const std::string &message) {
  size_t open = message.rfind(" not in {"), start = message.find(": ");
  if (open == std::string::npos || start == std::string::npos || start + 2 > open ||
      !message.ends_with("}"))
    return message;
  std::string word = message.substr(start + 2, open - start - 2);
  std::vector<std::string> choices;
  std::stringstream list(message.substr(open + 9, message.size() - open - 10));
  for (std::string choice; std::getline(list, choice, ',');)
    choices.push_back(choice);
  return message + suggestion(word, choices);
}

} // namespace

std::vector<std::string> understood(const CLI::App &app, int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const CLI::App *command = &app;
  for (std::string &word : words) {
    if (word == "--")
      break;
    if (!word.starts_with("-")) {
      auto below = inner(*command);
      auto found = std::ranges::find_if(below, [&](auto *one) { return one->get_name() == word; });
      command = found == below.end() ? command : *found;
      continue;
    }
    std::string name = word.substr(0, word.find('='));
    word = knownSpelling(name, optionNames(*command)) + word.substr(name.size());
  }
  return words;
}

const CLI::App &commandAt(const CLI::App &app, const std::vector<std::string> &path) {
  const CLI::App *command = &app;
  for (const std::string &name : path) {
    auto below = inner(*command);
    auto found = std::ranges::find_if(
        below, [&](const CLI::App *one) { return !name.empty() && one->get_name() == name; });
    if (found == below.end())
      failUsage(fmt::format("there is no command '{}'{}; see {} --help", printable(name),
                            suggestion(name, commandNames(*command)), nameOf(*command)));
    command = *found;
  }
  return *command;
}

std::string usageMessage(const CLI::App &app, const CLI::ParseError &error,
                         const std::vector<std::string> &words) {
  const CLI::App &chosen = chosenOf(app);
  std::vector<std::string> left = app.remaining(/*recurse=*/true);
  bool wantsCommand = !commandNames(chosen).empty() && (&chosen == &app || !left.empty());
  if (dynamic_cast<const CLI::ExtrasError *>(&error) || wantsCommand)
    return unexpected(app, left.empty() ? words : left);
  std::string what = error.what();
  if (size_t name = what.find(": At Most 1 required"); name != std::string::npos)
    what = what.substr(0, name) + " is given more than once; say it once";
  if (dynamic_cast<const CLI::RequiredError *>(&error) && !commandNames(chosen).empty())
    what = fmt::format("say which: {}", fmt::join(commandNames(chosen), ", "));
  std::string name = nameOf(chosen);
  return fmt::format("{}: {}; see {} --help", name.substr(name.find(' ') + 1), withSuggestion(what),
                     name);
}

} // namespace tensmith::cli
