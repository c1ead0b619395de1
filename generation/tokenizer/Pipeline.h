// A tokenizer as Hugging Face's tokenizer.json describes it, step by step: tokens that are found by
// their names, a normaliser, a pre-tokeniser that cuts the text into pieces, a model of tokens for
// each piece, a template around all, and a decoder for the way back.
//
// What a file says of these is done, or refused by its name: there is no step that is left out.
// Beside them there are "truncation" and "padding", which fit texts into arrays and are not looked
// at. Texts have the tokens that the library `tokenizers` gives, whose source the steps' meanings
// come from (github.com/huggingface/tokenizers).
#pragma once

#include "generation/tokenizer/AddedTokens.h"
#include "generation/tokenizer/Decoders.h"
#include "generation/tokenizer/PreTokenizers.h"
#include "generation/tokenizer/TokenModel.h"

#include <span>

namespace tensmith::generation {

/// Used by any number of threads at a time.
class TokenPipeline {
public:
  /// Throws Failure. `file`: the whole of a tokenizer.json.
  explicit TokenPipeline(const JsonPart &file);

  /// `control`: names of control tokens are those tokens. `begins`: with the tokens of the template
  /// around the text.
  std::vector<Token> encode(std::string_view text, bool control, bool begins) const;
  /// Without control tokens; valid UTF-8.
  std::string decode(const std::vector<Token> &tokens) const;
  /// What a token is in the middle of a text; it may end within a character.
  std::string bytesOf(Token token) const;

  /// Whether the normaliser may make a control token's beginning of a character. Of most files it
  /// can't: they look for control tokens in the text as it is given.
  bool mayBecomeControl(std::string_view character) const;

  /// By their numbers; "" where a number has none.
  const std::vector<std::string> &texts() const { return texts_; }
  const std::vector<AddedToken> &added() const { return added_.all(); }
  bool isControl(Token token) const { return isControl_[size_t(token)]; }
  /// Tokens that end texts are no text, also where the file says otherwise: else a text from
  /// outside could end a turn.
  void makeControl(std::span<const Token> ends);

private:
  void readTemplate(const JsonPart &part);
  void readTemplatePieces(const JsonPart &part);
  Token numberOf(const JsonPart &number) const;
  void nameTokens(const JsonPart &file);
  void noteBeginnings();
  const std::string &textOf(Token token) const;
  void encodePiece(TextPiece piece, std::vector<Token> &to) const;

  Normalizer normalizer_; // may be none, as the others
  PreTokenizer preTokenizer_;
  std::unique_ptr<TokenModel> model_;
  AddedTokens added_;
  TokenDecoder decoder_;
  std::vector<Token> before_, behind_; // the text
  std::vector<std::string> texts_;
  std::map<Token, std::string> changedTexts_; // what tokens stand for, where that is not their name
  std::vector<bool> isControl_;
  std::set<uint32_t> beginnings_; // of control tokens that are looked for behind the normaliser
};

} // namespace tensmith::generation
