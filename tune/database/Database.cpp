// The tables and what is asked of them; see Database.h.
#include "tune/database/Database.h"

#include "files/Failure.h"

#include <cmath>
#include <random>

namespace tensmith::tune {
namespace {

constexpr int64_t kFormat = 1; // user_version

constexpr char kTables[] = R"sql(
  CREATE TABLE kernel (
    id INTEGER PRIMARY KEY, machine TEXT NOT NULL, key TEXT NOT NULL, structure TEXT NOT NULL,
    UNIQUE (machine, key));
  CREATE TABLE trial (
    id INTEGER PRIMARY KEY, kernel INTEGER NOT NULL REFERENCES kernel, choices TEXT NOT NULL,
    outcome TEXT NOT NULL, why TEXT NOT NULL, search TEXT NOT NULL, compiler TEXT NOT NULL,
    at INTEGER NOT NULL, features TEXT NOT NULL, UNIQUE (kernel, choices, compiler));
  CREATE TABLE repetition (trial INTEGER NOT NULL REFERENCES trial, seconds REAL NOT NULL);
  CREATE INDEX repetition_trial ON repetition (trial);
  CREATE TABLE winner (
    kernel INTEGER PRIMARY KEY REFERENCES kernel, choices TEXT NOT NULL, seconds REAL NOT NULL,
    before REAL NOT NULL, confidence REAL NOT NULL, compiler TEXT NOT NULL, at INTEGER NOT NULL);
  CREATE TABLE state (id TEXT NOT NULL, revision INTEGER NOT NULL);
)sql";

std::string join(const std::vector<double> &numbers) {
  std::string text;
  char word[32];
  for (double number : numbers) {
    std::snprintf(word, sizeof word, "%s%.6g", text.empty() ? "" : " ", number);
    text += word;
  }
  return text;
}

std::vector<double> split(const std::string &text) {
  std::vector<double> numbers;
  const char *at = text.c_str();
  for (char *end = nullptr;; at = end) {
    double number = std::strtod(at, &end);
    if (end == at)
      return numbers;
    numbers.push_back(number);
  }
}

std::string freshId() {
  std::random_device device;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x", device(), device());
  return text;
}

Winner winnerOf(const Statement &row, int column) {
  return {row.text(column),       row.number(column + 1), row.number(column + 2),
          row.number(column + 3), row.text(column + 4),   row.integer(column + 5)};
}

} // namespace

Database::Database(const std::string &path, Access access) : connection_(path, access) {
  if (access == Access::Write) {
    connection_.useWriteAheadLog();
    connection_.execute("PRAGMA synchronous = NORMAL");
    makeTables();
    Statement quick(connection_, "PRAGMA quick_check(1)");
    if (quick.step() && quick.text(0) != "ok")
      fail(path, "is damaged (" + quick.text(0) + "); " + kWhatToDoOfDamage);
  }
  checkFormat();
}

void Database::makeTables() {
  Transaction transaction(connection_);
  Statement version(connection_, "PRAGMA user_version");
  version.step();
  Statement tables(connection_, "SELECT count(*) FROM sqlite_master");
  tables.step();
  if (version.integer(0) == 0 && tables.integer(0) == 0) {
    connection_.execute(kTables);
    Statement(connection_, "INSERT INTO state VALUES (?, 0)").bind(freshId()).run();
    connection_.execute(("PRAGMA user_version = " + std::to_string(kFormat)).c_str());
  }
  transaction.commit();
}

void Database::checkFormat() const {
  Statement version(connection_, "PRAGMA user_version");
  version.step();
  if (version.integer(0) == kFormat)
    return;
  if (version.integer(0) == 0)
    fail(connection_.path(), "is a database, but none of tuned points; name another file");
  fail(connection_.path(), "has format " + std::to_string(version.integer(0)) +
                               ", and this version reads format " + std::to_string(kFormat) +
                               "; export it with the version that wrote it");
}

int64_t Database::idOf(const KernelName &kernel) {
  Statement known(connection_, "SELECT id FROM kernel WHERE machine = ? AND key = ?");
  if (known.bind(kernel.machine).bind(kernel.key).step())
    return known.integer(0);
  Statement(connection_, "INSERT INTO kernel (machine, key, structure) VALUES (?, ?, ?)")
      .bind(kernel.machine)
      .bind(kernel.key)
      .bind(kernel.structure)
      .run();
  return connection_.lastRow();
}

