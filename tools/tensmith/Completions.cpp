// tensmith completions: a script that completes commands, options, choices and paths in a shell.
//
// All three scripts are tables of the tree of commands (CommandTree.h) around the little that each
// shell needs to read them. Nothing is asked of the program while somebody types.
#include "tools/tensmith/CommandTree.h"
#include "tools/tensmith/Commands.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

/// Words of a command: its own commands, and all names of its options.
std::vector<std::string> wordsOf(const CommandFacts &command) {
  std::vector<std::string> words;
  for (const CommandFacts &inner : command.commands)
    words.push_back(inner.path.back());
  for (const OptionFacts *option : namedOptions(command))
    words.insert(words.end(), option->names.begin(), option->names.end());
  return words;
}

/// In single quotes, for all three shells.
std::string quoted(const std::string &text, const char *escapedQuote) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string(escapedQuote) : std::string(1, c == '\n' ? ' ' : c);
  return result + "'";
}

std::string firstSentence(const std::string &text) {
  std::string line;
  for (char c : text)
    line += c == '\n' ? ' ' : c;
  size_t end = line.find_first_of(";:");
  end = std::min(end, line.find(". "));
  return line.substr(0, std::min(end, size_t(90)));
}

// ---- bash

std::string bashValue(const OptionFacts &option) {
  switch (completionOf(option)) {
  case Completion::File:
    return "_tensmith_files";
  case Completion::Folder:
    return "_tensmith_folders";
  case Completion::Choices:
    return "_tensmith_words " + quoted(joined(option.choices, " "), "'\\''");
  case Completion::Nothing:
    return "return";
  }
  return "";
}

std::string bashOf(const CommandFacts &command) {
  std::string text = fmt::format("    {})\n", quoted(joined(command.path, " "), "'\\''"));
  text += "      case \"$previous\" in\n";
  for (const OptionFacts *option : namedOptions(command))
    if (!option->value.empty())
      text += fmt::format("        {}) {}; return ;;\n", joined(option->names, "|"),
                          bashValue(*option));
  text += "      esac\n";
  text += fmt::format("      words={}\n", quoted(joined(wordsOf(command), " "), "'\\''"));
  auto given = positionals(command);
  if (!given.empty() && command.path != std::vector<std::string>{"help"})
    text += fmt::format("      [[ $current == -* ]] || {{ {}; return; }}\n", bashValue(*given[0]));
  return text + "      ;;\n";
}

std::string bashScript(const CommandFacts &program) {
  std::string commands, names;
  for (const CommandFacts *command : flattened(program)) {
    commands += bashOf(*command);
    if (!command->path.empty())
      names += quoted(joined(command->path, " "), "'\\''") + "|";
  }
  names.pop_back();
  return fmt::format(
      R"(# Completions of tensmith for bash: source this file, or install it in
# share/bash-completion/completions/tensmith.
_tensmith_words() {{ mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }}
_tensmith_files() {{ compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current"); }}
_tensmith_folders() {{ compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current"); }}
_tensmith() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{command:+$command }}${{COMP_WORDS[i]}}" in
      {}) command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command" in
{}  esac
  _tensmith_words "$words"
}}
complete -F _tensmith tensmith
)",
      names, commands);
}

// ---- zsh

/// Text within [] of a specification.
std::string zshText(const std::string &text) {
  std::string result;
  for (char c : firstSentence(text))
    result +=
        c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result;
}

std::string zshAction(const OptionFacts &option) {
  switch (completionOf(option)) {
  case Completion::File:
    return "_files";
  case Completion::Folder:
    return "_files -/";
  case Completion::Choices:
    return "(" + joined(option.choices, " ") + ")";
  case Completion::Nothing:
    return " ";
  }
  return "";
}

std::string zshArguments(const CommandFacts &command) {
  std::string text;
  auto add = [&](const std::string &specification) {
    text += " \\\n      " + quoted(specification, "'\\''");
  };
  for (const OptionFacts *option : namedOptions(command))
    for (const std::string &name : option->names) {
      std::string value = option->value.empty()
                              ? ""
                              : fmt::format(":{}:{}", zshText(option->value), zshAction(*option));
      add(fmt::format("{}{}[{}]{}", option->repeatable ? "*" : "", name, zshText(option->help),
                      value));
    }
  for (const OptionFacts *given : positionals(command))
    add(fmt::format("{}:{}:{}", given->repeatable ? "*" : "", zshText(given->names[0]),
                    zshAction(*given)));
  return text;
}

