// Rows of text tables, by cases and against text that is written from random rows.
#include "files/Csv.h"

#include <array>
#include <gtest/gtest.h>
#include <random>

namespace tensmith {
namespace {

using Rows = std::vector<CsvRow>;

Rows rowsOf(std::string_view text, char delimiter = ',') {
  Rows rows;
  std::string problem = readCsv(text, delimiter, [&](CsvRow &row) {
    rows.push_back(row);
    return true;
  });
  if (!problem.empty())
    rows.push_back({"refused", problem});
  return rows;
}

std::string refusal(std::string_view text) {
  return readCsv(text, ',', [](CsvRow &) { return true; });
}

// Breaks if any end of a line counts twice or not at all.
TEST(Csv, EndsOfLines) {
  Rows rows = {{"a", "b"}, {"1", "2"}};
  for (const char *text :
       {"a,b\n1,2\n", "a,b\r\n1,2\r\n", "a,b\r1,2", "\n\na,b\n \t\n\r\n1,2\n\n  "})
    EXPECT_EQ(rowsOf(text), rows) << text;
}

// Breaks if blanks inside of quotes go, or blanks outside stay.
TEST(Csv, FieldsAndBlanks) {
  EXPECT_EQ(rowsOf("\xef\xbb\xbf a b , \" c \" ,\n"), (Rows{{"a b", " c ", ""}}));
  EXPECT_EQ(rowsOf("a\t b \t\"\t\"\n\t\t", '\t'), (Rows{{"a", "b", "\t"}, {"", "", ""}}));
  EXPECT_EQ(rowsOf("\"a\"\"b\",\"\"\n"), (Rows{{"a\"b", ""}}));
  EXPECT_EQ(rowsOf(""), Rows{});
}

// Breaks if text is guessed at.
TEST(Csv, BrokenQuotesAreRefused) {
  for (const char *row : {"\"1", "1\"", "1\"2\"", "\"1\"2", "\"1\" 2", "\"1\"\"\n"}) {
    EXPECT_TRUE(refusal(std::string("a\n1\n") + row).starts_with("row 2: a quote")) << row;
    EXPECT_TRUE(refusal(row).starts_with("the heading: a quote")) << row;
  }
}

// Breaks if a caller that has seen enough is called again.
TEST(Csv, EndsWhereTheCallerDoes) {
  int rows = 0;
  EXPECT_EQ(readCsv("a\nb\n\"", ',', [&](CsvRow &) { return ++rows < 2; }), "");
  EXPECT_EQ(rows, 2);
}

/// A field as RFC 4180 has it, quoted where it has to be and now and then where not.
std::string quoted(const std::string &field, bool anyway) {
  bool hasTo = field.empty() || field.find_first_of(",;\t \"\r\n") != field.npos;
  if (!hasTo && !anyway)
    return field;
  std::string text = "\"";
  for (char c : field)
    text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

// Breaks if what is written doesn't come back, whatever characters it has.
TEST(Csv, RandomRowsComeBack) {
  std::mt19937 random(7);
  auto draw = [&](size_t count) { return random() % count; };
  constexpr std::string_view kCharacters = "ab1 ,;\t\"\r\n\xc3\xa9";
  for (int run = 0; run < 2000; ++run) {
    char delimiter = ",;\t"[draw(3)];
    const char *end = std::array{"\n", "\r\n", "\r"}[draw(3)];
    Rows rows(draw(5), CsvRow(1 + draw(4)));
    std::string text;
    for (CsvRow &row : rows)
      for (std::string &field : row) {
        for (size_t i = draw(6); i > 0; --i)
          field += kCharacters[draw(kCharacters.size())];
        text +=
            quoted(field, draw(4) == 0) + (&field == &row.back() ? end : std::string(1, delimiter));
      }
    EXPECT_EQ(rowsOf(text, delimiter), rows) << text;
  }
}

// Breaks if any text makes the reader hang or read beyond its end.
TEST(Csv, AnyTextEnds) {
  std::mt19937 random(8);
  for (int run = 0; run < 5000; ++run) {
    std::string text(random() % 12, ' ');
    for (char &c : text)
      c = "\"\",\r\n a"[random() % 7];
    std::vector<char> exact(text.begin(), text.end()); // no byte behind it
    rowsOf({exact.data(), exact.size()});
  }
}

} // namespace
} // namespace tensmith
