// Tokens by merging pairs; see Tokenizer.h.
#include "generation/Tokenizer.h"

#include "files/Failure.h"
#include "generation/tokenizer/FilePipeline.h"
#include "generation/tokenizer/Pipeline.h"
#include "generation/unicode/Unicode.h"

#include <algorithm>
#include <fmt/format.h>
#include <queue>

namespace tensmith::generation {
namespace {

/// tokenizer.ggml.token_type.
enum TokenKind : uint8_t { Normal = 1, Unknown, Control, Users, Unused, Byte };

constexpr WordPattern kGpt2{};
constexpr WordPattern kLlama3{
    .ignoresCase = true, .letterPrefix = true, .mostDigits = 3, .newlinesApart = true};
constexpr WordPattern kQwen2{
    .ignoresCase = true, .letterPrefix = true, .mostDigits = 1, .newlinesApart = true};

// What others cut by, as the models publish it.
#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SIGNS_AND_SPACES " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OTHER "[^\\r\\n\\p{L}\\p{N}]?"
#define SHORTENED "('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"

/// How words are cut by the name of it (tokenizer.ggml.pre): by code, or by expressions in turn.
struct WordCut {
  std::vector<std::string_view> names;
  const WordPattern *pattern = nullptr;
  std::vector<std::string> expressions = {};
  bool takesWholeWords = false;
};
const std::vector<WordCut> &wordCuts() {
  static const std::vector<WordCut> kCuts = {
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais"}, &kGpt2},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"}, &kLlama3, {}, true},
      {{"dbrx", "smaug-bpe"}, &kLlama3},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2"}, &kQwen2},
      {{"tekken"},
       nullptr,
       {OTHER UPPER "*" LOWER "+|" OTHER UPPER "+" LOWER "*|\\p{N}|" SIGNS_AND_SPACES},
       true},
      {{"gpt-4o", "llama4"},
       nullptr,
       {OTHER UPPER "*" LOWER "+" SHORTENED "|" OTHER UPPER "+" LOWER "*" SHORTENED
                    "|\\p{N}{1,3}|" SIGNS_AND_SPACES}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone"},
       nullptr,
       {"\\p{N}", GPT2_WORDS "|\\s+"}},
      {{"falcon"}, nullptr, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2_WORDS, "[0-9][0-9][0-9]"}},
      {{"default"},
       nullptr,
       {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
  };
  return kCuts;
}

const WordCut &wordCutOf(const GgufFile &file) {
  std::string pre = file.text("tokenizer.ggml.pre", "default"), known;
  for (const WordCut &cut : wordCuts()) {
    if (std::ranges::find(cut.names, pre) != cut.names.end())
      return cut;
    for (std::string_view name : cut.names)
      known += (known.empty() ? "" : ", ") + std::string(name);
  }
  fail(file.name(), "cuts words by '" + pre + "'; known are " + known);
}

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581, which SentencePiece has for a space

size_t characterLength(char first) {
  auto byte = uint8_t(first);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Pieces of a text side by side, neighbours of which are merged, the best pair first and of equal
/// ones the leftmost.
class Merging {
public:
  /// A higher `value` is merged first; nothing: the pair is not merged.
  template <typename ValueOf> Merging(std::vector<std::string_view> pieces, ValueOf valueOf) {
    size_t count = pieces.size();
    for (size_t i = 0; i < count; ++i)
      pieces_.push_back({pieces[i], int(i) - 1, i + 1 < count ? int(i) + 1 : -1});
    auto offer = [&](int left) {
      int right = left < 0 ? -1 : pieces_[size_t(left)].next;
      if (right < 0)
        return;
      std::string_view a = pieces_[size_t(left)].text, b = pieces_[size_t(right)].text;
      if (auto value = valueOf(a, b))
        pairs_.push({*value, left, right, a.size() + b.size()});
    };
    for (size_t i = 0; i < count; ++i)
      offer(int(i));
    while (!pairs_.empty()) {
      Pair pair = pairs_.top();
      pairs_.pop();
      Piece &left = pieces_[size_t(pair.left)], &right = pieces_[size_t(pair.right)];
      if (left.text.empty() || right.text.empty() || left.next != pair.right ||
          left.text.size() + right.text.size() != pair.length)
        continue;
      left.text = {left.text.data(), pair.length};
      left.next = right.next;
      right.text = {};
      if (left.next >= 0)
        pieces_[size_t(left.next)].previous = pair.left;
      offer(left.previous);
      offer(pair.left);
    }
  }

  template <typename Visit> void each(Visit visit) const {
    for (int at = pieces_.empty() ? -1 : 0; at >= 0; at = pieces_[size_t(at)].next)
      visit(pieces_[size_t(at)].text);
  }

private:
  struct Piece {
    std::string_view text;
    int previous, next;
  };
  struct Pair {
    double value;
    int left, right;
    size_t length; // of both, when they were offered
    bool operator<(const Pair &other) const {
      return value != other.value ? value < other.value : left > other.left;
    }
  };
  std::vector<Piece> pieces_;
  std::priority_queue<Pair> pairs_;
};

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min(characterLength(text[at]), text.size() - at);
    result.push_back(text.substr(at, length));
    at += length;
  }
  return result;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    bool is = text.substr(at, from.size()) == from;
    result += is ? to : text.substr(at, 1);
    at += is ? from.size() : 1;
  }
  return result;
}

} // namespace

