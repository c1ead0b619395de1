// The steps of a tokenizer.json; see Pipeline.h.
#include "generation/tokenizer/Pipeline.h"

#include "generation/unicode/Unicode.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr size_t kMostGaps = 1 << 16; // numbers that no token has

std::vector<JsonPart> listIfThere(const JsonPart &part, const char *name) {
  return part.has(name) ? part.list(name) : std::vector<JsonPart>();
}

std::string withoutParts(std::string text) {
  for (size_t at = text.find(kPart); at != std::string::npos; at = text.find(kPart, at))
    text.erase(at, kPart.size());
  return text;
}

} // namespace

TokenPipeline::TokenPipeline(const JsonPart &file) : model_(tokenModelOf(file.at("model"))) {
  if (auto part = file.find("normalizer"))
    normalizer_ = normalizerOf(*part);
  if (auto part = file.find("pre_tokenizer"))
    preTokenizer_ = preTokenizerOf(*part);
  if (auto part = file.find("decoder"))
    decoder_ = tokenDecoderOf(*part);
  added_ = AddedTokens(listIfThere(file, "added_tokens"), normalizer_);
  nameTokens(file);
  makeControl({});
  if (auto part = file.find("post_processor"))
    readTemplate(*part);
}

void TokenPipeline::nameTokens(const JsonPart &file) {
  size_t most = model_->vocabulary().size() + added_.all().size() + kMostGaps;
  auto put = [&](const std::string &text, Token token, bool isControl) {
    if (size_t(token) >= most)
      file.wrong(
          fmt::format("numbers '{}' {}, far beyond its {} tokens", text, token, most - kMostGaps));
    if (size_t(token) >= texts_.size())
      texts_.resize(size_t(token) + 1), isControl_.resize(size_t(token) + 1);
    texts_[size_t(token)] = text, isControl_[size_t(token)] = isControl;
  };
  for (const auto &[text, token] : model_->vocabulary())
    put(text, token, false);
  for (const AddedToken &token : added_.all()) {
    put(token.content, token.number, token.isControl);
    if (token.text != token.content)
      changedTexts_[token.number] = token.text;
  }
}

void TokenPipeline::noteBeginnings() {
  for (const AddedToken &token : added_.all()) {
    if (!normalizer_ || !token.isControl || !token.isNormalised || token.content.empty())
      continue;
    std::string first = token.content.substr(0, readCharacter(token.content).bytes);
    normalizer_(first);
    eachCharacter(first, [&](uint32_t code, std::string_view) { beginnings_.insert(code); });
  }
}

void TokenPipeline::makeControl(std::span<const Token> ends) {
  for (Token token : ends)
    if (token >= 0 && size_t(token) < isControl_.size()) {
      isControl_[size_t(token)] = true;
      added_.makeControl(token, texts_[size_t(token)]);
    }
  noteBeginnings();
  model_->withhold(isControl_, ends);
}

bool TokenPipeline::mayBecomeControl(std::string_view character) const {
  bool may = false;
  if (beginnings_.empty())
    return may;
  std::string text = validUtf8(character);
  normalizer_(text);
  eachCharacter(text, [&](uint32_t code, std::string_view) { may |= beginnings_.contains(code); });
  return may;
}

// ---- The template

Token TokenPipeline::numberOf(const JsonPart &number) const {
  int64_t token = number.asInteger();
  if (token < 0 || token >= int64_t(texts_.size()))
    number.wrong(fmt::format("is {}, none of {} tokens", token, texts_.size()));
  return Token(token);
}

void TokenPipeline::readTemplate(const JsonPart &part) {
  std::string type = part.text("type");
  if (type == "Sequence") {
    for (const JsonPart &each : part.list("processors"))
      readTemplate(each);
  } else if (type == "TemplateProcessing") {
    readTemplatePieces(part);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    auto token = [&](const char *name) {
      auto both = part.list(name);
      if (both.size() != 2)
        part.at(name).wrong("is not a token's name and number");
      return numberOf(both[1]);
    };
    before_.insert(before_.begin(), token("cls"));
    behind_.push_back(token("sep"));
  } else if (type != "ByteLevel") { // which is about places, and not tokens
    part.wrong("is '" + type + "', a post-processor that is not known");
  }
}

void TokenPipeline::readTemplatePieces(const JsonPart &part) {
  std::vector<Token> before, behind;
  int texts = 0;
  for (const JsonPart &piece : part.list("single")) {
    if (piece.has("Sequence")) {
      ++texts;
      continue;
    }
    std::string name = piece.at("SpecialToken").text("id");
    JsonPart tokens = part.at("special_tokens").at(name.c_str());
    for (const JsonPart &number : tokens.list("ids"))
      (texts ? behind : before).push_back(numberOf(number));
  }
  if (texts != 1)
    part.wrong(fmt::format("has the text {} times, and not once", texts));
  before_.insert(before_.begin(), before.begin(), before.end());
  behind_.insert(behind_.end(), behind.begin(), behind.end());
}

// ---- Text to tokens and back

void TokenPipeline::encodePiece(TextPiece piece, std::vector<Token> &to) const {
  piece.text = withoutParts(std::move(piece.text));
  if (piece.text.empty())
    return;
  std::vector<TextPiece> pieces = {std::move(piece)};
  if (preTokenizer_)
    preTokenizer_(pieces);
  for (const TextPiece &each : pieces)
    if (!each.text.empty())
      model_->encode(each.text, to);
}

std::vector<Token> TokenPipeline::encode(std::string_view text, bool control, bool begins) const {
  std::vector<Token> result;
  if (begins)
    result = before_;
  for (const FoundPart &part : added_.find(validUtf8(text), control)) {
    if (part.token >= 0)
      result.push_back(part.token);
    else
      encodePiece(part.piece, result);
  }
  if (begins)
    result.insert(result.end(), behind_.begin(), behind_.end());
  return result;
}

const std::string &TokenPipeline::textOf(Token token) const {
  auto changed = changedTexts_.find(token);
  return changed == changedTexts_.end() ? texts_[size_t(token)] : changed->second;
}

std::string TokenPipeline::decode(const std::vector<Token> &tokens) const {
  DecodedTokens decoded;
  for (Token token : tokens)
    if (token >= 0 && size_t(token) < texts_.size() && !isControl_[size_t(token)])
      decoded.parts.push_back(textOf(token));
  if (decoder_)
    decoder_(decoded);
  std::string text;
  for (const std::string &part : decoded.parts)
    text += (decoder_ || text.empty() ? "" : " ") + part;
  return text;
}

std::string TokenPipeline::bytesOf(Token token) const {
  if (token < 0 || size_t(token) >= texts_.size() || isControl_[size_t(token)])
    return {};
  DecodedTokens decoded{{textOf(token)}, false};
  if (decoder_)
    decoder_(decoded);
  std::string bytes;
  for (const std::string &part : decoded.parts)
    bytes += part;
  return bytes;
}

} // namespace tensmith::generation
