// Models of tokens: which tokens a piece of text becomes. Pairs that are merged by rank (BPE), the
// likeliest of all ways to put the piece together (Unigram), the longest beginnings one by one
// (WordPiece), or the piece itself (WordLevel). Sources: arXiv 1508.07909, 1804.10959, 1609.08144.
#pragma once

#include "generation/Tokenizer.h"
#include "generation/tokenizer/JsonPart.h"

#include <algorithm>
#include <memory>
#include <span>

namespace tensmith::generation {

/// Used by any number of threads at a time.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Throws Failure where the piece has no tokens, and the model none for what it doesn't know.
  virtual void encode(std::string_view piece, std::vector<Token> &to) const = 0;
  virtual const std::vector<std::pair<std::string, Token>> &vocabulary() const = 0;
  /// From now on no text has those tokens, by their number, that are control tokens: they are not
  /// looked up, and nothing is put together to one. What isn't known has its token all the same,
  /// unless that is one of `ends`.
  virtual void withhold(const std::vector<bool> &control, std::span<const Token> ends) = 0;
};

/// Throws Failure where it is none that is known, or not whole.
std::unique_ptr<TokenModel> tokenModelOf(const JsonPart &part);
std::unique_ptr<TokenModel> bpeOf(const JsonPart &part);
std::unique_ptr<TokenModel> unigramOf(const JsonPart &part);

/// Of {"token": number}. Throws Failure where numbers are none, or are far beyond their count.
std::vector<std::pair<std::string, Token>> vocabularyOf(const JsonPart &part);

using TokenNumbers = std::unordered_map<std::string, Token>;

void withhold(const std::vector<bool> &control, TokenNumbers &numbers);
/// None, where it is one that ends texts.
Token unknownBeside(std::span<const Token> ends, Token unknown);

/// What becomes of a character that has no token: its bytes' tokens (<0x00> to <0xFF>), where all
/// of them are there.
class ByteTokens {
public:
  /// None, unless `isOn`.
  ByteTokens(const TokenNumbers &numbers, bool isOn);
  bool append(std::string_view bytes, std::vector<Token> &to) const;
  void withhold(const std::vector<bool> &control);

private:
  std::vector<Token> tokens_;
};

/// Names in order: those that a text begins with are found a byte at a time.
class PrefixTable {
public:
  void add(std::string name, Token token) { entries_.emplace_back(std::move(name), token); }
  /// Of equal names that of the highest number is the one. To be called before the table is asked.
  void sort();
  void withhold(const std::vector<bool> &control) {
    std::erase_if(entries_, [&](const Entry &entry) { return control[size_t(entry.second)]; });
  }
  /// `visit(length, token)`, the shortest first.
  template <typename Visit> void eachPrefix(std::string_view text, Visit visit) const {
    auto from = entries_.begin(), to = entries_.end();
    for (size_t at = 0; at < text.size() && from != to; ++at) {
      auto byte = [at](const Entry &entry) { return uint8_t(entry.first[at]); };
      auto [low, high] = std::ranges::equal_range(from, to, uint8_t(text[at]), {}, byte);
      from = low, to = high;
      if (from != to && from->first.size() == at + 1)
        visit(at + 1, from->second), ++from;
    }
  }

private:
  using Entry = std::pair<std::string, Token>;
  std::vector<Entry> entries_;
};

} // namespace tensmith::generation
