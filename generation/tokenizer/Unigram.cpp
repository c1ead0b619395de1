// The likeliest of all ways to put a piece together of tokens; see TokenModel.h.
//
// Each token has the logarithm of its probability. The best way to each place is found from those
// to the places before it (Viterbi): linear in the piece, times the longest token.
#include "generation/tokenizer/TokenModel.h"

#include "files/Failure.h"
#include "generation/unicode/Unicode.h"

#include <cmath>
#include <limits>

namespace tensmith::generation {
namespace {

constexpr double kUnknownPenalty = 10; // below the least likely token

class Unigram : public TokenModel {
public:
  explicit Unigram(const JsonPart &part)
      : unknown_(part.integer("unk_id", -1)), least_(std::numeric_limits<double>::infinity()) {
    for (const JsonPart &entry : part.list("vocab"))
      add(entry);
    if (part.has("unk_id") && (unknown_ < 0 || unknown_ >= int64_t(scores_.size())))
      part.at("unk_id").wrong("is none of the tokens");
    table_.sort();
    bytes_ = std::make_unique<ByteTokens>(numbers_, part.flag("byte_fallback", false));
  }

  void encode(std::string_view piece, std::vector<Token> &to) const override {
    std::vector<Step> best = bestSteps(piece);
    // Backwards; unknown characters side by side are one.
    std::vector<Span> parts;
    for (size_t end = piece.size(); end > 0; end = best[end].begin) {
      Span part{best[end].begin, end, best[end].token};
      bool joins = part.token == unknown_ && !parts.empty() && parts.back().token == unknown_;
      if (joins)
        parts.back().begin = part.begin;
      else
        parts.push_back(part);
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      append(piece.substr(part->begin, part->end - part->begin), to);
  }
  const std::vector<std::pair<std::string, Token>> &vocabulary() const override {
    return vocabulary_;
  }
  void withhold(const std::vector<bool> &control, std::span<const Token> ends) override {
    generation::withhold(control, numbers_);
    table_.withhold(control);
    bytes_->withhold(control);
    unknown_ = unknownBeside(ends, Token(unknown_));
  }

private:
  struct Span {
    size_t begin, end;
    int64_t token;
  };
  struct Step { // the last one on the best way to a place
    double score = 0;
    size_t begin = std::string::npos;
    int64_t token = -1;
  };

  void add(const JsonPart &entry) {
    auto both = entry.parts();
    if (both.size() != 2)
      entry.wrong("is not a token and its score");
    auto token = Token(scores_.size());
    vocabulary_.emplace_back(both[0].asText(), token);
    scores_.push_back(both[1].asReal());
    if (!std::isfinite(scores_.back()))
      both[1].wrong("is no score");
    least_ = std::min(least_, scores_.back());
    numbers_[vocabulary_.back().first] = token;
    table_.add(vocabulary_.back().first, token);
  }

  std::vector<Step> bestSteps(std::string_view piece) const {
    std::vector<Step> best(piece.size() + 1);
    for (size_t at = 0; at < piece.size();) {
      double before = best[at].score;
      size_t length = readCharacter(piece.substr(at)).bytes;
      bool hasCharacter = false;
      auto offer = [&](size_t bytes, double score, int64_t token) {
        Step &step = best[at + bytes];
        if (step.begin == std::string::npos || before + score > step.score)
          step = {before + score, at, token};
      };
      table_.eachPrefix(piece.substr(at), [&](size_t bytes, Token token) {
        offer(bytes, scores_[size_t(token)], token);
        hasCharacter |= bytes == length;
      });
      if (!hasCharacter)
        offer(length, least_ - kUnknownPenalty, unknown_);
      at += length;
    }
    return best;
  }

  void append(std::string_view part, std::vector<Token> &to) const {
    if (auto found = numbers_.find(std::string(part)); found != numbers_.end())
      to.push_back(found->second);
    else if (!bytes_->append(part, to)) {
      if (unknown_ < 0)
        throw Failure("the tokenizer has no token for '" + std::string(part) +
                      "', and none for what it doesn't know");
      to.push_back(Token(unknown_));
    }
  }

  int64_t unknown_;
  double least_;
  std::vector<std::pair<std::string, Token>> vocabulary_;
  std::vector<double> scores_;
  TokenNumbers numbers_;
  PrefixTable table_;
  std::unique_ptr<ByteTokens> bytes_;
};

} // namespace

std::unique_ptr<TokenModel> unigramOf(const JsonPart &part) {
  return std::make_unique<Unigram>(part);
}

} // namespace tensmith::generation
