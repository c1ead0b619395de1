// The texts of one request while a batch computes them: the batch's thread leaves what is new, and
// the request's own thread takes it.
#pragma once

#include "generation/grammar/TokenGrammar.h"
#include "generation/serving/BatchThread.h"
#include "generation/serving/Requests.h"

#include <chrono>

namespace tensmith::generation {

/// What is new of a text: a piece of it, of whole characters, which may be empty at its end.
struct TextNews {
  size_t index = 0;
  std::string piece;
  std::vector<DrawnToken> tokens; // of whose probabilities is told, where that was asked for
  std::optional<BatchEnd> end;
};

class RunningTexts {
public:
  /// Begins them; `place` is kept until they are done. `grammar`: that they follow, or null. Throws
  /// Failure.
  RunningTexts(BatchThread &batch, std::shared_ptr<const LanguageModel> model,
               const TextRequest &request, const std::shared_ptr<TokenGrammar> &grammar,
               const std::shared_ptr<void> &place);

  /// Waits for news; nothing once all texts are done. Throws Refusal where the client is gone, or
  /// a text was cancelled or can't go on by its grammar.
  std::optional<TextNews> next(const std::function<bool()> &isGone);
  /// Tokens of the texts so far.
  int64_t tokens() const;

private:
  struct Mailbox;
  std::optional<TextNews> taken();

  std::shared_ptr<Mailbox> mailbox_;
  std::chrono::steady_clock::time_point looked_; // whether the client is still there
  BatchRequests requests_;                       // first to go
};

} // namespace tensmith::generation
