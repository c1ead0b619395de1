// Reference evaluation of operators on strings: concatenation, splitting, cleaning.
//
// Strings are bytes; where their letters matter they are UTF-8, and bytes that are none are kept as
// they are. Cases are changed letter by letter with the C library's table of Unicode.
#include "reference/Text.h"

#include <clocale>
#include <cwctype>
#include <unordered_set>

namespace tensmith::reference {

const HostTensor &stringOperand(Workspace &workspace, size_t index, std::string_view name) {
  const HostTensor &x = workspace.anyOperand(index, name);
  workspace.require(!workspace.ok() || x.type() == DataType::String, name, "must be strings");
  return x;
}

namespace {

// ---- constants

Outcome evaluateStringConstant(const Invocation &invocation) {
  Workspace workspace(invocation);
  auto values = invocation.attributes.get<std::vector<std::string>>("values");
  Shape shape{int64_t(values.size())};
  if (!invocation.results.empty() && invocation.results[0].shape)
    shape = *invocation.results[0].shape;
  if (elementCount(shape) != int64_t(values.size()))
    workspace.rejectAttribute("values", "are not as many as the shape has elements");
  if (!workspace.ok())
    return workspace.status();
  return workspace.finish(HostTensor::ofStrings(std::move(shape), std::move(values)));
}

// ---- string_concat

Outcome evaluateStringConcat(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &a = stringOperand(workspace, 0, "a"), &b = stringOperand(workspace, 1, "b");
  if (!workspace.ok())
    return workspace.status();
  Shape shape(std::max(a.shape().size(), b.shape().size()), 1);
  for (const HostTensor *x : {&a, &b})
    for (size_t i = 0; i < x->shape().size(); ++i)
      if (int64_t size = x->shape()[x->shape().size() - 1 - i]; size != 1)
        shape[shape.size() - 1 - i] = size;
  auto aStrides = broadcastStrides(a.shape(), shape), bStrides = broadcastStrides(b.shape(), shape);
  workspace.require(aStrides && bStrides, "b", "can't be broadcast with a");
  HostTensor y = workspace.allocate(DataType::String, shape);
  int64_t next = 0;
  if (workspace.ok())
    forEachPosition(shape, [&](const Shape &index) {
      y.setString(next++, a.getString(dot(index, *aStrides)) + b.getString(dot(index, *bStrides)));
    });
  return workspace.finish(std::move(y));
}

// ---- string_split

using Pieces = std::vector<std::string>;

Pieces splitAtSpace(const std::string &text, int64_t most) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  Pieces pieces;
  size_t begin = text.find_first_not_of(kSpace);
  while (begin != text.npos) {
    size_t end =
        most >= 0 && int64_t(pieces.size()) >= most ? text.npos : text.find_first_of(kSpace, begin);
    pieces.push_back(text.substr(begin, end == text.npos ? end : end - begin));
    begin = end == text.npos ? end : text.find_first_not_of(kSpace, end);
  }
  return pieces;
}

Pieces splitAt(const std::string &text, const std::string &delimiter, int64_t most) {
  Pieces pieces;
  size_t begin = 0;
  while (most < 0 || int64_t(pieces.size()) < most) {
    size_t end = text.find(delimiter, begin);
    if (end == text.npos)
      break;
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + delimiter.size();
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

Outcome evaluateStringSplit(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = stringOperand(workspace, 0, "x");
  if (!workspace.ok())
    return workspace.status();
  std::string delimiter = invocation.attributes.string("delimiter");
  int64_t most = invocation.attributes.integer("maxsplit", -1);
  std::vector<Pieces> rows;
  size_t widest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    rows.push_back(delimiter.empty() ? splitAtSpace(x.getString(i), most)
                                     : splitAt(x.getString(i), delimiter, most));
    widest = std::max(widest, rows.back().size());
  }
  Shape shape = x.shape();
  shape.push_back(int64_t(widest));
  HostTensor pieces = workspace.allocate(DataType::String, shape);
  HostTensor counts = workspace.allocate(DataType::I64, x.shape());
  for (size_t i = 0; workspace.ok() && i < rows.size(); ++i) {
    counts.setInt(int64_t(i), int64_t(rows[i].size()));
    for (size_t k = 0; k < rows[i].size(); ++k)
      pieces.setString(int64_t(i * widest + k), std::move(rows[i][k]));
  }
  return workspace.finish(std::move(pieces), std::move(counts));
}

// ---- string_normalize

/// The letter at `at` and how many bytes it takes; a byte that begins no letter stands for itself.
struct Letter {
  uint32_t code;
  size_t length;
};

Letter letterAt(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return uint32_t(uint8_t(text[at + i])); };
  uint32_t first = byte(0);
  size_t length = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
  if (length == 1 || at + length > text.size())
    return {first, 1};
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80)
      return {first, 1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {code, length};
}

void appendLetter(std::string &text, uint32_t code) {
  if (code < 0x80) {
    text += char(code);
    return;
  }
  size_t extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += char(uint8_t(0xFF00u >> (extra + 1)) | code >> (6 * extra));
  while (extra-- > 0)
    text += char(0x80 | (code >> (6 * extra) & 0x3F));
}

enum class Case : uint8_t { Kept, Lower, Upper };

/// Unicode's letters, whatever locale the program runs in; ASCII's alone where it can't be had.
locale_t unicode() {
  static locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

uint32_t changed(uint32_t code, Case to) {
  if (locale_t locale = unicode())
    return to == Case::Upper ? towupper_l(code, locale) : towlower_l(code, locale);
  bool turns = to == Case::Upper ? code >= 'a' && code <= 'z' : code >= 'A' && code <= 'Z';
  return turns ? code ^ 0x20 : code;
}

std::string changeCase(const std::string &text, Case to) {
  if (to == Case::Kept)
    return text;
  std::string result;
  for (size_t at = 0; at < text.size();) {
    Letter letter = letterAt(text, at);
    if (letter.length == 1 && letter.code >= 0x80)
      result += text[at];
    else
      appendLetter(result, changed(letter.code, to));
    at += letter.length;
  }
  return result;
}

Outcome evaluateStringNormalize(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = stringOperand(workspace, 0, "x");
  workspace.require(!workspace.ok() || x.rank() == 1 || (x.rank() == 2 && x.shape()[0] == 1), "x",
                    "must have shape [n] or [1, n]");
  std::string change = invocation.attributes.string("change", "none");
  Case to = change == "upper" ? Case::Upper : change == "lower" ? Case::Lower : Case::Kept;
  Case compared = invocation.attributes.integer("case_sensitive") ? Case::Kept : Case::Lower;
  std::unordered_set<std::string> stopwords;
  if (invocation.present(1)) {
    const HostTensor &words = stringOperand(workspace, 1, "stopwords");
    for (int64_t i = 0; workspace.ok() && i < words.size(); ++i)
      stopwords.insert(changeCase(words.getString(i), compared));
  }
  if (!workspace.ok())
    return workspace.status();
  std::vector<std::string> kept;
  for (int64_t i = 0; i < x.size(); ++i)
    if (!stopwords.contains(changeCase(x.getString(i), compared)))
      kept.push_back(changeCase(x.getString(i), to));
  if (kept.empty())
    kept.emplace_back();
  Shape shape = x.shape();
  shape.back() = int64_t(kept.size());
  return workspace.finish(HostTensor::ofStrings(std::move(shape), std::move(kept)));
}

constexpr Entry kEntries[] = {{"string_constant", evaluateStringConstant},
                              {"string_concat", evaluateStringConcat},
                              {"string_split", evaluateStringSplit},
                              {"string_normalize", evaluateStringNormalize},
                              {"regex_full_match", evaluateRegexFullMatch},
                              {"count_ngrams", evaluateCountNgrams},
                              {"look_up", evaluateLookUp},
                              {"decode_image", evaluateDecodeImage}};

} // namespace

std::span<const Entry> textEntries() { return kEntries; }

} // namespace tensmith::reference