void Database::add(const KernelName &kernel, const Trial &trial) {
  Transaction transaction(connection_);
  int64_t id = idOf(kernel);
  Statement known(connection_,
                  "SELECT id FROM trial WHERE kernel = ? AND choices = ? AND compiler = ?");
  int64_t row = 0;
  if (known.bind(id).bind(trial.choices).bind(trial.compiler).step()) {
    row = known.integer(0);
  } else {
    Statement(connection_,
              "INSERT INTO trial (kernel, choices, outcome, why, search, compiler, at, "
              "features) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(id)
        .bind(trial.choices)
        .bind(trial.outcome)
        .bind(trial.why)
        .bind(trial.search)
        .bind(trial.compiler)
        .bind(trial.at)
        .bind(join(trial.features))
        .run();
    row = connection_.lastRow();
  }
  Statement repetition(connection_, "INSERT INTO repetition VALUES (?, ?)");
  for (double seconds : trial.seconds)
    repetition.bind(row).bind(seconds).run();
  transaction.commit();
}

std::vector<Trial> Database::trials(const std::string &machine, const std::string &key) const {
  std::vector<Trial> trials;
  Statement rows(connection_, "SELECT trial.id, choices, outcome, why, search, compiler, at, "
                              "features FROM trial JOIN kernel ON kernel.id = kernel WHERE "
                              "machine = ? AND key = ? ORDER BY trial.id");
  rows.bind(machine).bind(key);
  Statement repetitions(connection_,
                        "SELECT seconds FROM repetition WHERE trial = ? ORDER BY rowid");
  while (rows.step()) {
    Trial trial{rows.text(1), rows.text(2),    rows.text(3), rows.text(4),
                rows.text(5), rows.integer(6), {},           split(rows.text(7))};
    repetitions.bind(rows.integer(0));
    while (repetitions.step())
      trial.seconds.push_back(repetitions.number(0));
    repetitions.run();
    trials.push_back(std::move(trial));
  }
  return trials;
}

void Database::setWinner(const KernelName &kernel, const Winner &winner) {
  Transaction transaction(connection_);
  int64_t id = idOf(kernel);
  Statement(connection_, "INSERT OR REPLACE INTO winner VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(id)
      .bind(winner.choices)
      .bind(winner.seconds)
      .bind(winner.before)
      .bind(winner.confidence)
      .bind(winner.compiler)
      .bind(winner.at)
      .run();
  connection_.execute("UPDATE state SET revision = revision + 1");
  transaction.commit();
}

void Database::removeWinner(const KernelName &kernel) {
  Transaction transaction(connection_);
  Statement(connection_, "DELETE FROM winner WHERE kernel = ?").bind(idOf(kernel)).run();
  connection_.execute("UPDATE state SET revision = revision + 1");
  transaction.commit();
}

std::optional<Winner> Database::winner(const std::string &machine, const std::string &key) const {
  Statement row(connection_,
                "SELECT choices, seconds, before, confidence, compiler, at FROM winner JOIN kernel "
                "ON kernel.id = kernel WHERE machine = ? AND key = ?");
  return row.bind(machine).bind(key).step() ? std::optional(winnerOf(row, 0)) : std::nullopt;
}

std::vector<TunedKernel> Database::kernels() const {
  std::vector<TunedKernel> kernels;
  Statement rows(connection_,
                 "SELECT machine, key, structure, winner.kernel IS NOT NULL, choices, seconds, "
                 "before, confidence, compiler, at FROM kernel LEFT JOIN winner ON winner.kernel = "
                 "kernel.id ORDER BY kernel.id");
  while (rows.step()) {
    TunedKernel kernel{{rows.text(0), rows.text(1), rows.text(2)}, {}};
    if (rows.integer(3))
      kernel.winner = winnerOf(rows, 4);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

int64_t Database::countTrials(const KernelName &kernel) const {
  Statement row(connection_, "SELECT count(*) FROM trial JOIN kernel ON kernel.id = kernel WHERE "
                             "machine = ? AND key = ?");
  return row.bind(kernel.machine).bind(kernel.key).step() ? row.integer(0) : 0;
}

std::string Database::state() const {
  Statement row(connection_, "SELECT id, revision FROM state");
  return row.step() ? row.text(0) + ":" + std::to_string(row.integer(1)) : std::string();
}

int64_t Database::prune(const Pruning &pruning) {
  Transaction transaction(connection_);
  auto count = [&] {
    Statement rows(connection_, "SELECT count(*) FROM trial");
    rows.step();
    return rows.integer(0);
  };
  int64_t before = count();
  if (!pruning.otherThan.empty()) {
    Statement(connection_,
              "DELETE FROM winner WHERE kernel IN (SELECT id FROM kernel WHERE machine "
              "<> ?)")
        .bind(pruning.otherThan)
        .run();
    Statement(connection_,
              "DELETE FROM trial WHERE kernel IN (SELECT id FROM kernel WHERE machine <> ?)")
        .bind(pruning.otherThan)
        .run();
  }
  if (pruning.olderThan)
    Statement(connection_, "DELETE FROM trial WHERE at < ?").bind(pruning.olderThan).run();
  if (pruning.keepFastest >= 0)
    Statement(connection_,
              "DELETE FROM trial WHERE id NOT IN (SELECT id FROM (SELECT trial.id AS id, "
              "row_number() OVER (PARTITION BY kernel ORDER BY coalesce((SELECT min(seconds) FROM "
              "repetition WHERE trial = trial.id), 1e300)) AS place FROM trial) WHERE place <= ?)")
        .bind(pruning.keepFastest)
        .run();
  connection_.execute("DELETE FROM repetition WHERE trial NOT IN (SELECT id FROM trial)");
  connection_.execute("DELETE FROM kernel WHERE id NOT IN (SELECT kernel FROM trial) AND id NOT IN "
                      "(SELECT kernel FROM winner)");
  connection_.execute("UPDATE state SET revision = revision + 1");
  int64_t after = count();
  transaction.commit();
  return before - after;
}

} // namespace tensmith::tune
