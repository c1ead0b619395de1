// SQLite, with failures in words: one connection and its statements.
//
// Every failure names the file, says what is wrong with it and what to do, and is thrown (Failure):
// a file that is damaged, that is no database, that another program holds for too long.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace tensmith::tune {

class Connection;

/// One run of a statement: bind, then step through the rows.
class Statement {
public:
  Statement(const Connection &connection, const char *sql);
  ~Statement();
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  /// Parameters in order, from the first on.
  Statement &bind(int64_t value);
  Statement &bind(double value);
  Statement &bind(std::string_view text);

  /// Whether there is one more row.
  bool step();
  /// To its end, and ready to be bound again.
  void run();

  int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;

private:
  const Connection &connection_;
  sqlite3_stmt *statement_ = nullptr;
  int next_ = 1;
};

enum class Access { Read, Write };

inline constexpr char kWhatToDoOfDamage[] =
    "`tensmith tuned import FILE --database NEW` saves what can be read, or move the file away";

class Connection {
public:
  /// For reading the file must be there; for writing it is made, with its folder.
  Connection(const std::string &path, Access access);
  ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  void execute(const char *sql) const;
  /// Readers and a writer at once. Of two programs that ask for it in a new file SQLite refuses one
  /// at once, whatever patience it has, since both hold a lock that the other waits for: it tries
  /// again.
  void useWriteAheadLog() const;
  int64_t lastRow() const;
  const std::string &path() const { return path_; }
  /// Throws what `code` means of this file, unless it is success.
  void check(int code) const;

private:
  friend class Statement;
  std::string path_;
  sqlite3 *handle_ = nullptr;
};

/// All or nothing: rolled back unless it is committed. Other writers wait from its begin on.
class Transaction {
public:
  explicit Transaction(const Connection &connection);
  ~Transaction();
  void commit();

private:
  const Connection &connection_;
  bool isOpen_ = true;
};

} // namespace tensmith::tune
