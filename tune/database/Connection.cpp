// Calls of SQLite's, and what their codes mean; see Connection.h.
#include "tune/database/Connection.h"

#include "files/Failure.h"

#include <chrono>
#include <filesystem>
#include <sqlite3.h>

namespace tensmith::tune {
namespace {

constexpr int kPatienceMilliseconds = 30000; // for other writers
constexpr int kPauseMilliseconds = 5;

std::string meaningOf(int code, const char *message) {
  switch (code & 0xff) {
  case SQLITE_NOTADB:
    return "is no database of tuned points; name another file, or move this one away";
  case SQLITE_CORRUPT:
    return "is damaged (" + std::string(message) + "); " + kWhatToDoOfDamage;
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return "is being written by another program, which does not end; try again";
  case SQLITE_FULL:
    return "can't be written: the disk is full";
  case SQLITE_READONLY:
  case SQLITE_PERM:
    return "can't be written; make it writable, or name another file";
  case SQLITE_CANTOPEN:
    return "can't be opened; is its folder there, and may it be written?";
  default:
    return message;
  }
}

} // namespace

Connection::Connection(const std::string &path, Access access) : path_(path) {
  std::error_code ignored;
  auto folder = std::filesystem::path(path).parent_path();
  if (access == Access::Write && !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  int flags =
      access == Access::Write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  int code = ::sqlite3_open_v2(path.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    std::string message = meaningOf(code, handle_ ? ::sqlite3_errmsg(handle_) : "no memory");
    ::sqlite3_close(handle_);
    fail(path, message);
  }
  ::sqlite3_extended_result_codes(handle_, 1);
  ::sqlite3_busy_timeout(handle_, kPatienceMilliseconds);
}

Connection::~Connection() { ::sqlite3_close(handle_); }

void Connection::check(int code) const {
  if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
    fail(path_, meaningOf(code, ::sqlite3_errmsg(handle_)));
}

void Connection::execute(const char *sql) const {
  check(::sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

void Connection::useWriteAheadLog() const {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::milliseconds(kPatienceMilliseconds);
  int code = SQLITE_BUSY;
  while ((code & 0xff) == SQLITE_BUSY && Clock::now() < end) {
    code = ::sqlite3_exec(handle_, "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
    if ((code & 0xff) == SQLITE_BUSY)
      ::sqlite3_sleep(kPauseMilliseconds);
  }
  check(code);
}

int64_t Connection::lastRow() const { return ::sqlite3_last_insert_rowid(handle_); }

Statement::Statement(const Connection &connection, const char *sql) : connection_(connection) {
  connection.check(::sqlite3_prepare_v2(connection.handle_, sql, -1, &statement_, nullptr));
}

Statement::~Statement() { ::sqlite3_finalize(statement_); }

Statement &Statement::bind(int64_t value) {
  connection_.check(::sqlite3_bind_int64(statement_, next_++, value));
  return *this;
}

Statement &Statement::bind(double value) {
  connection_.check(::sqlite3_bind_double(statement_, next_++, value));
  return *this;
}

Statement &Statement::bind(std::string_view text) {
  connection_.check(::sqlite3_bind_text64(statement_, next_++, text.data(), text.size(),
                                          SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

bool Statement::step() {
  int code = ::sqlite3_step(statement_);
  connection_.check(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step())
    ;
  connection_.check(::sqlite3_reset(statement_));
  next_ = 1;
}

int64_t Statement::integer(int column) const { return ::sqlite3_column_int64(statement_, column); }
double Statement::number(int column) const { return ::sqlite3_column_double(statement_, column); }

std::string Statement::text(int column) const {
  const unsigned char *text = ::sqlite3_column_text(statement_, column);
  auto size = size_t(::sqlite3_column_bytes(statement_, column));
  return text ? std::string(reinterpret_cast<const char *>(text), size) : std::string();
}

Transaction::Transaction(const Connection &connection) : connection_(connection) {
  connection.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!isOpen_)
    return;
  try {
    connection_.execute("ROLLBACK");
  } catch (const Failure &) { // which the first failure has done already
  }
}

void Transaction::commit() {
  connection_.execute("COMMIT");
  isOpen_ = false;
}

} // namespace tensmith::tune
