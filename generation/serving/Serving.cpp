// Requests to a model, and their answers; see Serving.h.
#include "generation/serving/Serving.h"

#include "files/Failure.h"

#include <chrono>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

std::string written(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpAnswer answerOf(const Json &body) { return {200, "application/json", written(body), {}}; }

std::string event(const Json &body) { return "data: " + written(body) + "\n\n"; }

int64_t secondsNow() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

const char *reasonOf(BatchEnd end) { return end == BatchEnd::Length ? "length" : "stop"; }

/// The sum of the hidden rows of a prompt's tokens, written by the batch's thread until `end`.
struct Embedding {
  std::vector<double> sum;
  std::promise<BatchEnd> end;
};

BatchRequest requestFor(const std::shared_ptr<Embedding> &embedding, std::vector<Token> prompt,
                        size_t width, const std::shared_ptr<void> &place) {
  BatchRequest request;
  request.prompt = std::move(prompt);
  request.hidden = [embedding, width](int64_t first, std::span<const float> rows) {
    if (!first)
      embedding->sum.assign(width, 0);
    for (size_t at = 0; at < rows.size(); ++at)
      embedding->sum[at % width] += double(rows[at]);
  };
  request.end = [embedding, place](BatchEnd end) { embedding->end.set_value(end); };
  return request;
}

} // namespace

Serving::Serving(std::shared_ptr<const LanguageModel> model, const ServingSettings &settings)
    : model_(std::move(model)), settings_(settings), batch_(model_, settings.batch) {
  try {
    chat_.emplace(model_);
  } catch (const Failure &failure) {
    chatFailure_ = fmt::format("no chats: {}", failure.what());
  }
}

// ---- Which request it is

