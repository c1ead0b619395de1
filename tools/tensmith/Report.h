// What commands print: tables for people, JSON for programs.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tensmith::cli {

using Json = nlohmann::ordered_json;

/// On stdout, indented; invalid UTF-8 in names is replaced.
void printJson(const Json &json);

/// Rows of cells, in columns as wide as their widest; numbers are aligned to the right.
class Table {
public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows_;
};

/// "1.50 MiB", "12 bytes".
std::string bytesText(double bytes);
/// "12.3 ms", "4.56 us".
std::string timeText(double seconds);
/// The JSON value as a cell: text as it is, a list's elements side by side, an absent one as "-".
std::string cellText(const Json &value);

} // namespace tensmith::cli