std::string zshScript(const CommandFacts &program) {
  std::string cases;
  for (const CommandFacts *command : flattened(program)) {
    if (command->path.empty())
      continue;
    cases += fmt::format("    {})\n", quoted(joined(command->path, " "), "'\\''"));
    if (!command->commands.empty()) {
      std::vector<std::string> inner;
      for (const CommandFacts &one : command->commands)
        inner.push_back(one.path.back());
      cases += fmt::format("      compadd -- {} ;;\n", joined(inner, " "));
    } else {
      cases += fmt::format("      _arguments{} ;;\n", zshArguments(*command));
    }
  }
  std::string described;
  std::string nested; // "cache|trees": commands that have commands
  for (const CommandFacts &command : program.commands) {
    described +=
        "    " + quoted(command.path.back() + ":" + zshText(command.description), "'\\''") + "\n";
    if (!command.commands.empty())
      nested += (nested.empty() ? "" : "|") + command.path.back();
  }
  return fmt::format(R"(#compdef tensmith
# Completions of tensmith for zsh: install this file as _tensmith in a folder of $fpath.
_tensmith() {{
  local command=
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  command=$words[2]
  if [[ $command == ({}) ]] && (( CURRENT > 3 )); then
    command="$command $words[3]"
    shift words
    (( CURRENT-- ))
  fi
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
_tensmith "$@"
)",
                     described, nested, cases);
}

// ---- fish

std::string fishCondition(const CommandFacts &command) {
  if (command.path.empty())
    return "__fish_use_subcommand";
  // By its place: `trees` has commands that are called as others are.
  auto isThere = [](const std::string &name, int place) {
    return fmt::format("string match -q {} -- (commandline -opc)[{}]", name, place);
  };
  std::string text = isThere(command.path[0], 2);
  return command.path.size() == 1 ? text : text + "; and " + isThere(command.path[1], 3);
}

std::string fishOption(const CommandFacts &command, const OptionFacts &option) {
  std::string text =
      fmt::format("complete -c tensmith -n {}", quoted(fishCondition(command), "\\'"));
  for (const std::string &name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  switch (option.value.empty() ? Completion::File : completionOf(option)) {
  case Completion::Choices:
    text += " -x -a " + quoted(joined(option.choices, " "), "\\'");
    break;
  case Completion::Folder:
    text += " -x -a '(__fish_complete_directories)'";
    break;
  case Completion::File:
    text += option.value.empty() ? "" : " -r -F";
    break;
  case Completion::Nothing:
    text += " -x";
    break;
  }
  return text + " -d " + quoted(firstSentence(option.help), "\\'") + "\n";
}

std::string fishScript(const CommandFacts &program) {
  std::string text = "# Completions of tensmith for fish: install this file as\n"
                     "# share/fish/vendor_completions.d/tensmith.fish.\n";
  for (const CommandFacts *command : flattened(program)) {
    for (const CommandFacts &inner : command->commands)
      text += fmt::format("complete -c tensmith -f -n {} -a {} -d {}\n",
                          quoted(fishCondition(*command), "\\'"), inner.path.back(),
                          quoted(firstSentence(inner.description), "\\'"));
    for (const OptionFacts *option : namedOptions(*command))
      text += fishOption(*command, *option);
  }
  return text;
}

int print(const CLI::App &app, const std::string &shell) {
  CommandFacts program = factsOf(app);
  std::cout << (shell == "bash"  ? bashScript(program)
                : shell == "zsh" ? zshScript(program)
                                 : fishScript(program));
  return kSuccess;
}

} // namespace

void addCompletions(CLI::App &app, Action &chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("completions", "Print a shell's completions");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Examples:\n"
                  "  source <(tensmith completions bash)\n"
                  "  tensmith completions zsh > ~/.zfunc/_tensmith\n"
                  "  tensmith completions fish > ~/.config/fish/completions/tensmith.fish");
  command->callback(
      [&app, shell, &chosen] { chosen = [&app, shell] { return print(app, *shell); }; });
}

} // namespace tensmith::cli