HttpAnswer Serving::refusal(int status, const std::string &why) {
  const char *type = status == 401   ? "authentication_error"
                     : status == 429 ? "rate_limit_error"
                     : status < 500  ? "invalid_request_error"
                                     : "server_error";
  HttpAnswer answer = answerOf(
      {{"error", {{"message", why}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}});
  answer.status = status;
  return answer;
}

HttpAnswer Serving::answer(const HttpRequest &request) {
  ++requests_;
  HttpAnswer answer;
  try {
    answer = route(request);
  } catch (const Refusal &refused) {
    left_ += refused.status == kClientLeft;
    answer = refusal(refused.status, refused.what());
  } catch (const Failure &failure) {
    answer = refusal(400, failure.what());
  } catch (const std::exception &error) {
    answer = refusal(500, error.what());
  }
  refused_ += answer.status >= 400 && answer.status != kClientLeft;
  return answer;
}

bool Serving::isWelcome(const HttpRequest &head) const {
  return settings_.key.empty() || head.path == "/health" ||
         isSame(head.authorization, "Bearer " + settings_.key);
}

HttpAnswer Serving::route(const HttpRequest &request) {
  struct Route {
    std::string path;
    const char *method;
    std::function<HttpAnswer()> answer;
  };
  const Route routes[] = {
      {"/health", "GET", [] { return answerOf({{"status", "ok"}}); }},
      {"/metrics", "GET", [this] { return metrics(); }},
      {"/v1/models", "GET", [this] { return listModels(); }},
      {"/v1/models/" + settings_.name, "GET", [this] { return showModel(); }},
      {"/v1/completions", "POST", [&] { return complete(request, /*isChat=*/false); }},
      {"/v1/chat/completions", "POST", [&] { return complete(request, /*isChat=*/true); }},
      {"/v1/embeddings", "POST", [&] { return embed(request); }}};
  if (!isWelcome(request))
    throw Refusal(401, "this server wants its key, as 'Authorization: Bearer KEY'");
  auto found = std::ranges::find(routes, request.path, &Route::path);
  if (found == std::end(routes))
    throw Refusal(404, fmt::format("there is no '{}' here", request.path));
  if (request.method != found->method && !(request.method == "HEAD" && *found->method == 'G'))
    throw Refusal(405, fmt::format("'{}' is asked for by {}", request.path, found->method));
  return found->answer();
}

HttpAnswer Serving::showModel() const { return answerOf(modelJson(settings_.name)); }

HttpAnswer Serving::listModels() const {
  return answerOf({{"object", "list"}, {"data", Json::array({modelJson(settings_.name)})}});
}

HttpAnswer Serving::metrics() {
  BatchCounts counts = batch_.counts();
  std::string text;
  auto add = [&](const char *name, const char *type, const char *help, int64_t value) {
    text += fmt::format("# HELP tensmith_{0} {1}\n# TYPE tensmith_{0} {2}\ntensmith_{0} {3}\n",
                        name, help, type, value);
  };
  add("requests_total", "counter", "Requests over HTTP.", requests_);
  add("requests_refused_total", "counter", "Requests that were answered with an error.", refused_);
  add("clients_left_total", "counter", "Requests whose client left before the end.", left_);
  add("texts_open", "gauge", "Texts that run or wait, embeddings included.", open_);
  add("sequences_running", "gauge", "Sequences that are computed.", counts.running);
  add("sequences_waiting", "gauge", "Sequences that wait for their turn.", counts.waiting);
  add("cache_pages", "gauge", "Pages of keys and values.", counts.pages);
  add("cache_pages_held", "gauge", "Pages that sequences hold.", counts.heldPages);
  add("prompt_tokens_total", "counter", "Tokens of prompts.", counts.promptTokens);
  add("prompt_tokens_reused_total", "counter", "Of those: taken from pages.", counts.reusedTokens);
  add("tokens_total", "counter", "Tokens that were drawn.", counts.tokens);
  add("steps_total", "counter", "Steps of the batch.", counts.steps);
  add("tokens_drafted_total", "counter", "Tokens that were guessed.", counts.drafted);
  add("tokens_accepted_total", "counter", "Of those: tokens that were right.", counts.accepted);
  add("preempted_total", "counter", "Sequences that had to give way.", counts.preempted);
  return {200, "text/plain; version=0.0.4", text, {}};
}

/// Room in the queue, which is given back with what is returned. Throws Refusal.
std::shared_ptr<void> Serving::placeFor(int64_t texts) {
  std::shared_ptr<void> place(nullptr, [this, texts](void *) { open_ -= texts; });
  if (open_.fetch_add(texts) + texts > settings_.queue)
    throw Refusal(429, fmt::format("more than {} texts are asked for at a time; try again later",
                                   settings_.queue));
  return place;
}

// ---- Texts

HttpAnswer Serving::complete(const HttpRequest &request, bool isChat) {
  Json body = parsed(request.body);
  TextRequest asked = textRequest(body, isChat, *model_);
  if (!isChat)
    asked.prompts = promptsOf(field(body, "prompt"), *model_);
  else if (chat_)
    asked.prompts.push_back(chat_->tokens(field(body, "messages"), chatVariables(body)));
  else
    throw Refusal(400, chatFailure_);
  asked.id = fmt::format("{}-{}", isChat ? "chatcmpl" : "cmpl", ++answers_);
  asked.created = secondsNow();
  asked.model = settings_.name;
  return asked.isStreamed ? streamed(std::move(asked), request) : whole(std::move(asked), request);
}

/// The grammar is given away.
std::shared_ptr<RunningTexts> Serving::begin(TextRequest &asked) {
  std::shared_ptr<void> place = placeFor(asked.texts());
  std::shared_ptr<TokenGrammar> grammar;
  if (asked.grammar) {
    std::call_once(tokensMade_,
                   [&] { tokens_ = std::make_shared<TokenBytes>(model_->tokenizer()); });
    grammar = std::make_shared<TokenGrammar>(tokens_, std::move(*asked.grammar));
    asked.grammar.reset();
  }
  return std::make_shared<RunningTexts>(batch_, model_, asked, grammar, place);
}

HttpAnswer Serving::whole(TextRequest asked, const HttpRequest &request) {
  auto texts = begin(asked);
  std::vector<std::string> results(size_t(asked.texts()));
  std::vector<const char *> reasons(results.size());
  std::vector<std::vector<DrawnToken>> drawn(results.size());
  while (auto news = texts->next(request.isGone)) {
    results[news->index] += news->piece;
    std::ranges::move(news->tokens, std::back_inserter(drawn[news->index]));
    if (news->end)
      reasons[news->index] = reasonOf(*news->end);
  }
  Json choices = Json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    size_t offset = 0;
    choices.push_back(
        asked.choice(i, results[i], reasons[i], false, asked.chances(drawn[i], offset)));
  }
  Json body = asked.frame(false);
  body["choices"] = choices, body["usage"] = asked.usage(texts->tokens());
  return answerOf(body);
}

