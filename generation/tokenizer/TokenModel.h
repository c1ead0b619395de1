// Models of tokens: which tokens a piece of text becomes. Pairs that are merged by rank (BPE), the
// likeliest of all ways to put the piece together (Unigram), the longest beginnings one by one
// (WordPiece), or the piece itself (WordLevel). Sources: arXiv 1508.07909, 1804.10959, 1609.08144.
#pragma once

#include "generation/Tokenizer.h"
#include "generation/tokenizer/JsonPart.h"

#include <algorithm>
#include <memory>

namespace tensmith::generation {

/// Used by any number of threads at a time.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Throws Failure where the piece has no tokens, and the model none for what it doesn't know.
  virtual void encode(std::string_view piece, std::vector<Token> &to) const = 0;
  virtual const std::vector<std::pair<std::string, Token>> &vocabulary() const = 0;
};

/// Throws Failure where it is none that is known, or not whole.
std::unique_ptr<TokenModel> tokenModelOf(const JsonPart &part);
std::unique_ptr<TokenModel> bpeOf(const JsonPart &part);
std::unique_ptr<TokenModel> unigramOf(const JsonPart &part);

/// Of {"token": number}. Throws Failure where numbers are none, or are far beyond their count.
std::vector<std::pair<std::string, Token>> vocabularyOf(const JsonPart &part);

using TokenNumbers = std::unordered_map<std::string, Token>;

/// What becomes of a character that has no token: its bytes' tokens (<0x00> to <0xFF>), where all
/// of them are there.
class ByteTokens {
public:
  /// None, unless `isOn`.
  ByteTokens(const TokenNumbers &numbers, bool isOn);
  bool append(std::string_view bytes, std::vector<Token> &to) const;

private:
  std::vector<Token> tokens_;
};

/// Names in order: those that a text begins with are found a byte at a time.
class PrefixTable {
public:
  void add(std::string name, Token token) { entries_.emplace_back(std::move(name), token); }
  /// Of equal names that of the highest number is the one. To be called before the table is asked.
  void sort();
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
