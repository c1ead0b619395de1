// What is said of a command line that can't be meant, and what is understood of one that is almost
// right: American spellings, `--quiet` before the command.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tensmith::cli {

/// The words of the command line, with options in the spelling that they are known by.
std::vector<std::string> understood(const CLI::App &app, int argc, char **argv);

/// The command at the path ("cache", "list"); fails with a suggestion where there is none.
const CLI::App &commandAt(const CLI::App &app, const std::vector<std::string> &path);

/// The message for what CLI11 has refused.
std::string usageMessage(const CLI::App &app, const CLI::ParseError &error,
                         const std::vector<std::string> &words);

} // namespace tensmith::cli
