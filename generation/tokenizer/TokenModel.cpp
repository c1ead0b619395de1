// Vocabularies, words as wholes and by their beginnings; see TokenModel.h.
#include "generation/tokenizer/TokenModel.h"

#include "files/Failure.h"
#include "generation/unicode/Unicode.h"

#include <fmt/format.h>
#include <map>

namespace tensmith::generation {
namespace {

constexpr int64_t kMostGaps = 1 << 16; // numbers of tokens that no token has

/// Pieces that are tokens as they are.
class WordLevel : public TokenModel {
public:
  explicit WordLevel(const JsonPart &part)
      : vocabulary_(vocabularyOf(part.at("vocab"))),
        numbers_(vocabulary_.begin(), vocabulary_.end()), unknownName_(part.text("unk_token", "")) {
    if (auto found = numbers_.find(unknownName_); found != numbers_.end())
      unknown_ = found->second;
  }
  void encode(std::string_view piece, std::vector<Token> &to) const override {
    auto found = numbers_.find(std::string(piece));
    if (found != numbers_.end())
      to.push_back(found->second);
    else
      addUnknown(to);
  }
  const std::vector<std::pair<std::string, Token>> &vocabulary() const override {
    return vocabulary_;
  }
  void withhold(const std::vector<bool> &control, std::span<const Token> ends) override {
    generation::withhold(control, numbers_);
    unknown_ = unknownBeside(ends, unknown_);
  }

protected:
  void addUnknown(std::vector<Token> &to) const {
    if (unknown_ < 0)
      throw Failure("the tokenizer has no token '" + unknownName_ +
                    "' for what it doesn't know, or it ends texts");
    to.push_back(unknown_);
  }

  std::vector<std::pair<std::string, Token>> vocabulary_;
  TokenNumbers numbers_;

private:
  std::string unknownName_;
  Token unknown_ = -1;
};

/// The longest beginning that is a token, then the longest of the rest with a mark before it.
class WordPiece : public WordLevel {
public:
  explicit WordPiece(const JsonPart &part)
      : WordLevel(part), mark_(part.text("continuing_subword_prefix", "##")),
        most_(part.integer("max_input_chars_per_word", 100)) {}

  void encode(std::string_view piece, std::vector<Token> &to) const override {
    std::vector<size_t> ends; // of characters
    eachCharacter(piece, [&](uint32_t, std::string_view bytes) {
      ends.push_back(size_t(bytes.data() - piece.data()) + bytes.size());
    });
    size_t before = to.size();
    if (int64_t(ends.size()) <= most_ && addAll(piece, ends, to))
      return;
    to.resize(before);
    addUnknown(to);
  }

private:
  bool addAll(std::string_view piece, const std::vector<size_t> &ends,
              std::vector<Token> &to) const {
    for (size_t first = 0; first < ends.size();) {
      size_t begin = first ? ends[first - 1] : 0, last = ends.size();
      for (; last > first; --last) {
        std::string name(piece.substr(begin, ends[last - 1] - begin));
        auto found = numbers_.find(first ? mark_ + name : name);
        if (found == numbers_.end())
          continue;
        to.push_back(found->second);
        break;
      }
      if (last == first)
        return false;
      first = last;
    }
    return true;
  }

  std::string mark_;
  int64_t most_;
};

/// Files of former versions don't name the model's kind.
std::string kindOf(const JsonPart &part) {
  if (part.has("type"))
    return part.text("type");
  if (part.has("merges"))
    return "BPE";
  return part.has("unk_id")                      ? "Unigram"
         : part.has("continuing_subword_prefix") ? "WordPiece"
                                                 : "WordLevel";
}

} // namespace

std::vector<std::pair<std::string, Token>> vocabularyOf(const JsonPart &part) {
  if (!part.json().is_object())
    part.wrong("is no object of tokens and their numbers");
  std::vector<std::pair<std::string, Token>> result;
  auto most = int64_t(part.json().size()) + kMostGaps;
  for (const auto &[name, number] : part.json().items()) {
    if (!number.is_number_integer() || number < 0 || number >= most)
      part.wrong(fmt::format("has the number {} for '{}', which is none of {} tokens",
                             number.dump(), name, part.json().size()));
    result.emplace_back(name, number.get<Token>());
  }
  return result;
}

std::unique_ptr<TokenModel> tokenModelOf(const JsonPart &part) {
  std::string kind = kindOf(part);
  if (kind == "BPE")
    return bpeOf(part);
  if (kind == "Unigram")
    return unigramOf(part);
  if (kind == "WordPiece")
    return std::make_unique<WordPiece>(part);
  if (kind == "WordLevel")
    return std::make_unique<WordLevel>(part);
  part.wrong("is '" + kind + "'; BPE, Unigram, WordPiece and WordLevel are read");
}

void withhold(const std::vector<bool> &control, TokenNumbers &numbers) {
  std::erase_if(numbers, [&](const auto &each) { return control[size_t(each.second)]; });
}

Token unknownBeside(std::span<const Token> ends, Token unknown) {
  return std::ranges::find(ends, unknown) == ends.end() ? unknown : -1;
}

void ByteTokens::withhold(const std::vector<bool> &control) {
  for (Token &token : tokens_)
    if (token >= 0 && control[size_t(token)])
      token = -1;
}

ByteTokens::ByteTokens(const TokenNumbers &numbers, bool isOn) : tokens_(256, -1) {
  for (size_t byte = 0; isOn && byte < 256; ++byte)
    if (auto found = numbers.find(fmt::format("<0x{:02X}>", byte)); found != numbers.end())
      tokens_[byte] = found->second;
}

bool ByteTokens::append(std::string_view bytes, std::vector<Token> &to) const {
  auto tokenOf = [&](char byte) { return tokens_[uint8_t(byte)]; };
  if (std::ranges::any_of(bytes, [&](char byte) { return tokenOf(byte) < 0; }))
    return false;
  std::ranges::transform(bytes, std::back_inserter(to), tokenOf);
  return true;
}

void PrefixTable::sort() {
  // Bytes are compared as such, as the search does; of equal names the last is that of the highest
  // number.
  std::ranges::sort(entries_);
  std::vector<Entry> kept;
  for (Entry &entry : entries_) {
    if (entry.first.empty())
      continue;
    if (!kept.empty() && kept.back().first == entry.first)
      kept.pop_back();
    kept.push_back(std::move(entry));
  }
  entries_ = std::move(kept);
}

} // namespace tensmith::generation