void Tokenizer::readRanks(const GgufFile &file) {
  const WordCut &cut = wordCutOf(file);
  pattern_ = cut.pattern, takesWholeWords_ = cut.takesWholeWords;
  int rank = 0;
  for (const std::string &pair : file.texts("tokenizer.ggml.merges"))
    ranks_.try_emplace(pair, rank++);
}

void Tokenizer::readPairs(const GgufFile &file) {
  texts_ = file.texts("tokenizer.ggml.tokens");
  for (double score : file.reals("tokenizer.ggml.scores"))
    scores_.push_back(float(score));
  for (int64_t kind : file.integers("tokenizer.ggml.token_type"))
    kinds_.push_back(uint8_t(kind));
  scores_.resize(texts_.size());
  kinds_.resize(texts_.size(), Normal);
  for (size_t i = 0; i < texts_.size(); ++i)
    tokens_.try_emplace(texts_[i], Token(i));
  if (!byScore_)
    readRanks(file);
  bytes_.assign(256, -1);
  for (int byte = 0; byScore_ && byte < 256; ++byte)
    if (auto found = tokens_.find(fmt::format("<0x{:02X}>", byte)); found != tokens_.end())
      bytes_[size_t(byte)] = found->second;
  addsSpace_ = byScore_ && file.flag("tokenizer.ggml.add_space_prefix", true);
}

Tokenizer Tokenizer::of(const GgufFile &file) {
  std::string model = file.text("tokenizer.ggml.model");
  bool isUnigram = model == "t5";
  if (model != "llama" && model != "gpt2" && !isUnigram)
    fail(file.name(), "has a tokenizer '" + model + "'; gpt2, llama and t5 are read");
  size_t size = file.texts("tokenizer.ggml.tokens").size();
  if (!size || size > size_t(INT32_MAX))
    fail(file.name(), "has no tokens (tokenizer.ggml.tokens)");
  auto number = [&](const char *key) {
    int64_t id = file.integer(std::string("tokenizer.ggml.") + key, -1);
    return id >= 0 && id < int64_t(size) ? Token(id) : -1;
  };
  TokenRoles roles{number("bos_token_id"), number("unknown_token_id"), {}, false};
  roles.addsBeginning =
      roles.beginning >= 0 && file.flag("tokenizer.ggml.add_bos_token", model == "llama");
  for (const char *key : {"eos_token_id", "eot_token_id"})
    if (Token end = number(key); end >= 0)
      roles.ends.push_back(end);
  if (isUnigram)
    return of(unigramPipeline(file), std::move(roles));
  if (model == "gpt2")
    if (const WordCut &cut = wordCutOf(file); !cut.pattern)
      return of(rankPipeline(file, cut.expressions, cut.takesWholeWords), std::move(roles));
  Tokenizer t;
  t.byScore_ = model == "llama";
  t.readPairs(file);
  t.takeRoles(std::move(roles));
  return t;
}

Tokenizer Tokenizer::of(std::shared_ptr<TokenPipeline> pipeline, TokenRoles roles) {
  Tokenizer t;
  pipeline->makeControl(roles.ends);
  t.texts_ = pipeline->texts();
  for (size_t i = 0; i < t.texts_.size(); ++i) {
    t.kinds_.push_back(pipeline->isControl(Token(i)) ? Control : Normal);
    t.tokens_.try_emplace(t.texts_[i], Token(i));
  }
  t.pipeline_ = std::move(pipeline);
  t.takeRoles(std::move(roles));
  return t;
}

