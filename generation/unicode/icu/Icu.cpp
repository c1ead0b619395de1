// Unicode by ICU; see Unicode.h.
//
// Patterns are written for Oniguruma with Ruby's syntax, as Rust's crate has it. ICU's differs in
// few places, which are rewritten (`rewritten`). Its matcher has bounds of its own for steps and
// memory, so that a pattern from outside can't take a program's time.
#include "generation/unicode/Unicode.h"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <array>

namespace tensmith::generation {
namespace {

// In ICU's units, each of which is 10,000 steps: some seconds. A megabyte of text takes some
// hundreds of them.
constexpr int32_t kMostSteps = 10'000;

/// Ours of what ICU can't do.
std::string refused(std::string_view source) {
  for (size_t end = source.find("}+"); end != std::string_view::npos;
       end = source.find("}+", end + 1)) {
    size_t begin = source.rfind('{', end);
    bool isCount = begin != std::string_view::npos && begin + 1 < end &&
                   source.substr(begin + 1, end - begin - 1).find_first_not_of("0123456789,") ==
                       std::string_view::npos;
    if (isCount)
      return "'}+' behind a count repeats that here, and is not read";
  }
  return "";
}

/// What Oniguruma means by its classes, inside a set and outside: there Latin-1's fractions and
/// powers are of words, too. ICU's words have those that join (U+200C, U+200D) besides.
std::string classOf(char letter, bool isInSet) {
  static const std::string kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  std::string more = isInSet ? "]" : "\\u00b2\\u00b3\\u00b9\\u00bc-\\u00be]";
  switch (letter) {
  case 's':
    return "\\p{White_Space}";
  case 'S':
    return "\\P{White_Space}";
  case 'w':
    return "[" + kWord + more;
  case 'W':
    return "[^" + kWord + more;
  case 'b':
  case 'B': // where a word begins or ends, or doesn't
    if (!isInSet) {
      std::string word = classOf('w', false), other = letter == 'b' ? "!" : "=";
      std::string same = letter == 'b' ? "=" : "!";
      return "(?:(?<=" + word + ")(?" + other + word + ")|(?<!" + word + ")(?" + same + word + "))";
    }
    return {'\\', letter};
  case 'h':
    return "[0-9a-fA-F]";
  case 'H':
    return "[^0-9a-fA-F]";
  default:
    return {'\\', letter};
  }
}

/// [:alpha:] and so on, within a set.
std::string namedClass(std::string_view name) {
  if (name == "[:punct:]")
    return "[\\p{P}\\p{S}]";
  if (name == "[:^punct:]")
    return "[^\\p{P}\\p{S}]";
  bool isWord = name == "[:word:]";
  return isWord || name == "[:^word:]" ? classOf(isWord ? 'w' : 'W', true) : std::string(name);
}

/// In ICU's syntax.
std::string rewritten(std::string_view source) {
  std::string result;
  int depth = 0; // of sets
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\\' && at + 1 < source.size()) {
      result += classOf(source[++at], depth > 0);
      continue;
    }
    bool isNamed = depth > 0 && source.substr(at, 2) == "[:";
    if (size_t end = isNamed ? source.find(":]", at) : std::string_view::npos;
        end != std::string_view::npos) {
      result += namedClass(source.substr(at, end + 2 - at));
      at = end + 1;
      continue;
    }
    if (!depth && source.substr(at, 2) == "(?") { // Ruby's m lets a point be a newline, too
      size_t end = source.find_first_not_of("imx-", at + 2);
      for (; at < end && at < source.size(); ++at)
        result += source[at] == 'm' ? 's' : source[at];
      --at;
      continue;
    }
    depth += source[at] == '[' ? 1 : source[at] == ']' && depth > 0 ? -1 : 0;
    result += source[at];
  }
  return result;
}

class OpenText {
public:
  explicit OpenText(std::string_view text, UErrorCode &status) {
    utext_openUTF8(&text_, text.data(), int64_t(text.size()), &status);
  }
  ~OpenText() { utext_close(&text_); }
  OpenText(const OpenText &) = delete;
  OpenText &operator=(const OpenText &) = delete;
  UText *get() { return &text_; }

private:
  UText text_ = UTEXT_INITIALIZER;
};

