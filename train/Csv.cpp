// Comma-separated values (RFC 4180), read by libcsv: a heading, then a row of numbers a sample. A
// column of text is taken for names of classes, which become their numbers in the order of the
// alphabet.
//
// Each column is one of the data set, named by the heading; whoever binds them to a model's input
// may join several.
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Words.h"
#include "train/Dataset.h"

#include <algorithm>
#include <charconv>
#include <csv.h>
#include <filesystem>
#include <fmt/format.h>

namespace tensmith::train {
namespace {

constexpr size_t kMostColumns = 100'000;
constexpr int64_t kMostGrowth = 20; // a field of one character in memory, as text

std::optional<double> numberIn(std::string_view text) {
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// What libcsv tells of, row by row.
struct Table {
  std::string path;
  std::vector<std::string> heading, row;
  std::vector<std::vector<float>> numbers;       // by column
  std::vector<std::vector<std::string>> classes; // by column; empty where there are numbers
  int64_t rows = 0;
  std::string problem; // the first; libcsv calls back from C, so nothing is thrown there

  void field(std::string_view text) { row.emplace_back(text); }

  void endOfRow() {
    if (!problem.empty() || (row.size() == 1 && row[0].empty()))
      return row.clear(); // an empty line
    heading.empty() ? takeHeading() : takeRow();
    row.clear();
  }

private:
  void takeHeading() {
    heading = row;
    if (heading.size() > kMostColumns)
      problem = fmt::format("has more than {} columns", kMostColumns);
    bool allNumbers = std::ranges::all_of(
        row, [](const std::string &text) { return numberIn(text).has_value(); });
    if (allNumbers)
      problem = "starts with a row of numbers; the first row has to name the columns";
    numbers.resize(heading.size());
    classes.resize(heading.size());
  }

  void takeRow() {
    ++rows;
    if (row.size() != heading.size())
      problem = fmt::format("row {} has {} fields, but the heading has {}", rows, row.size(),
                            heading.size());
    for (size_t i = 0; problem.empty() && i < row.size(); ++i)
      take(i, row[i]);
  }

  void take(size_t column, const std::string &text) {
    auto number = numberIn(text);
    bool first = rows == 1, isText = first ? !number : !classes[column].empty();
    if (isText)
      classes[column].push_back(text);
    else if (number)
      numbers[column].push_back(float(*number));
    else
      problem = fmt::format("row {}, column '{}': '{}' is no number, as there are in the rows "
                            "before it",
                            rows, printable(heading[column]), printable(text.substr(0, 40)));
  }
};

Table readTable(const std::string &path) {
  std::error_code unknown;
  auto size = std::filesystem::file_size(path, unknown);
  if (!unknown)
    checkFits(int64_t(size) * kMostGrowth, path);
  Bytes bytes = readFile(path);
  Table table;
  table.path = path;
  csv_parser parser;
  if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0)
    fail(path, "can't be read: there is no memory");
  if (path.ends_with(".tsv"))
    csv_set_delim(&parser, '\t');
  auto field = [](void *text, size_t size, void *self) {
    static_cast<Table *>(self)->field({static_cast<const char *>(text), size});
  };
  auto end = [](int, void *self) { static_cast<Table *>(self)->endOfRow(); };
  size_t taken = csv_parse(&parser, bytes.data(), bytes.size(), field, end, &table);
  bool whole = taken == bytes.size() && csv_fini(&parser, field, end, &table) == 0;
  int error = csv_error(&parser);
  std::string reason =
      error == CSV_EPARSE
          ? "a quote (\") is not closed, or stands within a field; a field that has "
            "quotes, commas or line breaks in it is quoted as a whole, and its own "
            "quotes are written twice"
          : csv_strerror(error);
  csv_free(&parser);
  if (!table.problem.empty())
    fail(path, table.problem);
  if (!whole)
    fail(path, fmt::format("row {}: {}", table.rows + 1, reason));
  return table;
}

} // namespace

Dataset openCsv(const std::string &path) {
  Table table = readTable(path);
  Dataset data = {path, table.rows, {}, -1, {}};
  for (size_t i = 0; i < table.heading.size(); ++i) {
    if (table.classes[i].empty())
      data.columns.push_back(arrayColumn(
          table.heading[i], HostTensor::of<float>(DataType::F32, {table.rows}, table.numbers[i])));
    else
      addClasses(data, table.heading[i], table.classes[i]);
  }
  return data;
}

} // namespace tensmith::train