void Tokenizer::fill(size_t size) {
  texts_.resize(size);
  kinds_.resize(size, Unused);
}

void Tokenizer::takeRoles(TokenRoles roles) {
  beginning_ = roles.beginning, addsBeginning_ = roles.addsBeginning;
  ends_ = std::move(roles.ends);
  for (const char *end : {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"})
    if (auto found = tokens_.find(end);
        found != tokens_.end() && kinds_[size_t(found->second)] == Control)
      ends_.push_back(found->second);
  // Whatever the file says: else a text from outside could end a turn.
  for (Token end : ends_)
    if (size_t(end) < kinds_.size())
      kinds_[size_t(end)] = Control;
  unknown_ = unknownBeside(ends_, roles.unknown);
  for (Token &byte : bytes_)
    if (byte >= 0 && kinds_[size_t(byte)] == Control)
      byte = -1;
  addControl();
}

/// The token that a piece of a text is. None is a control token, or what stands for the unknown, be
/// it that its name is put together of smaller pieces.
std::optional<Token> Tokenizer::tokenOfText(const std::string &piece) const {
  auto found = tokens_.find(piece);
  if (found == tokens_.end())
    return std::nullopt;
  uint8_t kind = kinds_[size_t(found->second)];
  return kind == Control || kind == Unknown ? std::nullopt : std::optional(found->second);
}

void Tokenizer::addControl() {
  for (size_t i = 0; i < texts_.size(); ++i) {
    longest_ = std::max(longest_, texts_[i].size());
    if (kinds_[i] == Control)
      controls_.push_back(Token(i));
    if ((kinds_[i] == Control || kinds_[i] == Users) && !texts_[i].empty())
      specialSizes_[uint8_t(texts_[i][0])].insert(texts_[i].size());
  }
}

/// The token of such a kind whose name stands at the text's beginning, the longest; -1: none.
Token Tokenizer::specialAt(std::string_view text, bool users, bool control) const {
  for (size_t size : specialSizes_[uint8_t(text[0])]) {
    auto found =
        size <= text.size() ? tokens_.find(std::string(text.substr(0, size))) : tokens_.end();
    if (found == tokens_.end())
      continue;
    uint8_t kind = kinds_[size_t(found->second)];
    bool isParted = text.substr(size).starts_with(kPart);
    if ((kind == Control && control && !isParted) || (kind == Users && users))
      return found->second;
  }
  return -1;
}

/// Whether a control token's name begins there, be it that what follows the text ends it.
bool Tokenizer::mayBeControl(std::string_view rest) const {
  if (specialAt(rest, /*users=*/false, /*control=*/true) >= 0)
    return true;
  const auto &sizes = specialSizes_[uint8_t(rest[0])];
  return !sizes.empty() && rest.size() < *sizes.begin() &&
         std::ranges::any_of(controls_, [&](Token t) { return text(t).starts_with(rest); });
}

std::string Tokenizer::parted(std::string_view given) const {
  std::string text = replaced(given, kPart, ""), result;
  for (std::string_view rest = text; !rest.empty();) {
    size_t length = std::min(characterLength(rest[0]), rest.size());
    result += rest.substr(0, length);
    if (mayBeControl(rest) || (pipeline_ && pipeline_->mayBecomeControl(rest.substr(0, length))))
      result += kPart;
    rest.remove_prefix(length);
  }
  return result;
}

const std::string &Tokenizer::usedText(Token token) const {
  static const std::string kNone;
  bool isUsed = size_t(token) < texts_.size() && kinds_[size_t(token)] != Unused;
  return isUsed ? texts_[size_t(token)] : kNone;
}

size_t Tokenizer::used() const {
  size_t count = texts_.size();
  while (count && usedText(Token(count - 1)).empty())
    --count;
  return count;
}

bool Tokenizer::ends(Token token) const { return std::ranges::find(ends_, token) != ends_.end(); }

std::vector<Token> Tokenizer::encode(std::string_view text, bool control, bool begins) const {
  std::vector<Token> result;
  if (pipeline_) {
    result = pipeline_->encode(text, control, begins);
    if (begins && addsBeginning_ && (result.empty() || result[0] != beginning_))
      result.insert(result.begin(), beginning_);
    return result;
  }
  if (begins && addsBeginning_)
    result.push_back(beginning_);
  bool isFirst = true;
  while (!text.empty()) {
    // The next token that is found as such.
    size_t place = 0;
    Token found = -1;
    while (place < text.size() && (found = specialAt(text.substr(place), true, control)) < 0)
      ++place;
    std::string_view plain = text.substr(0, place);
    encodeText(control ? replaced(plain, kPart, "") : std::string(plain), isFirst, result);
    isFirst = false;
    if (found < 0)
      break;
    result.push_back(found);
    text.remove_prefix(place + this->text(found).size());
    isFirst = byScore_; // a space is put before each part of the text
  }
  return result;
}

void Tokenizer::encodeText(std::string_view text, bool isFirst, std::vector<Token> &to) const {
  if (text.empty())
    return;
  if (byScore_) {
    std::string prefix = addsSpace_ && isFirst ? " " : "";
    return encodeByScore(replaced(prefix + std::string(text), " ", kSpace), to);
  }
  for (std::string_view word : words(*pattern_, text))
    encodeByRank(word, to);
}

void Tokenizer::encodeByRank(std::string_view word, std::vector<Token> &to) const {
  std::string letters;
  for (char byte : word)
    letters += letterOf(uint8_t(byte));
  if (auto whole = tokenOfText(letters); whole && (takesWholeWords_ || ranks_.empty())) {
    to.push_back(*whole);
    return;
  }
  Merging merged(
      characters(letters), [&](std::string_view a, std::string_view b) -> std::optional<double> {
        auto found = ranks_.find(std::string(a) + " " + std::string(b));
        bool merges = found != ranks_.end() && tokenOfText(std::string(a) + std::string(b));
        return merges ? std::optional<double>(-found->second) : std::nullopt;
      });
  merged.each([&](std::string_view piece) {
    if (auto found = tokenOfText(std::string(piece)))
      to.push_back(*found);
    else if (unknown_ >= 0)
      to.push_back(unknown_);
  });
}

void Tokenizer::encodeByScore(std::string_view text, std::vector<Token> &to) const {
  Merging merged(characters(text),
                 [&](std::string_view a, std::string_view b) -> std::optional<double> {
                   auto found = tokenOfText(std::string(a) + std::string(b));
                   return found ? std::optional<double>(scores_[size_t(*found)]) : std::nullopt;
                 });
  merged.each([&](std::string_view piece) {
    if (auto found = tokenOfText(std::string(piece)))
      to.push_back(*found);
    else
      addBytes(piece, to);
  });
}

void Tokenizer::addBytes(std::string_view piece, std::vector<Token> &to) const {
  bool hasAll = std::ranges::all_of(piece, [&](char c) { return bytes_[uint8_t(c)] >= 0; });
  if (hasAll)
    for (char byte : piece)
      to.push_back(bytes_[uint8_t(byte)]);
  else if (unknown_ >= 0)
    to.push_back(unknown_);
}

std::string Tokenizer::bytesOf(Token token) const {
  if (pipeline_)
    return pipeline_->bytesOf(token);
  if (token < 0 || size_t(token) >= texts_.size())
    return {};
  const std::string &piece = texts_[size_t(token)];
  uint8_t kind = kinds_[size_t(token)];
  if (kind == Control || kind == Unknown || kind == Unused)
    return {};
  if (kind == Users)
    return piece;
  if (byScore_) {
    auto byte = kind == Byte ? std::ranges::find(bytes_, token) : bytes_.end();
    return byte != bytes_.end() ? std::string(1, char(byte - bytes_.begin()))
                                : replaced(piece, kSpace, " ");
  }
  std::string result;
  for (std::string_view letter : characters(piece))
    if (int byte = byteOfLetter(readCharacter(letter).code); byte >= 0)
      result += char(byte);
  return result;
}

std::string Tokenizer::decode(const std::vector<Token> &tokens) const {
  for (Token token : tokens)
    if (token < 0 || size_t(token) >= texts_.size())
      failUsage(fmt::format("token {} is none of {}", token, texts_.size()));
  if (pipeline_)
    return pipeline_->decode(tokens);
  std::string result;
  for (Token token : tokens)
    result += bytesOf(token);
  bool hasSpace = addsSpace_ && result.starts_with(' ');
  return hasSpace ? result.substr(1) : result;
}

} // namespace tensmith::generation
