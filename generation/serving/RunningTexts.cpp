// Texts between two threads; see RunningTexts.h.
#include "generation/serving/RunningTexts.h"

#include "generation/serving/TextPieces.h"

#include <chrono>

namespace tensmith::generation {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(50); // between looks at whether a client has left

} // namespace

/// Held by the batch's callbacks as well, which may outlast the request.
struct RunningTexts::Mailbox {
  struct Text {
    TextPieces pieces;
    std::optional<ConstrainedText> constraint;
    std::string given; // since it was last taken
    std::vector<DrawnToken> drawn;
    std::vector<float> logits; // of the token that is drawn next, where they are asked for
    std::optional<BatchEnd> end;
    bool isDone = false; // and the end was taken
  };
  mutable std::mutex mutex;
  std::condition_variable filled;
  std::vector<Text> texts;
  int64_t tokens = 0;

  /// False where the text has come to a stop sequence, or to its grammar's end.
  bool give(size_t index, const std::string &bytes) {
    std::lock_guard lock(mutex);
    Text &text = texts[index];
    bool isLast = text.constraint && !text.constraint->give(bytes);
    if (!text.constraint || text.constraint->failure().empty()) {
      text.given += text.pieces.add(bytes);
      ++tokens;
    }
    filled.notify_one();
    return !isLast && !text.pieces.isStopped();
  }
  void finish(size_t index, BatchEnd end) {
    std::lock_guard lock(mutex);
    Text &text = texts[index];
    text.given += text.pieces.finish();
    text.end = end;
    filled.notify_one();
  }
};

RunningTexts::RunningTexts(BatchThread &batch, std::shared_ptr<const LanguageModel> model,
                           const TextRequest &asked, const std::shared_ptr<TokenGrammar> &grammar,
                           const std::shared_ptr<void> &place)
    : mailbox_(std::make_shared<Mailbox>()), requests_(batch) {
  size_t count = asked.prompts.size() * size_t(asked.choices);
  for (size_t i = 0; i < count; ++i) {
    mailbox_->texts.push_back({TextPieces(asked.stops), {}, {}, {}, {}, {}, false});
    if (grammar)
      mailbox_->texts.back().constraint.emplace(grammar);
  }
  for (size_t i = 0; i < count; ++i) {
    BatchRequest request;
    request.prompt = asked.prompts[i / size_t(asked.choices)];
    request.settings = asked.settings;
    request.settings.sampling.seed += i % size_t(asked.choices);
    if (grammar)
      request.constrain = [model, mailbox = mailbox_, i](std::span<float> logits) {
        mailbox->texts[i].constraint->constrain(logits, model->tokenizer());
      };
    if (asked.likeliest)
      request.look = [mailbox = mailbox_, i](std::span<const float> logits) {
        mailbox->texts[i].logits.assign(logits.begin(), logits.end());
      };
    request.give = [model, mailbox = mailbox_, likeliest = asked.likeliest, i](Token token) {
      if (likeliest) {
        const std::vector<float> &logits = mailbox->texts[i].logits;
        DrawnToken drawn = drawnToken(token, logits, *likeliest, model->tokenizer());
        std::lock_guard lock(mailbox->mutex);
        mailbox->texts[i].drawn.push_back(std::move(drawn));
      }
      return mailbox->give(i, model->tokenizer().bytesOf(token));
    };
    request.end = [mailbox = mailbox_, place, i](BatchEnd end) { mailbox->finish(i, end); };
    requests_.add(std::move(request));
  }
}

/// What there is, under the lock.
std::optional<TextNews> RunningTexts::taken() {
  for (size_t i = 0; i < mailbox_->texts.size(); ++i) {
    Mailbox::Text &text = mailbox_->texts[i];
    if (text.isDone || (text.given.empty() && text.drawn.empty() && !text.end))
      continue;
    text.isDone = text.end.has_value();
    return TextNews{i, std::exchange(text.given, {}), std::exchange(text.drawn, {}), text.end};
  }
  return std::nullopt;
}

std::optional<TextNews> RunningTexts::next(const std::function<bool()> &isGone) {
  for (;;) {
    if (auto now = Clock::now(); now - looked_ >= kLook) {
      looked_ = now;
      if (isGone())
        throw Refusal(kClientLeft, "the client has left, or the server ends");
    }
    std::unique_lock lock(mailbox_->mutex);
    if (auto news = taken()) {
      const auto &constraint = mailbox_->texts[news->index].constraint;
      if (news->end && constraint && !constraint->failure().empty())
        throw Refusal(400, constraint->failure());
      if (news->end == BatchEnd::Cancelled)
        throw Refusal(503, "the text could not be computed, or the server ends");
      return news;
    }
    if (std::ranges::all_of(mailbox_->texts, [](const auto &text) { return text.isDone; }))
      return std::nullopt;
    mailbox_->filled.wait_for(lock, kLook);
  }
}

int64_t RunningTexts::tokens() const {
  std::lock_guard lock(mailbox_->mutex);
  return mailbox_->tokens;
}

} // namespace tensmith::generation
