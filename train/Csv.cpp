// Comma-separated values (files/Csv.h): a heading, then a row of numbers a sample. A
// column of text is taken for names of classes, which become their numbers in the order of the
// alphabet.
//
// Each column is one of the data set, named by the heading; whoever binds them to a model's input
// may join several.
#include "files/Csv.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Words.h"
#include "train/Dataset.h"

#include <algorithm>
#include <charconv>
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

/// The columns, as they are put together row by row.
struct Table {
  CsvRow heading;
  std::vector<std::vector<float>> numbers;       // by column
  std::vector<std::vector<std::string>> classes; // by column; empty where there are numbers
  int64_t rows = 0;
  std::string problem; // the first

  bool take(CsvRow &row) {
    if (row.size() == 1 && row[0].empty())
      return true; // a line of nothing but quotes
    heading.empty() ? takeHeading(row) : takeRow(row);
    return problem.empty();
  }

private:
  void takeHeading(CsvRow &row) {
    if (row.size() > kMostColumns)
      problem = fmt::format("has more than {} columns", kMostColumns);
    bool allNumbers = std::ranges::all_of(
        row, [](const std::string &text) { return numberIn(text).has_value(); });
    if (allNumbers)
      problem = "starts with a row of numbers; the first row has to name the columns";
    heading = std::move(row);
    numbers.resize(heading.size());
    classes.resize(heading.size());
  }

  void takeRow(const CsvRow &row) {
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
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  std::string problem = readCsv(text, path.ends_with(".tsv") ? '\t' : ',',
                                [&](CsvRow &row) { return table.take(row); });
  if (problem.empty())
    problem = table.problem;
  if (!problem.empty())
    fail(path, problem);
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