class IcuPattern : public UnicodePattern {
public:
  explicit IcuPattern(std::unique_ptr<icu::RegexPattern> pattern) : pattern_(std::move(pattern)) {}

  bool matches(std::string_view text, std::vector<std::pair<size_t, size_t>> &to,
               std::string &failure) const override {
    UErrorCode status = U_ZERO_ERROR;
    OpenText opened(text, status);
    std::unique_ptr<icu::RegexMatcher> matcher(pattern_->matcher(status));
    if (U_SUCCESS(status)) {
      matcher->setTimeLimit(kMostSteps, status);
      matcher->reset(opened.get());
      while (matcher->find(status) && U_SUCCESS(status)) {
        auto begin = matcher->start64(status), end = matcher->end64(status);
        // As Oniguruma's crate, none of no length where the last one ended.
        bool isNew = end > begin || to.empty() || size_t(end) != to.back().second;
        if (U_SUCCESS(status) && isNew)
          to.emplace_back(size_t(begin), size_t(end));
      }
    }
    if (U_FAILURE(status))
      failure = u_errorName(status);
    return U_SUCCESS(status);
  }

private:
  std::unique_ptr<icu::RegexPattern> pattern_;
};

const icu::Normalizer2 *formOf(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  switch (form) {
  case NormalForm::C:
    return icu::Normalizer2::getNFCInstance(status);
  case NormalForm::D:
    return icu::Normalizer2::getNFDInstance(status);
  case NormalForm::KC:
    return icu::Normalizer2::getNFKCInstance(status);
  case NormalForm::KD:
    return icu::Normalizer2::getNFKDInstance(status);
  }
  return nullptr;
}

class Icu : public Unicode {
public:
  std::string_view category(uint32_t code) const override {
    // In the order of UCharCategory.
    static constexpr std::array<std::string_view, U_CHAR_CATEGORY_COUNT> kNames = {
        "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp",
        "Cc", "Cf", "Co", "Cs", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"};
    return kNames[size_t(u_charType(UChar32(code)))];
  }
  bool isSpace(uint32_t code) const override { return u_isUWhiteSpace(UChar32(code)); }
  uint32_t lower(uint32_t code) const override { return uint32_t(u_tolower(UChar32(code))); }
  int script(uint32_t code) const override {
    UErrorCode status = U_ZERO_ERROR;
    return uscript_getScript(UChar32(code), &status);
  }
  int scriptNamed(const char *name) const override {
    return u_getPropertyValueEnum(UCHAR_SCRIPT, name);
  }
  std::string normalised(NormalForm form, std::string_view text) const override {
    UErrorCode status = U_ZERO_ERROR;
    std::string result;
    icu::StringByteSink<std::string> sink(&result);
    formOf(form)->normalizeUTF8(0, icu::StringPiece(text.data(), int32_t(text.size())), sink,
                                nullptr, status);
    return result;
  }
  std::vector<size_t> clusterEnds(std::string_view text) const override {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<icu::BreakIterator> breaks(
        icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    OpenText opened(text, status);
    std::vector<size_t> ends;
    if (U_FAILURE(status))
      return ends;
    breaks->setText(opened.get(), status);
    breaks->first();
    for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next())
      ends.push_back(size_t(end));
    return ends;
  }
  std::unique_ptr<UnicodePattern> pattern(std::string_view source,
                                          std::string &failure) const override {
    failure = refused(source);
    if (!failure.empty())
      return nullptr;
    UErrorCode status = U_ZERO_ERROR;
    UParseError place{};
    auto text = icu::UnicodeString::fromUTF8(rewritten(source));
    std::unique_ptr<icu::RegexPattern> compiled(
        icu::RegexPattern::compile(text, UREGEX_MULTILINE | UREGEX_UNIX_LINES, place, status));
    if (U_SUCCESS(status))
      return std::make_unique<IcuPattern>(std::move(compiled));
    failure = std::string(u_errorName(status)) + " at character " + std::to_string(place.offset);
    return nullptr;
  }
};

} // namespace

extern "C" __attribute__((visibility("default"))) const Unicode *tensmith_unicode_1() {
  static const Icu kIcu;
  for (NormalForm form : {NormalForm::C, NormalForm::D, NormalForm::KC, NormalForm::KD})
    if (!formOf(form))
      return nullptr;
  return &kIcu;
}

} // namespace tensmith::generation
