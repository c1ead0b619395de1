// The normalisers of tokenizer.json by their names; see Normalizers.h.
#include "generation/tokenizer/Normalizers.h"

#include "generation/tokenizer/Splitting.h"
#include "generation/unicode/Unicode.h"

#include <algorithm>
#include <map>

namespace tensmith::generation {
namespace {

/// Each character by what `give` appends for it.
template <typename Give> std::string mapped(const std::string &text, Give give) {
  std::string result;
  eachCharacter(text, [&](uint32_t code, std::string_view) { give(result, code); });
  return result;
}

Normalizer formNormalizer(NormalForm form) {
  return [form, &u = unicode()](std::string &text) { text = u.normalised(form, text); };
}

void lower(std::string &text) {
  text = mapped(text, [&u = unicode()](std::string &to, uint32_t code) {
    if (code == 0x130) // the one that becomes two
      to += "i\xcc\x87";
    else
      appendCharacter(to, u.lower(code));
  });
}

template <typename Keep> void keepOnly(std::string &text, Keep keep) {
  text = mapped(text, [&](std::string &to, uint32_t code) {
    if (keep(code))
      appendCharacter(to, code);
  });
}

void strip(std::string &text, bool left, bool right) {
  std::vector<std::string_view> characters;
  std::vector<bool> isSpace;
  eachCharacter(text, [&](uint32_t code, std::string_view bytes) {
    characters.push_back(bytes), isSpace.push_back(unicode().isSpace(code));
  });
  size_t begin = 0, end = characters.size();
  while (left && begin < end && isSpace[begin])
    ++begin;
  while (right && end > begin && isSpace[end - 1])
    --end;
  std::string result;
  for (size_t i = begin; i < end; ++i)
    result += characters[i];
  text = result;
}

// BERT's.

/// What has no meaning yet (Cn) is none.
bool isControl(uint32_t code) {
  std::string_view category = unicode().category(code);
  return code != '\t' && code != '\n' && code != '\r' && category[0] == 'C' && category != "Cn";
}

void clean(std::string &text) {
  text = mapped(text, [](std::string &to, uint32_t code) {
    if (code && code != 0xfffd && !isControl(code))
      appendCharacter(to, unicode().isSpace(code) ? ' ' : code);
  });
}

bool isIdeograph(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

Normalizer bertNormalizer(const JsonPart &part) {
  bool cleans = part.flag("clean_text", true), spaces = part.flag("handle_chinese_chars", true);
  bool lowers = part.flag("lowercase", true), strips = part.flag("strip_accents", lowers);
  return [=](std::string &text) {
    if (cleans)
      clean(text);
    if (spaces)
      text = mapped(text, [](std::string &to, uint32_t code) {
        to += isIdeograph(code) ? " " : "";
        appendCharacter(to, code);
        to += isIdeograph(code) ? " " : "";
      });
    if (strips) {
      text = unicode().normalised(NormalForm::D, text);
      keepOnly(text, [](uint32_t code) { return unicode().category(code) != "Mn"; });
    }
    if (lowers)
      lower(text);
  };
}

// SentencePiece's.

bool isDropped(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
         c == 0x9f;
}
bool isNmtSpace(uint32_t c) {
  return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
         (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff ||
         c == 0xfffd;
}
void nmt(std::string &text) {
  text = mapped(text, [](std::string &to, uint32_t code) {
    if (!isDropped(code))
      appendCharacter(to, isNmtSpace(code) ? ' ' : code);
  });
}

std::string decodedBase64(const JsonPart &part) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  uint32_t bits = 0, count = 0;
  for (char digit : part.asText()) {
    if (digit == '=')
      break;
    size_t value = kDigits.find(digit);
    if (value == std::string_view::npos)
      part.wrong("is no base64");
    bits = bits << 6 | uint32_t(value), count += 6;
    if (count >= 8)
      result += char(bits >> (count -= 8));
  }
  return result;
}

// The table.

Normalizer sequence(const JsonPart &part) {
  std::vector<Normalizer> all;
  for (const JsonPart &each : part.list("normalizers"))
    all.push_back(normalizerOf(each));
  return [all](std::string &text) {
    for (const Normalizer &each : all)
      each(text);
  };
}

Normalizer replace(const JsonPart &part) {
  return [find = finderOf(part.at("pattern")), by = part.text("content")](std::string &text) {
    text = replacedAll(find, text, by);
  };
}

Normalizer prepend(const JsonPart &part) {
  return [what = part.text("prepend")](std::string &text) {
    if (!text.empty())
      text = what + text;
  };
}

void byteLevel(std::string &text) {
  std::string letters;
  for (char byte : text)
    letters += letterOf(uint8_t(byte));
  text = letters;
}

using Maker = Normalizer (*)(const JsonPart &);
template <NormalForm Form> Normalizer ofForm(const JsonPart &) { return formNormalizer(Form); }
template <void (*Change)(std::string &)> Normalizer plain(const JsonPart &) { return Change; }

const std::map<std::string, Maker> &makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"NFC", ofForm<NormalForm::C>},
      {"NFD", ofForm<NormalForm::D>},
      {"NFKC", ofForm<NormalForm::KC>},
      {"NFKD", ofForm<NormalForm::KD>},
      {"Lowercase", plain<lower>},
      {"Nmt", plain<nmt>},
      {"ByteLevel", plain<byteLevel>},
      {"Sequence", sequence},
      {"Replace", replace},
      {"Prepend", prepend},
      {"BertNormalizer", bertNormalizer},
      {"StripAccents",
       [](const JsonPart &) -> Normalizer {
         return [](std::string &text) {
           keepOnly(text, [](uint32_t code) { return unicode().category(code)[0] != 'M'; });
         };
       }},
      {"Strip",
       [](const JsonPart &part) -> Normalizer {
         bool left = part.flag("strip_left", true), right = part.flag("strip_right", true);
         return [=](std::string &text) { strip(text, left, right); };
       }},
      {"Precompiled",
       [](const JsonPart &part) -> Normalizer {
         JsonPart table = part.at("precompiled_charsmap");
         return charsmapNormalizer(decodedBase64(table), table);
       }},
  };
  return kMakers;
}

} // namespace

Normalizer normalizerOf(const JsonPart &part) {
  std::string type = part.text("type");
  auto found = makers().find(type);
  if (found == makers().end())
    part.wrong("is '" + type + "', a normaliser that is not known");
  return found->second(part);
}

} // namespace tensmith::generation
