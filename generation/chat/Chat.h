// Messages of a chat to a model's tokens, by the template that its file brings or another.
//
// Invariant: what a message says can't end its turn. Names of control tokens are those tokens where
// the template writes them, and text where they come from messages or other variables.
#pragma once

#include "generation/LanguageModel.h"
#include "generation/chat/BoundedJson.h"
#include "generation/chat/ChatTemplate.h"

namespace tensmith::generation {

class Chat {
public:
  /// By `source`, or the file's template where that is empty. Throws Failure where there is none,
  /// or it is not understood.
  explicit Chat(std::shared_ptr<const LanguageModel> model, const std::string &source = "");

  /// `messages`: a list of objects with a `role` and a `content`, which is a text or a list of
  /// parts {"type": "text", "text": ...}; other entries are handed to the template as they are.
  /// `variables`: an object of others that it sees. Throws Failure.
  std::vector<Token> tokens(const Json &messages, const Json &variables) const;

private:
  Json parted(const Json &json) const;

  std::shared_ptr<const LanguageModel> model_;
  ChatTemplate template_;
};

} // namespace tensmith::generation
