// The pre-tokenisers of tokenizer.json by their names; see PreTokenizers.h.
#include "generation/tokenizer/PreTokenizers.h"

#include "generation/unicode/Unicode.h"

#include <map>

namespace tensmith::generation {
namespace {

// GPT-2's words.
constexpr const char *kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool isSpace(uint32_t code) { return unicode().isSpace(code); }
bool isPunctuation(uint32_t code) {
  bool isAscii = (code >= 33 && code <= 47) || (code >= 58 && code <= 64) ||
                 (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
  return isAscii || unicode().category(code)[0] == 'P';
}
bool isNumber(uint32_t code) { return unicode().category(code)[0] == 'N'; }

PreTokenizer cutting(Finder find, Behaviour behaviour, bool isInverted = false) {
  return [find = std::move(find), behaviour, isInverted](std::vector<TextPiece> &pieces) {
    cut(pieces, find, behaviour, isInverted);
  };
}

PreTokenizer byteLevel(const JsonPart &part) {
  bool prepends = part.flag("add_prefix_space", true);
  Finder find;
  if (part.flag("use_regex", true))
    find = finderOfExpression(kWords, part);
  return [prepends, find](std::vector<TextPiece> &pieces) {
    for (TextPiece &piece : pieces)
      if (prepends && !piece.text.starts_with(' '))
        piece.text = " " + piece.text;
    if (find)
      cut(pieces, find, Behaviour::Isolated);
    for (TextPiece &piece : pieces) {
      std::string letters;
      for (char byte : piece.text)
        letters += letterOf(uint8_t(byte));
      piece.text = letters;
    }
  };
}

PreTokenizer metaspace(const JsonPart &part) {
  std::string mark;
  appendCharacter(mark, part.character("replacement"));
  Prepending prepending = prependingOf(part);
  bool splits = part.flag("split", true);
  Finder space = finderOfCharacters([](uint32_t code) { return code == ' '; });
  Finder find =
      finderOfCharacters([code = readCharacter(mark).code](uint32_t c) { return c == code; });
  return [=](std::vector<TextPiece> &pieces) {
    for (TextPiece &piece : pieces) {
      piece.text = replacedAll(space, piece.text, mark);
      bool wants =
          prepending == Prepending::Always || (prepending == Prepending::First && piece.isFirst);
      if (wants && !piece.text.starts_with(mark))
        piece.text = mark + piece.text;
    }
    if (splits)
      cut(pieces, find, Behaviour::MergedWithNext);
  };
}

PreTokenizer bert(const JsonPart &) {
  return [](std::vector<TextPiece> &pieces) {
    cut(pieces, finderOfCharacters(isSpace), Behaviour::Removed);
    cut(pieces, finderOfCharacters(isPunctuation), Behaviour::Isolated);
  };
}

PreTokenizer split(const JsonPart &part) {
  return cutting(finderOf(part.at("pattern")), behaviourOf(part.at("behavior")),
                 part.flag("invert", false));
}

PreTokenizer sequence(const JsonPart &part) {
  std::vector<PreTokenizer> all;
  for (const JsonPart &each : part.list("pretokenizers"))
    all.push_back(preTokenizerOf(each));
  return [all](std::vector<TextPiece> &pieces) {
    for (const PreTokenizer &each : all)
      each(pieces);
  };
}

/// Where one script follows another. Kana and ideographs are one; spaces, and what has no script,
/// belong to what is before them, and to nothing at the beginning.
PreTokenizer scripts(const JsonPart &) {
  const Unicode &u = unicode();
  int han = u.scriptNamed("Han"), hiragana = u.scriptNamed("Hiragana");
  int katakana = u.scriptNamed("Katakana"), unknown = u.scriptNamed("Unknown");
  Finder find = [=, &u](std::string_view text) {
    std::vector<Span> spans;
    int last = -1;
    eachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      auto at = size_t(bytes.data() - text.data());
      int script = code == 0x30fc ? han : u.script(code);
      script = script == hiragana || script == katakana ? han : script;
      bool isAny = code == ' ' || script == unknown;
      if (!isAny && script != last)
        spans.push_back({at, at, false});
      if (!spans.empty())
        spans.back().end = at + bytes.size();
      last = isAny ? last : script;
    });
    return spans;
  };
  return cutting(find, Behaviour::Isolated);
}

PreTokenizer fixedLength(const JsonPart &part) {
  int64_t length = part.integer("length", 5);
  if (length < 1)
    part.at("length").wrong("is below 1");
  return cutting(
      [length](std::string_view text) {
        std::vector<Span> spans;
        int64_t count = 0;
        eachCharacter(text, [&](uint32_t, std::string_view bytes) {
          auto at = size_t(bytes.data() - text.data());
          if (count++ % length == 0)
            spans.push_back({at, at, false});
          spans.back().end = at + bytes.size();
        });
        return spans;
      },
      Behaviour::Isolated);
}

using Maker = PreTokenizer (*)(const JsonPart &);

const std::map<std::string, Maker> &makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"ByteLevel", byteLevel},
      {"Metaspace", metaspace},
      {"BertPreTokenizer", bert},
      {"Split", split},
      {"Sequence", sequence},
      {"UnicodeScripts", scripts},
      {"FixedLength", fixedLength},
      {"Whitespace",
       [](const JsonPart &part) {
         // Here those that join letters are of words.
         const char *words = R"([\w\x{200c}\x{200d}]+|[^\w\x{200c}\x{200d}\s]+)";
         return cutting(finderOfExpression(words, part), Behaviour::Removed, true);
       }},
      {"WhitespaceSplit",
       [](const JsonPart &) { return cutting(finderOfCharacters(isSpace), Behaviour::Removed); }},
      {"CharDelimiterSplit",
       [](const JsonPart &part) {
         uint32_t delimiter = part.character("delimiter");
         return cutting(finderOfCharacters([=](uint32_t code) { return code == delimiter; }),
                        Behaviour::Removed);
       }},
      {"Punctuation",
       [](const JsonPart &part) {
         Behaviour behaviour =
             part.has("behavior") ? behaviourOf(part.at("behavior")) : Behaviour::Isolated;
         return cutting(finderOfCharacters(isPunctuation), behaviour);
       }},
      {"Digits",
       [](const JsonPart &part) {
         bool isEach = part.flag("individual_digits", false);
         return cutting(finderOfCharacters(isNumber),
                        isEach ? Behaviour::Isolated : Behaviour::Contiguous);
       }},
  };
  return kMakers;
}

} // namespace

Prepending prependingOf(const JsonPart &part) {
  if (!part.has("prepend_scheme"))
    return part.flag("add_prefix_space", true) ? Prepending::Always : Prepending::Never;
  std::string scheme = part.text("prepend_scheme");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    part.at("prepend_scheme").wrong("is '" + scheme + "', none of always, first and never");
  return scheme == "always"  ? Prepending::Always
         : scheme == "first" ? Prepending::First
                             : Prepending::Never;
}

PreTokenizer preTokenizerOf(const JsonPart &part) {
  std::string type = part.text("type");
  auto found = makers().find(type);
  if (found == makers().end())
    part.wrong("is '" + type + "', a pre-tokeniser that is not known");
  return found->second(part);
}

} // namespace tensmith::generation
