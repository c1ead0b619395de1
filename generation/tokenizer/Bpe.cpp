// Pairs that are merged by rank; see TokenModel.h.
//
// A piece begins as its characters' tokens, side by side. Of all neighbours that have a merge,
// those of the lowest rank become one, the leftmost first, until none is left.
#include "generation/tokenizer/TokenModel.h"

#include "generation/unicode/Unicode.h"

#include <fmt/format.h>
#include <queue>

namespace tensmith::generation {
namespace {

using TokenPair = std::pair<Token, Token>;
struct TokenPairHash {
  size_t operator()(const TokenPair &pair) const {
    return std::hash<uint64_t>()(uint64_t(uint32_t(pair.first)) << 32 | uint32_t(pair.second));
  }
};
struct Merge {
  int32_t rank;
  Token token;
};
using Merges = std::unordered_map<TokenPair, Merge, TokenPairHash>;

/// Tokens side by side, some of which are merged.
class Row {
public:
  Row(const Merges &merges, const std::vector<Token> &tokens) : merges_(merges) {
    for (size_t i = 0; i < tokens.size(); ++i)
      symbols_.push_back({tokens[i], int(i) - 1, i + 1 < tokens.size() ? int(i) + 1 : -1});
    for (size_t i = 0; i + 1 < tokens.size(); ++i)
      offer(int(i));
    while (!waiting_.empty()) {
      Candidate best = waiting_.top();
      waiting_.pop();
      const Merge *merge = mergeAt(best.left);
      if (merge && merge->token == best.token)
        join(best.left, best.token);
    }
  }
  void append(std::vector<Token> &to) const {
    for (int at = symbols_.empty() ? -1 : 0; at >= 0; at = symbols_[size_t(at)].next)
      to.push_back(symbols_[size_t(at)].token);
  }

private:
  struct Symbol {
    Token token; // -1: it is part of the one before it
    int previous, next;
  };
  struct Candidate {
    int32_t rank;
    int left;
    Token token;
    bool operator<(const Candidate &other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  /// Of the symbol and the one behind it; null: there is none.
  const Merge *mergeAt(int left) const {
    const Symbol &symbol = symbols_[size_t(left)];
    if (symbol.token < 0 || symbol.next < 0)
      return nullptr;
    auto found = merges_.find({symbol.token, symbols_[size_t(symbol.next)].token});
    return found == merges_.end() ? nullptr : &found->second;
  }
  void offer(int left) {
    if (const Merge *merge = left < 0 ? nullptr : mergeAt(left))
      waiting_.push({merge->rank, left, merge->token});
  }
  void join(int left, Token token) {
    Symbol &symbol = symbols_[size_t(left)], &gone = symbols_[size_t(symbol.next)];
    symbol.token = token, symbol.next = gone.next;
    gone.token = -1;
    if (symbol.next >= 0)
      symbols_[size_t(symbol.next)].previous = left;
    offer(symbol.previous);
    offer(left);
  }

  const Merges &merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> waiting_;
};

class Bpe : public TokenModel {
public:
  explicit Bpe(const JsonPart &part)
      : vocabulary_(vocabularyOf(part.at("vocab"))),
        numbers_(vocabulary_.begin(), vocabulary_.end()),
        bytes_(numbers_, part.flag("byte_fallback", false)),
        prefix_(part.text("continuing_subword_prefix", "")),
        suffix_(part.text("end_of_word_suffix", "")), fuses_(part.flag("fuse_unk", false)),
        ignoresMerges_(part.flag("ignore_merges", false)) {
    if (part.real("dropout", 0) != 0)
      part.wrong("drops merges at random, which is for training and not read");
    if (part.has("unk_token"))
      unknown_ = number(part.text("unk_token"), part.at("unk_token"));
    for (const JsonPart &merge : part.list("merges"))
      addMerge(merge);
  }

  void encode(std::string_view piece, std::vector<Token> &to) const override {
    auto whole = ignoresMerges_ ? numbers_.find(std::string(piece)) : numbers_.end();
    if (whole != numbers_.end())
      to.push_back(whole->second);
    else
      Row(merges_, characterTokens(piece)).append(to);
  }
  const std::vector<std::pair<std::string, Token>> &vocabulary() const override {
    return vocabulary_;
  }
  void withhold(const std::vector<bool> &control, std::span<const Token> ends) override {
    generation::withhold(control, numbers_);
    std::erase_if(merges_, [&](const auto &each) { return control[size_t(each.second.token)]; });
    bytes_.withhold(control);
    unknown_ = unknownBeside(ends, unknown_);
  }

private:
  Token number(const std::string &name, const JsonPart &part) const {
    auto found = numbers_.find(name);
    if (found == numbers_.end())
      part.wrong("names '" + name + "', which is no token of the vocabulary");
    return found->second;
  }

  /// "a b", or ["a", "b"].
  void addMerge(const JsonPart &merge) {
    std::string left, right;
    if (merge.json().is_array()) {
      auto both = merge.parts();
      if (both.size() != 2)
        merge.wrong("is no pair");
      left = both[0].asText(), right = both[1].asText();
    } else {
      std::string text = merge.asText();
      size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        merge.wrong("is '" + text + "', which is not two tokens with a space between them");
      left = text.substr(0, space), right = text.substr(space + 1);
    }
    if (right.size() < prefix_.size())
      merge.wrong("has a second part that is shorter than the prefix of all such parts");
    Token first = number(left, merge), second = number(right, merge);
    Token both = number(left + right.substr(prefix_.size()), merge);
    merges_[{first, second}] = {int32_t(rank_++), both};
  }

  std::vector<Token> characterTokens(std::string_view piece) const {
    std::vector<Token> tokens;
    bool isUnknown = false; // the character before
    eachCharacter(piece, [&](uint32_t, std::string_view bytes) {
      bool isFirst = bytes.data() == piece.data();
      bool isLast = bytes.data() + bytes.size() == piece.data() + piece.size();
      std::string name = (isFirst ? "" : prefix_) + std::string(bytes) + (isLast ? suffix_ : "");
      auto found = numbers_.find(name);
      if (found != numbers_.end()) {
        tokens.push_back(found->second);
        isUnknown = false;
      } else if (!bytes_.append(name, tokens) && unknown_ >= 0) {
        if (!isUnknown || !fuses_)
          tokens.push_back(unknown_);
        isUnknown = true;
      }
    });
    return tokens;
  }

  std::vector<std::pair<std::string, Token>> vocabulary_;
  TokenNumbers numbers_;
  ByteTokens bytes_;
  std::string prefix_, suffix_;
  bool fuses_, ignoresMerges_;
  Token unknown_ = -1;
  int64_t rank_ = 0;
  Merges merges_;
};

} // namespace

std::unique_ptr<TokenModel> bpeOf(const JsonPart &part) { return std::make_unique<Bpe>(part); }

} // namespace tensmith::generation
