// The decoders of tokenizer.json by their names; see Decoders.h.
#include "generation/tokenizer/Decoders.h"

#include "generation/tokenizer/PreTokenizers.h"
#include "generation/unicode/Unicode.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>

namespace tensmith::generation {
namespace {

std::string joined(const std::vector<std::string> &parts) {
  std::string all;
  for (const std::string &part : parts)
    all += part;
  return all;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (from.empty())
    return text;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// Letters for bytes; a token with any other character is text as it is.
std::string bytesOfLetters(const std::string &token) {
  std::string bytes;
  bool isLetters = true;
  eachCharacter(token, [&](uint32_t code, std::string_view) {
    int byte = byteOfLetter(code);
    isLetters &= byte >= 0;
    bytes += char(byte);
  });
  return isLetters ? bytes : token;
}

void byteLevel(DecodedTokens &tokens) {
  std::string all;
  for (const std::string &token : tokens.parts)
    all += bytesOfLetters(token);
  tokens.parts = {tokens.isWhole ? validUtf8(all) : all};
}

/// "<0x0A>".
std::optional<char> namedByte(const std::string &token) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return std::nullopt;
  auto read = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return read.ptr == token.data() + 5 ? std::optional(char(value)) : std::nullopt;
}

void byteFallback(DecodedTokens &tokens) {
  std::vector<std::string> parts;
  std::string bytes;
  auto flush = [&] {
    bool isText = !tokens.isWhole || validUtf8(bytes) == bytes;
    std::string marks;
    for (size_t i = 0; !isText && i < bytes.size(); ++i)
      marks += "\xef\xbf\xbd";
    if (!bytes.empty())
      parts.push_back(isText ? bytes : marks);
    bytes.clear();
  };
  for (const std::string &token : tokens.parts) {
    if (auto byte = namedByte(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    parts.push_back(token);
  }
  flush();
  tokens.parts = std::move(parts);
}

TokenDecoder metaspace(const JsonPart &part) {
  std::string mark;
  appendCharacter(mark, part.character("replacement"));
  bool drops = prependingOf(part) != Prepending::Never;
  return [mark, drops](DecodedTokens &tokens) {
    for (size_t i = 0; i < tokens.parts.size(); ++i)
      tokens.parts[i] = replaced(tokens.parts[i], mark, drops && tokens.isWhole && !i ? "" : " ");
  };
}

/// Without the spaces that cutting at signs has put in.
std::string cleaned(std::string text) {
  constexpr std::array<std::pair<const char *, const char *>, 11> kPairs = {{{" .", "."},
                                                                             {" ?", "?"},
                                                                             {" !", "!"},
                                                                             {" ,", ","},
                                                                             {" ' ", "'"},
                                                                             {" n't", "n't"},
                                                                             {" 'm", "'m"},
                                                                             {" do not", " don't"},
                                                                             {" 's", "'s"},
                                                                             {" 've", "'ve"},
                                                                             {" 're", "'re"}}};
  for (auto [from, to] : kPairs)
    text = replaced(std::move(text), from, to);
  return text;
}

TokenDecoder wordPiece(const JsonPart &part) {
  std::string mark = part.text("prefix", "##");
  bool cleans = part.flag("cleanup", true);
  return [mark, cleans](DecodedTokens &tokens) {
    for (size_t i = 0; i < tokens.parts.size(); ++i) {
      std::string &token = tokens.parts[i];
      if (i || !tokens.isWhole)
        token = token.starts_with(mark) ? token.substr(mark.size()) : " " + token;
      if (cleans)
        token = cleaned(token);
    }
  };
}

TokenDecoder endOfWord(const JsonPart &part) {
  return [suffix = part.text("suffix", "</w>")](DecodedTokens &tokens) {
    for (size_t i = 0; i < tokens.parts.size(); ++i) {
      bool isLast = tokens.isWhole && i + 1 == tokens.parts.size();
      tokens.parts[i] = replaced(tokens.parts[i], suffix, isLast ? "" : " ");
    }
  };
}

TokenDecoder ctc(const JsonPart &part) {
  std::string pad = part.text("pad_token", "<pad>");
  std::string space = part.text("word_delimiter_token", "|");
  bool cleans = part.flag("cleanup", true);
  return [=](DecodedTokens &tokens) {
    std::vector<std::string> parts;
    const std::string *before = nullptr;
    for (const std::string &token : tokens.parts) {
      bool isRepeated = before && *before == token;
      before = &token;
      std::string text = isRepeated ? "" : replaced(token, pad, "");
      if (cleans)
        text = replaced(cleaned(text), space, " ");
      if (!text.empty())
        parts.push_back(text);
    }
    tokens.parts = std::move(parts);
  };
}

TokenDecoder replace(const JsonPart &part) {
  return [find = finderOf(part.at("pattern")), by = part.text("content")](DecodedTokens &tokens) {
    for (std::string &token : tokens.parts)
      if (tokens.isWhole || validUtf8(token) == token) // not a byte of a character
        token = replacedAll(find, token, by);
  };
}

/// As many of a character at the beginning and at the end of each part, at most.
TokenDecoder strip(const JsonPart &part) {
  std::string content;
  appendCharacter(content, part.character("content"));
  int64_t start = part.integer("start", 0), stop = part.integer("stop", 0);
  return [=](DecodedTokens &tokens) {
    if (!tokens.isWhole) // the beginning and the end are elsewhere
      return;
    for (std::string &token : tokens.parts) {
      for (int64_t i = 0; i < start && token.starts_with(content); ++i)
        token.erase(0, content.size());
      for (int64_t i = 0; i < stop && token.ends_with(content); ++i)
        token.resize(token.size() - content.size());
    }
  };
}

TokenDecoder sequence(const JsonPart &part) {
  std::vector<TokenDecoder> all;
  for (const JsonPart &each : part.list("decoders"))
    all.push_back(tokenDecoderOf(each));
  return [all](DecodedTokens &tokens) {
    for (const TokenDecoder &each : all)
      each(tokens);
  };
}

using Maker = TokenDecoder (*)(const JsonPart &);

const std::map<std::string, Maker> &makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"ByteLevel", [](const JsonPart &) -> TokenDecoder { return byteLevel; }},
      {"ByteFallback", [](const JsonPart &) -> TokenDecoder { return byteFallback; }},
      {"Fuse",
       [](const JsonPart &) -> TokenDecoder {
         return [](DecodedTokens &tokens) { tokens.parts = {joined(tokens.parts)}; };
       }},
      {"Metaspace", metaspace},
      {"WordPiece", wordPiece},
      {"BPEDecoder", endOfWord},
      {"CTC", ctc},
      {"Replace", replace},
      {"Strip", strip},
      {"Sequence", sequence},
  };
  return kMakers;
}

} // namespace

TokenDecoder tokenDecoderOf(const JsonPart &part) {
  std::string type = part.text("type");
  auto found = makers().find(type);
  if (found == makers().end())
    part.wrong("is '" + type + "', a decoder that is not known");
  return found->second(part);
}

} // namespace tensmith::generation
