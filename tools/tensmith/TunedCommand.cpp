// tensmith tuned: what a database of tuned points holds; from and to other databases; what may go.
#include "files/Failure.h"
#include "files/Files.h"
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"
#include "tune/database/Exchange.h"
#include "tune/database/TunedPoints.h"

#include <CLI/CLI.hpp>

#include <ctime>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string database = tune::defaultDatabase(), file, machine;
  double days = 0;
  int64_t fastest = -1;
  bool json = false;
};

std::string namedDatabase(const Settings &settings) {
  if (settings.database.empty())
    failUsage("there is no folder for tuned points; name a file (--database FILE)");
  return settings.database;
}

int show(const Settings &settings) {
  tune::Database database(namedDatabase(settings), tune::Access::Read);
  Json rows = Json::array();
  Table table({"trials", "before us", "after us", "kernel", "machine", "choices"});
  for (const tune::TunedKernel &kernel : database.kernels()) {
    const auto &winner = kernel.winner;
    int64_t trials = database.countTrials(kernel.name);
    Json row = {{"machine", kernel.name.machine},
                {"key", kernel.name.key},
                {"kernel", kernel.name.structure},
                {"trials", trials}};
    if (winner)
      row.update({{"choices", winner->choices},
                  {"before_us", winner->before * 1e6},
                  {"after_us", winner->seconds * 1e6},
                  {"confidence", winner->confidence}});
    rows.push_back(row);
    table.add({std::to_string(trials), winner ? fmt::format("{:.2f}", winner->before * 1e6) : "-",
               winner ? fmt::format("{:.2f}", winner->seconds * 1e6) : "-", cellText(row["kernel"]),
               cellText(row["machine"]), winner ? cellText(row["choices"]) : "as estimated"});
  }
  if (settings.json)
    printJson({{"database", settings.database}, {"kernels", rows}});
  else
    std::cout << (table.empty() ? settings.database + ": holds no kernels\n" : table.text());
  return kSuccess;
}

int exportTo(const Settings &settings) {
  tune::Database database(namedDatabase(settings), tune::Access::Read);
  Json all = tune::exportAll(database);
  if (settings.file == "-")
    printJson(all);
  else
    writeFile(settings.file, all.dump(1) + "\n");
  return kSuccess;
}

int importFrom(const Settings &settings) {
  Bytes bytes = readFile(settings.file);
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  constexpr std::string_view kSqlite = "SQLite format 3";
  tune::Database database(namedDatabase(settings), tune::Access::Write);
  tune::Imported imported = text.starts_with(kSqlite)
                                ? tune::merge(database, settings.file)
                                : tune::importAll(database, std::string(text), settings.file);
  std::cout << fmt::format("{}: {} kernels, {} trials and {} winners are new\n", settings.database,
                           imported.kernels, imported.trials, imported.winners);
  if (imported.unread > 0)
    std::cerr << fmt::format("{}: is damaged; the trials of {} kernels can't be read\n",
                             settings.file, imported.unread);
  return kSuccess;
}

int prune(const Settings &settings) {
  tune::Pruning pruning;
  pruning.otherThan = settings.machine;
  pruning.keepFastest = settings.fastest;
  if (settings.days > 0)
    pruning.olderThan = int64_t(std::time(nullptr)) - int64_t(settings.days * 86400);
  tune::Database database(namedDatabase(settings), tune::Access::Write);
  std::cout << fmt::format("{}: {} trials are gone\n", settings.database, database.prune(pruning));
  return kSuccess;
}

} // namespace

void addTuned(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("tuned", "Show, exchange and prune what tuning has found");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *help, int (*action)(const Settings &)) {
    CLI::App *part = command->add_subcommand(name, help);
    part->add_option("--database", settings->database, "Default: where compilations look for it")
        ->type_name("FILE");
    part->callback(
        [settings, action, &chosen] { chosen = [settings, action] { return action(*settings); }; });
    return part;
  };
  add("show", "List kernels, trials and winners", show)
      ->add_flag("--json", settings->json, "As JSON");
  add("export", "Write all of it as JSON", exportTo)
      ->add_option("FILE", settings->file, "-: print it")
      ->required();
  add("import", "Take in an export, or another database; of a damaged one what can be read",
      importFrom)
      ->add_option("FILE", settings->file)
      ->required()
      ->check(CLI::ExistingFile);
  CLI::App *pruned = add("prune", "Remove trials; winners stay, unless their machine goes", prune);
  pruned->add_option("--keep-machine", settings->machine, "Remove kernels of all others")
      ->type_name("NAME");
  pruned->add_option("--older-than", settings->days, "Trials from before so many days")
      ->type_name("DAYS")
      ->check(CLI::PositiveNumber);
  pruned->add_option("--keep-fastest", settings->fastest, "So many trials of each kernel stay")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->footer("Examples:\n"
                  "  tensmith tuned show\n"
                  "  tensmith tuned export points.json\n"
                  "  tensmith tuned import points.json --database other.sqlite\n"
                  "  tensmith tuned prune --keep-fastest 100");
}

} // namespace tensmith::cli
