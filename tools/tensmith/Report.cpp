// Layout of text for terminals, and JSON that is valid whatever a file's names contain.
#include "tools/tensmith/Report.h"

#include "files/Failure.h"
#include "tools/tensors/Values.h"

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {

void printJson(const Json &json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

static bool isNumber(const std::string &cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) || cell == "-");
}

std::string Table::text() const {
  std::vector<size_t> widths(rows_[0].size());
  for (const auto &row : rows_)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto &row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      bool right = rows_.size() > 1 && isNumber(rows_[1][i]);
      line += right ? fmt::format("{:>{}}  ", row[i], widths[i])
                    : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string bytesText(double bytes) {
  constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return fmt::format("{:.0f} bytes", bytes);
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 3; bytes /= 1024)
    ++unit;
  return fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string timeText(double seconds) {
  if (seconds < 1e-6)
    return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3)
    return fmt::format("{:.2f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string cellText(const Json &value) {
  if (value.is_null())
    return "-";
  if (value.is_array()) {
    std::string list;
    for (const Json &element : value)
      list += (list.empty() ? "" : " ") + cellText(element);
    return list;
  }
  return value.is_string() ? printable(value.get<std::string>())
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace tensmith::cli
