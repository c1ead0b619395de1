// Tokens that are found in a text by their names, before anything is cut: the control tokens of a
// tokenizer.json, and those that were added to its vocabulary.
#pragma once

#include "generation/tokenizer/Normalizers.h"
#include "generation/tokenizer/Splitting.h"
#include "generation/tokenizer/TokenModel.h"

namespace tensmith::generation {

struct AddedToken {
  std::string content;
  Token number = -1;
  bool isControl = false;                     // "special": it is no text
  bool isWord = false;                        // only with no letter or digit on either side
  bool takesLeft = false, takesRight = false; // spaces there, too
  bool isNormalised = false;                  // found in what the normaliser makes of the text
  std::string text; // that it stands for: its content, normalised where that is found
};

/// A part of a text, or a token in its place.
struct FoundPart {
  TextPiece piece;
  Token token = -1; // -1: it is text
};

class AddedTokens {
public:
  AddedTokens() = default;
  /// Of the list "added_tokens".
  AddedTokens(const std::vector<JsonPart> &parts, const Normalizer &normalizer);

  const std::vector<AddedToken> &all() const { return all_; }
  /// From now on it is one, whatever the file says, and found by its name.
  void makeControl(Token number, const std::string &name);
  /// The text in parts, those that are text normalised. `control`: control tokens are found, too.
  std::vector<FoundPart> find(std::string_view text, bool control) const;

private:
  void split(const FoundPart &part, const PrefixTable &table, bool control,
             std::vector<FoundPart> &to) const;
  bool isApart(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> all_;
  Normalizer normalizer_;        // may be none
  PrefixTable raw_, normalised_; // of places in all_
};

} // namespace tensmith::generation
