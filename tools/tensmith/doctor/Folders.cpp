// Folders that Tensmith writes to, and the variables that name them.
#include "cache/Store.h"
#include "files/Words.h"
#include "tools/tensmith/Report.h"
#include "tools/tensmith/doctor/Findings.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

namespace tensmith::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr double kLeastSpace = 0x1p30;

struct Variable {
  const char *name, *purpose;
};
constexpr std::array<Variable, 9> kVariables = {{
    {"TENSMITH_CACHE", "the folder of what was compiled; empty: none"},
    {"TENSMITH_CACHE_LIMIT", "how much it may hold, as 500MB or 2GiB"},
    {"TENSMITH_CHECK_BOUNDS", "1: each access of a kernel is checked"},
    {"TENSMITH_SEPARATE_DELAYS", "delays of the device `separate`, of tests"},
    {"TENSMITH_BUILD", "the build that tests use"},
    {"TENSMITH_PRESET", "the preset that ./run and ./test build"},
    {"TENSMITH_PACKAGES", "mine: ./run installs nothing"},
    {"TENSMITH_YES", "1: ./run doesn't ask before it installs"},
    {"TENSMITH_TORCH_PYTHON", "the interpreter with PyTorch that tests use"},
}};

std::string ownerOf(const std::string &path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    return "nobody";
  const passwd *user = ::getpwuid(status.st_uid);
  return user ? user->pw_name : std::to_string(status.st_uid);
}

/// The folder, or the nearest above it that is there.
fs::path existing(fs::path folder) {
  std::error_code none;
  while (!folder.empty() && folder != folder.parent_path() && !fs::exists(folder, none))
    folder = folder.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void examineSpace(Section &section, const std::string &name, const fs::path &folder) {
  std::error_code error;
  fs::space_info space = fs::space(existing(folder), error);
  if (error)
    return;
  std::string free = bytesText(double(space.available)) + " free";
  if (double(space.available) < kLeastSpace)
    section.problem(name, free, "free some space, or name another folder");
  else
    section.fine(name, free);
}

void examineCache(Section &section) {
  std::string folder = cache::defaultFolder();
  if (folder.empty())
    return section.note("cache", "none",
                        "every model is compiled afresh; set TENSMITH_CACHE to a "
                        "folder, or HOME");
  cache::Store store(folder);
  std::string where = printable(folder);
  std::error_code none;
  if (!fs::exists(folder, none))
    return section.fine("cache", where + ", which is made when it is first needed");
  std::string owner = " (of " + ownerOf(folder) + ")";
  if (std::string why = store.refusal(); !why.empty())
    return section.problem(
        "cache", where + owner + ": " + why,
        "nothing is kept there; mend that, or set TENSMITH_CACHE to another folder");
  int64_t bytes = 0;
  auto entries = store.entries();
  for (const cache::EntryFile &entry : entries)
    bytes += entry.bytes;
  section.fine("cache", fmt::format("{}{}: {} in {} entries, of at most {}", where, owner,
                                    bytesText(double(bytes)), entries.size(),
                                    bytesText(double(cache::defaultLimit()))));
  examineSpace(section, "cache's disk", folder);
}

} // namespace

void examineFolders(Section section) {
  examineCache(section);
  std::error_code error;
  fs::path temporary = fs::temp_directory_path(error);
  if (error || ::access(temporary.c_str(), W_OK) != 0)
    return section.problem("temporary files",
                           error ? error.message() : temporary.string() + " can't be written",
                           "set TMPDIR to a folder that can be");
  section.fine("temporary files", temporary.string());
  examineSpace(section, "their disk", temporary);
}

void examineEnvironment(Section section) {
  std::vector<std::string> known;
  for (const Variable &variable : kVariables)
    known.emplace_back(variable.name);
  for (char **entry = environ; *entry; ++entry) {
    std::string text = *entry, name = text.substr(0, text.find('='));
    if (!name.starts_with("TENSMITH_"))
      continue;
    std::string value = printable(text.substr(std::min(text.size(), name.size() + 1)));
    auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      section.note(name, value, "nothing reads it" + suggestion(name, known));
    else
      section.fine(name, value + " (" + kVariables[size_t(found - known.begin())].purpose + ")");
  }
}

} // namespace tensmith::cli::doctor
