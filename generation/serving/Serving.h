// A model behind HTTP, as clients of OpenAI's interface ask for it: models, completions, chats,
// embeddings; and what operators ask for: health, and figures in Prometheus's text format.
//
// A request's own thread waits for tokens, and notices where its client has left; the texts of all
// are one batch (BatchThread.h). Nothing here knows sockets, and nothing reads files but the model.
#pragma once

#include "generation/chat/Chat.h"
#include "generation/serving/BatchThread.h"
#include "generation/serving/Http.h"
#include "generation/serving/Requests.h"
#include "generation/serving/RunningTexts.h"

#include <atomic>
#include <optional>

namespace tensmith::generation {

struct ServingSettings {
  std::string name; // of the model, for clients
  std::string key;  // that clients must show; empty: none
  BatchSettings batch;
  int64_t queue = 256; // texts that run or wait; more are refused with 429
};

class Serving {
public:
  Serving(std::shared_ptr<const LanguageModel> model, const ServingSettings &settings);

  HttpAnswer answer(const HttpRequest &request);
  /// Whether it shows the key, where there is one and it needs one.
  bool isWelcome(const HttpRequest &head) const;
  /// An error as clients expect it.
  static HttpAnswer refusal(int status, const std::string &why);

private:
  HttpAnswer route(const HttpRequest &request);
  HttpAnswer listModels() const;
  HttpAnswer showModel() const;
  HttpAnswer metrics();
  HttpAnswer complete(const HttpRequest &request, bool isChat);
  HttpAnswer embed(const HttpRequest &request);
  std::shared_ptr<void> placeFor(int64_t texts);
  std::shared_ptr<RunningTexts> begin(TextRequest &asked);
  HttpAnswer whole(TextRequest asked, const HttpRequest &request);
  HttpAnswer streamed(TextRequest asked, const HttpRequest &request);

  std::shared_ptr<const LanguageModel> model_;
  ServingSettings settings_;
  std::optional<Chat> chat_;
  std::string chatFailure_; // why there is none
  std::once_flag tokensMade_;
  std::shared_ptr<const TokenBytes> tokens_; // where a text followed a grammar
  std::atomic<int64_t> open_ = 0, requests_ = 0, refused_ = 0, left_ = 0, answers_ = 0;
  BatchThread batch_; // first to go: it gives places back
};

} // namespace tensmith::generation
