// tensmith man: the manual pages, in the man macros (man(7)), a page for the program and one for
// each of its commands. They are made of the tree of commands (CommandTree.h).
#include "files/Files.h"
#include "tools/tensmith/CommandTree.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Usage.h"
#include "tools/tensors/Results.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

/// As text of a line: no macro at its beginning, no escape in it, no hyphen for a minus.
std::string roff(const std::string &text) {
  std::string result;
  bool begins = true;
  for (char c : text) {
    if (begins && (c == '.' || c == '\''))
      result += "\\&";
    result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    begins = c == '\n';
  }
  return result;
}

std::string nameOf(const CommandFacts &command, const char *between) {
  return command.path.empty() ? "tensmith"
                              : std::string("tensmith") + between + joined(command.path, between);
}

std::string upper(std::string text) {
  for (char &c : text)
    c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string optionText(const OptionFacts &option) {
  std::string names;
  for (const std::string &name : option.names)
    names += (names.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
  if (!option.value.empty() && !option.positional)
    names += " \\fI" + roff(option.value) + "\\fR";
  std::string help = roff(option.help);
  if (!option.choices.empty())
    help += "\n.br\nOne of: " + roff(joined(option.choices, ", "));
  return ".TP\n" + names + "\n" + help + "\n";
}

std::string synopsis(const CommandFacts &command) {
  std::string text = ".SH SYNOPSIS\n.B " + roff(nameOf(command, " ")) + "\n";
  if (!command.commands.empty())
    return text + ".I COMMAND\n[\\fIOPTIONS\\fR]\n";
  text += "[\\fIOPTIONS\\fR]\n";
  for (const OptionFacts *given : positionals(command))
    text += given->required ? ".I " + roff(given->names[0]) + "\n"
                            : "[\\fI" + roff(given->names[0]) + "\\fR]\n";
  return text;
}

std::string commandsText(const CommandFacts &command) {
  std::string text;
  for (const CommandFacts &inner : command.commands)
    text += ".TP\n.B " + roff(joined(inner.path, " ")) + "\n" + roff(inner.description) + "\n";
  return text.empty() ? "" : ".SH COMMANDS\n" + text;
}

std::string optionsText(const CommandFacts &command) {
  std::string text;
  for (const OptionGroup &group : command.groups) {
    if (group.options.empty())
      continue;
    text += group.title.empty() ? "" : ".SS " + roff(group.title) + "\n";
    text += group.description.empty() ? "" : roff(group.description) + "\n";
    for (const OptionFacts &option : group.options)
      text += optionText(option);
  }
  return text.empty() ? "" : ".SH OPTIONS\n" + text;
}

std::string exitStatusSection() {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitMeaning &one : kExitStatuses)
    text += std::string(".TP\n.B ") + one.status + "\n" + roff(one.meaning) + "\n";
  return text;
}

std::string seeAlso(const CommandFacts &command, const CommandFacts &program) {
  std::string text;
  for (const CommandFacts *other : flattened(program))
    if (other->path.size() < 2 && other->path != command.path)
      text += (text.empty() ? "" : ", ") + ("\\fB" + roff(nameOf(*other, "-")) + "\\fR(1)");
  return ".SH SEE ALSO\n" + text + "\n";
}

/// A command's page has the commands within it, as sections of their own.
std::string page(const CommandFacts &command, const CommandFacts &program) {
  std::string text = fmt::format(".TH {} 1 \"\" \"tensmith {}\" \"Tensmith\"\n",
                                 upper(nameOf(command, "-")), TENSMITH_VERSION_TEXT);
  text += ".SH NAME\n" + roff(nameOf(command, "-")) + " \\- " + roff(command.description) + "\n";
  text += synopsis(command) + commandsText(command) + optionsText(command);
  if (!command.path.empty())
    for (const CommandFacts &inner : command.commands)
      text += ".SH " + upper(joined(inner.path, " ")) + "\n" + roff(inner.description) + "\n" +
              optionsText(inner).substr(optionsText(inner).find('\n') + 1);
  if (!command.footer.empty())
    text += ".SH NOTES\n.nf\n" + roff(command.footer) + "\n.fi\n";
  return text + exitStatusSection() + seeAlso(command, program);
}

int print(const CLI::App &app, const std::vector<std::string> &path, const std::string &folder) {
  CommandFacts program = factsOf(app);
  if (folder.empty()) {
    std::cout << page(factsOf(commandAt(app, path), path), program);
    return kSuccess;
  }
  if (!path.empty())
    failUsage("man: a command and --output can't be had together: the folder gets all pages");
  makeFolder(folder);
  for (const CommandFacts *command : flattened(program))
    if (command->path.size() < 2)
      writeFile(std::filesystem::path(folder) / (nameOf(*command, "-") + ".1"),
                page(*command, program));
  return kSuccess;
}

} // namespace

void addMan(CLI::App &app, Action &chosen) {
  struct Settings {
    std::vector<std::string> path;
    std::string folder;
  };
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("man", "Print a manual page, or write all of them");
  command->add_option("COMMAND", settings->path, "Whose page; none: the program's");
  command->add_option("-o,--output", settings->folder, "Write all pages there, as tensmith-run.1")
      ->type_name("DIR");
  command->footer("Examples:\n"
                  "  tensmith man compile | man -l -\n"
                  "  tensmith man --output share/man/man1");
  command->callback([&app, settings, &chosen] {
    chosen = [&app, settings] { return print(app, settings->path, settings->folder); };
  });
}

} // namespace tensmith::cli
