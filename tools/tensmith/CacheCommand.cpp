// tensmith cache: what the folder of compiled kernels and modules holds, whether it is right, and
// how to have less of it.
#include "cache/Store.h"
#include "files/Words.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <iostream>
#include <map>

namespace tensmith::cli {
namespace {

using cache::EntryFile;
using cache::Kind;

struct Settings {
  std::string folder = cache::defaultFolder();
  int64_t limit = cache::defaultLimit();
  bool json = false, remove = false, all = false;
};

/// The folder's entries, if it is one that may be used.
struct Opened {
  cache::Store store;

  explicit Opened(const Settings &settings) : store(settings.folder, settings.limit) {
    if (settings.folder.empty())
      throw Failure("there is no folder for a cache; set TENSMITH_CACHE to one, or name it "
                    "(--cache)");
    if (std::string why = store.refusal(); !why.empty())
      fail(settings.folder, why);
  }
};

const char *kindName(const EntryFile &entry) { return cache::kKindNames[size_t(entry.kind)]; }

/// The models that modules were compiled from, by the modules' keys.
std::map<std::string, std::string> modelsOf(cache::Store &store,
                                            const std::vector<EntryFile> &entries) {
  std::map<std::string, std::string> models;
  for (const EntryFile &entry : entries) {
    auto text = entry.kind == Kind::Model ? store.contents(entry) : std::nullopt;
    Json json = text ? Json::parse(*text, nullptr, false) : Json();
    if (json.is_object() && json.contains("module") && json.contains("model"))
      models[json["module"].get<std::string>()] = json["model"].get<std::string>();
  }
  return models;
}

Json described(const EntryFile &entry, const std::map<std::string, std::string> &models) {
  Json json = {
      {"kind", kindName(entry)}, {"key", entry.key}, {"bytes", entry.bytes}, {"used", entry.used}};
  if (auto model = models.find(entry.key); entry.kind == Kind::Module && model != models.end())
    json["model"] = model->second;
  return json;
}

std::string timeOf(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(time_t(seconds)));
}

/// Modules one by one, the others by their number.
void printEntries(const Json &entries) {
  Table table({"size", "last used", "module of"});
  std::map<std::string, std::pair<int64_t, int64_t>> others;
  for (const Json &entry : entries) {
    int64_t bytes = entry["bytes"];
    if (entry["kind"] == "module") {
      table.add(
          {bytesText(double(bytes)), timeOf(entry["used"]),
           printable(entry.value("model", std::string("a model that is not known any more")))});
      continue;
    }
    auto &[count, sum] = others[entry["kind"]];
    ++count, sum += bytes;
  }
  std::cout << table.text();
  for (const auto &[kind, figures] : others)
    std::cout << fmt::format("{} {}{} of {}\n", figures.first, kind, figures.first == 1 ? "" : "s",
                             bytesText(double(figures.second)));
}

int list(const Settings &settings) {
  Opened opened(settings);
  cache::Store &store = opened.store;
  std::vector<EntryFile> entries = store.entries();
  auto models = modelsOf(store, entries);
  Json all = Json::array();
  int64_t bytes = 0;
  for (const EntryFile &entry : entries) {
    all.push_back(described(entry, models));
    bytes += entry.bytes;
  }
  if (settings.json) {
    printJson({{"folder", settings.folder},
               {"limit", settings.limit},
               {"bytes", bytes},
               {"entries", all}});
    return kSuccess;
  }
  printEntries(all);
  std::cout << fmt::format("{} in {}, of at most {}\n", bytesText(double(bytes)),
                           printable(settings.folder), bytesText(double(settings.limit)));
  return kSuccess;
}

int verify(const Settings &settings) {
  Opened opened(settings);
  cache::Store &store = opened.store;
  std::vector<EntryFile> entries = store.entries();
  Json wrong = Json::array();
  for (const EntryFile &entry : entries) {
    if (store.verify(entry))
      continue;
    wrong.push_back(described(entry, {}));
    if (settings.remove)
      std::filesystem::remove(entry.path);
    if (!settings.json)
      std::cout << fmt::format("{}: is damaged{}\n", printable(entry.path),
                               settings.remove ? ", and removed" : "");
  }
  if (settings.json)
    printJson({{"folder", settings.folder}, {"entries", entries.size()}, {"damaged", wrong}});
  else
    std::cout << fmt::format("{} of {} entries are right\n", entries.size() - wrong.size(),
                             entries.size());
  return wrong.empty() || settings.remove ? kSuccess : kFailure;
}

int prune(const Settings &settings) {
  Opened opened(settings);
  cache::Store &store = opened.store;
  std::vector<EntryFile> removed = store.prune(settings.all ? 0 : settings.limit);
  int64_t bytes = 0;
  Json all = Json::array();
  for (const EntryFile &entry : removed) {
    bytes += entry.bytes;
    all.push_back(described(entry, {}));
  }
  if (settings.json)
    printJson({{"folder", settings.folder}, {"bytes", bytes}, {"removed", all}});
  else
    std::cout << fmt::format("{} entries of {} are removed\n", removed.size(),
                             bytesText(double(bytes)));
  return kSuccess;
}

} // namespace

void addCache(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand(
      "cache", "List, verify or prune the compiled kernels and modules that are kept");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *what, int (*act)(const Settings &)) {
    CLI::App *action = command->add_subcommand(name, what);
    action
        ->add_option("--cache", settings->folder,
                     "The folder (default: $TENSMITH_CACHE, or the user's cache folder)")
        ->type_name("DIR")
        ->check(CLI::ExistingDirectory);
    action->add_flag("--json", settings->json, "As JSON; sizes in bytes, times in seconds of 1970");
    action->callback(
        [settings, &chosen, act] { chosen = [settings, act] { return act(*settings); }; });
    return action;
  };
  add("list", "What there is, the least recently used first", list);
  add("verify", "Hold each entry against its hash", verify)
      ->add_flag("--remove", settings->remove, "Remove those that are damaged");
  CLI::App *pruning =
      add("prune", "Remove what was not used for longest, down to the limit", prune);
  pruning
      ->add_option("--limit", settings->limit,
                   "How much may stay: 500MB, 2GiB (default: $TENSMITH_CACHE_LIMIT, or 8 GiB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::NonNegativeNumber);
  pruning->add_flag("--all", settings->all, "Remove everything");
  command->footer("Examples:\n"
                  "  tensmith cache list\n"
                  "  tensmith cache verify --remove\n"
                  "  tensmith cache prune --limit 2GiB");
}

} // namespace tensmith::cli