HttpAnswer Serving::streamed(TextRequest asked, const HttpRequest &request) {
  HttpAnswer answer;
  answer.type = "text/event-stream";
  // Whoever drops the answer unsent drops the texts, too.
  auto texts = begin(asked);
  answer.stream = [this, asked, texts, isGone = request.isGone](const HttpWrite &write) {
    auto send = [&](const Json &choices, const Json &usage) {
      Json body = asked.frame(true);
      body["choices"] = choices;
      if (asked.hasUsage)
        body["usage"] = usage;
      if (!write(event(body)))
        throw Refusal(kClientLeft, "the client has left, or the server ends");
    };
    try {
      for (size_t i = 0; asked.isChat && i < size_t(asked.texts()); ++i)
        send(Json::array({asked.opening(i)}), nullptr);
      std::vector<size_t> offsets(size_t(asked.texts()), 0);
      while (auto news = texts->next(isGone)) {
        if (!news->piece.empty() || !news->tokens.empty()) {
          Json chances = asked.chances(news->tokens, offsets[news->index]);
          send(Json::array({asked.choice(news->index, news->piece, nullptr, true, chances)}),
               nullptr);
        }
        if (news->end)
          send(Json::array({asked.choice(news->index, "", reasonOf(*news->end), true)}), nullptr);
      }
      if (asked.hasUsage)
        send(Json::array(), asked.usage(texts->tokens()));
      write("data: [DONE]\n\n");
    } catch (const Refusal &refused) {
      left_ += refused.status == kClientLeft;
      write("data: " + refusal(refused.status, refused.what()).body + "\n\n");
    } catch (const std::exception &failed) { // httplib would let it end the process
      write("data: " + refusal(500, failed.what()).body + "\n\n");
    }
  };
  return answer;
}

// ---- Embeddings

/// The mean over a prompt's tokens, of length 1.
HttpAnswer Serving::embed(const HttpRequest &request) {
  Json body = parsed(request.body);
  bool isBase64 = encodesBase64(body);
  TextRequest asked; // no text, but prompts that are counted as such
  asked.prompts = promptsOf(field(body, "input"), *model_);
  auto place = placeFor(asked.texts());
  std::vector<std::shared_ptr<Embedding>> embeddings;
  BatchRequests requests(batch_);
  for (const std::vector<Token> &prompt : asked.prompts) {
    embeddings.push_back(std::make_shared<Embedding>());
    requests.add(
        requestFor(embeddings.back(), prompt, size_t(model_->architecture().width), place));
  }
  Json data = Json::array();
  for (const auto &embedding : embeddings) {
    auto end = embedding->end.get_future();
    while (end.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
      if (request.isGone())
        throw Refusal(kClientLeft, "the client has left, or the server ends");
    if (end.get() == BatchEnd::Cancelled)
      throw Refusal(503, "the embedding could not be computed, or the server ends");
    data.push_back(embeddingJson(data.size(), unitLength(embedding->sum), isBase64));
  }
  Json usage = asked.usage(0);
  usage.erase("completion_tokens");
  return answerOf(
      {{"object", "list"}, {"data", data}, {"model", settings_.name}, {"usage", usage}});
}

} // namespace tensmith::generation
