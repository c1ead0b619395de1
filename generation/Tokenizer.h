// Text to the numbers of a model's tokens and back, as the model's file says: pairs that are merged
// by rank after the text was cut into words (GPT-2's byte-level BPE), or by score over the whole
// text, with bytes for what has no token (SentencePiece's BPE); or by the steps of a tokenizer.json
// (tokenizer/Pipeline.h), which SentencePiece's Unigram in a GGUF file is read as, too. Sources:
// arXiv 1508.07909, 1808.06226; GGUF's tokenizer.ggml keys.
//
// Tokens that are no text (control) are found in a text only where the caller asks for it: else a
// prompt from outside could end a turn of a conversation.
#pragma once

#include "files/Gguf.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tensmith::generation {

using Token = int32_t;

/// U+FDD0, which is no character and means what a program wants: here, that a name is none.
inline constexpr std::string_view kPart = "\xef\xb7\x90";

/// How a text is cut into words, in which alone pairs are merged.
struct WordPattern {
  bool ignoresCase = false;   // of contractions: 'S as 's
  bool letterPrefix = false;  // any one character that is no letter, number or newline may begin a
                              // word of letters, and not a space alone
  int mostDigits = 0;         // of a word of digits, which has no space before it; 0: GPT-2's
  bool newlinesApart = false; // newlines end a word of spaces or signs
};

/// The words, in order; together they are the text.
std::vector<std::string_view> words(const WordPattern &pattern, std::string_view text);

class TokenPipeline;

/// What a model's files say of its tokens beside how they are made.
struct TokenRoles {
  Token beginning = -1, unknown = -1;
  std::vector<Token> ends;
  bool addsBeginning = false; // to texts that begin, where it is not there already
};

class Tokenizer {
public:
  /// Throws Failure where the file has no tokenizer, or one that is not known.
  static Tokenizer of(const GgufFile &file);
  static Tokenizer of(std::shared_ptr<TokenPipeline> pipeline, TokenRoles roles);
  /// Of so many tokens: those that are missing are none of any text.
  void fill(size_t size);

  /// `control`: tokens that are no text are found by their names, unless those are parted. With the
  /// beginning's token where the model has one, if `begins`.
  std::vector<Token> encode(std::string_view text, bool control, bool begins) const;
  /// The bytes that a token stands for; none of control tokens. They may end in the middle of a
  /// character.
  std::string bytesOf(Token token) const;
  std::string decode(const std::vector<Token> &tokens) const;

  /// The text with a part mark in each name of a control token, behind its first character, which
  /// `encode` takes for text then. Marks that were there are gone.
  std::string parted(std::string_view text) const;

  size_t size() const { return texts_.size(); }
  /// One past the last token that may be of a text: what follows fills the embeddings up.
  size_t used() const;
  /// The model's text of it, "" where there is none, or of one that only fills.
  const std::string &usedText(Token token) const;
  bool ends(Token token) const;
  Token beginning() const { return beginning_; } // -1: none
  Token ending() const { return ends_.empty() ? -1 : ends_[0]; }
  /// Bytes of a text that one token stands for, at most.
  size_t longest() const { return longest_; }
  /// What the model's text of it is: "<|im_end|>".
  const std::string &text(Token token) const { return texts_[size_t(token)]; }

private:
  void readPairs(const GgufFile &file);
  void readRanks(const GgufFile &file);
  void takeRoles(TokenRoles roles);
  void addControl();
  std::optional<Token> tokenOfText(const std::string &piece) const;
  Token specialAt(std::string_view text, bool users, bool control) const;
  bool mayBeControl(std::string_view rest) const;
  void encodeText(std::string_view text, bool isFirst, std::vector<Token> &to) const;
  void encodeByRank(std::string_view word, std::vector<Token> &to) const;
  void encodeByScore(std::string_view text, std::vector<Token> &to) const;
  void addBytes(std::string_view piece, std::vector<Token> &to) const;

  bool byScore_ = false, addsSpace_ = false, addsBeginning_ = false;
  bool takesWholeWords_ = false; // a word that is a token is one, whatever is merged
  const WordPattern *pattern_ = nullptr;
  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::vector<uint8_t> kinds_;
  std::unordered_map<std::string, Token> tokens_;
  std::unordered_map<std::string, int> ranks_; // of pairs, joined by a space
  /// Of control tokens and the user's, by their first byte: how long their names are.
  std::array<std::set<size_t, std::greater<>>, 256> specialSizes_;
  std::vector<Token> controls_;
  size_t longest_ = 0;
  std::vector<Token> bytes_; // of SentencePiece: of each byte, -1: none
  Token beginning_ = -1, unknown_ = -1;
  std::vector<Token> ends_;
  std::shared_ptr<const TokenPipeline> pipeline_; // does all of it, where there is one
};

} // namespace tensmith::generation
