// A state machine over the bytes of the text; see Csv.h.
//
// Quotes stand at the beginning and the end of a field or not at all: text that others would guess
// at is refused, since a guess may shift columns without a word.
#include "files/Csv.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

namespace tensmith {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr const char *kBrokenQuotes =
    "a quote (\") is not closed, or stands within a field; a field that has quotes, commas or line "
    "breaks in it is quoted as a whole, and its own quotes are written twice";

class Reader {
public:
  Reader(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {
    if (text_.starts_with(kByteOrderMark))
      text_.remove_prefix(kByteOrderMark.size());
  }

  bool atEnd() const { return at_ == text_.size(); }

  /// Skips a blank line, or blanks at the end of the text.
  bool skipBlankLine() {
    size_t begin = at_;
    skipBlanks();
    if (atEnd() || endsLine())
      return true;
    at_ = begin;
    return false;
  }

  /// The fields up to the end of the row, or false where quotes are broken.
  bool read(CsvRow &row) {
    row.clear();
    do {
      std::string &field = row.emplace_back();
      skipBlanks();
      if (!(isNext('"') ? readQuoted(field) : readPlain(field)))
        return false;
      skipBlanks();
    } while (skip(delimiter_));
    return atEnd() || endsLine();
  }

private:
  bool isNext(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool skip(char c) { return isNext(c) && ++at_; }

  bool isBlank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }
  void skipBlanks() {
    while (!atEnd() && isBlank(text_[at_]))
      ++at_;
  }

  bool endsLine() {
    bool returns = skip('\r');
    return skip('\n') || returns;
  }

  bool readPlain(std::string &field) {
    const char ends[] = {delimiter_, '\r', '\n', '"', '\0'};
    size_t end = std::min(text_.find_first_of(std::string_view(ends, 4), at_), text_.size());
    std::string_view content = text_.substr(at_, end - at_);
    at_ = end;
    while (!content.empty() && isBlank(content.back()))
      content.remove_suffix(1);
    field.assign(content);
    return !isNext('"');
  }

  /// What follows the closing quote has to end the field, or the caller refuses it.
  bool readQuoted(std::string &field) {
    for (++at_;;) {
      size_t quote = text_.find('"', at_);
      if (quote == text_.npos)
        return false;
      field.append(text_.substr(at_, quote - at_));
      at_ = quote + 1;
      if (!skip('"'))
        return true;
      field.push_back('"');
    }
  }

  std::string_view text_;
  char delimiter_;
  size_t at_ = 0;
};

} // namespace

std::string readCsv(std::string_view text, char delimiter,
                    const std::function<bool(CsvRow &)> &take) {
  Reader reader(text, delimiter);
  CsvRow row;
  for (int64_t count = 0; !reader.atEnd();) {
    if (reader.skipBlankLine())
      continue;
    if (!reader.read(row))
      return (count ? fmt::format("row {}: ", count) : "the heading: ") + kBrokenQuotes;
    if (!take(row))
      break;
    ++count;
  }
  return "";
}

} // namespace tensmith
