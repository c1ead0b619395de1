// Requests and answers as JSON; see Requests.h.
#include "generation/serving/Requests.h"

#include "files/Failure.h"
#include "generation/grammar/Gbnf.h"
#include "generation/grammar/JsonSchema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <random>

namespace tensmith::generation {
namespace {

constexpr size_t kMostPrompts = 64, kMostStops = 16, kMostStop = 256;
constexpr int64_t kMostChoices = 16, kTokens = 16, kMostLikeliest = 20;
constexpr int kMostBias = 100;

/// Null where it is absent, or null.
const Json *given(const Json &body, const char *name) {
  auto found = body.find(name);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

double number(const Json &body, const char *name, double otherwise) {
  const Json *value = given(body, name);
  if (value && !value->is_number())
    throw Refusal(400, fmt::format("'{}' is a number", name));
  return value ? value->get<double>() : otherwise;
}

int64_t integer(const Json &body, const char *name, int64_t otherwise, int64_t least,
                int64_t most) {
  const Json *value = given(body, name);
  if (!value)
    return otherwise;
  bool isIt = value->is_number_integer() &&
              (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t(most));
  if (!isIt || value->get<int64_t>() < least || value->get<int64_t>() > most)
    throw Refusal(400, fmt::format("'{}' is a whole number from {} to {}", name, least, most));
  return value->get<int64_t>();
}

bool flag(const Json &body, const char *name) {
  const Json *value = given(body, name);
  if (value && !value->is_boolean())
    throw Refusal(400, fmt::format("'{}' is true or false", name));
  return value && value->get<bool>();
}

/// Whether it asks for nothing: absent, null, empty, zero or false.
bool asksNothing(const Json &body, const char *name) {
  const Json *value = given(body, name);
  return !value || (value->is_number() && value->get<double>() == 0) ||
         (value->is_boolean() && !value->get<bool>()) ||
         ((value->is_array() || value->is_object() || value->is_string()) && value->empty());
}

void refuseWhatIsMissing(const Json &body, bool isChat) {
  for (const char *name : {"suffix", "echo", "tools", "functions", "audio"})
    if (!asksNothing(body, name))
      throw Refusal(400, fmt::format("'{}' is not to be had here; leave it out", name));
  if (!isChat &&
      integer(body, "best_of", 1, 1, kMostChoices) > integer(body, "n", 1, 1, kMostChoices))
    throw Refusal(400, "'best_of' beyond 'n' is not to be had here; leave it out");
}

/// How many of the likeliest tokens are told beside each: of chats by two keys, otherwise by one.
std::optional<int64_t> likeliestOf(const Json &body, bool isChat) {
  if (!isChat) {
    const Json *count = given(body, "logprobs");
    return count ? std::optional(integer(body, "logprobs", 0, 0, kMostLikeliest)) : std::nullopt;
  }
  bool isAsked = flag(body, "logprobs");
  int64_t count = integer(body, "top_logprobs", 0, 0, kMostLikeliest);
  if (count && !isAsked)
    throw Refusal(400, "'top_logprobs' goes with 'logprobs' of true");
  return isAsked ? std::optional(count) : std::nullopt;
}

/// {"token": what is added to its logit, ...}
std::vector<std::pair<Token, float>> biasesOf(const Json &body, const LanguageModel &model) {
  const Json *given = generation::given(body, "logit_bias");
  std::vector<std::pair<Token, float>> biases;
  if (!given)
    return biases;
  if (!given->is_object())
    throw Refusal(400, "'logit_bias' is an object of tokens' numbers and what is added");
  for (const auto &[name, value] : given->items()) {
    Token token = -1;
    auto end = name.data() + name.size();
    auto read = std::from_chars(name.data(), end, token);
    bool isToken = read.ec == std::errc() && read.ptr == end && token >= 0 &&
                   size_t(token) < model.tokenizer().size();
    if (!isToken || !value.is_number() || std::abs(value.get<double>()) > kMostBias)
      throw Refusal(400, fmt::format("'logit_bias' is of tokens from 0 to {}, and numbers from -{} "
                                     "to {}",
                                     model.tokenizer().size() - 1, kMostBias, kMostBias));
    biases.emplace_back(token, value.get<float>());
  }
  return biases;
}

/// What the texts follow, by `response_format` or `grammar`.
std::optional<Grammar> grammarOf(const Json &body) {
  auto grammar = body.find("grammar");
  bool hasGrammar = grammar != body.end() && !grammar->is_null();
  auto format = body.find("response_format");
  Json type = "text";
  if (format != body.end() && format->is_object())
    type = format->value("type", Json());
  else if (format != body.end() && !format->is_null())
    throw Refusal(400, "'response_format' is an object with a type");
  if (hasGrammar && (type != "text" || !grammar->is_string()))
    throw Refusal(400, "'grammar' is a text, and stands without a 'response_format'");
  if (hasGrammar)
    return parseGbnf(grammar->get_ref<const std::string &>());
  if (type == "json_object")
    return objectGrammar();
  if (type == "json_schema") {
    Json named = format->value("json_schema", Json());
    if (!named.is_object() || !named.contains("schema"))
      throw Refusal(400, "'response_format' of json_schema has 'json_schema' with a 'schema'");
    return schemaGrammar(named["schema"]);
  }
  if (type != "text")
    throw Refusal(400, "'response_format' is of text, json_object or json_schema");
  return std::nullopt;
}

std::vector<std::string> stopsOf(const Json &body) {
  auto found = body.find("stop");
  if (found == body.end() || found->is_null())
    return {};
  Json list = found->is_array() ? *found : Json::array({*found});
  std::vector<std::string> stops;
  for (const Json &stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string &>().empty() ||
        stop.get_ref<const std::string &>().size() > kMostStop || list.size() > kMostStops)
      throw Refusal(400, fmt::format("'stop' is a text of 1 to {} bytes, or up to {} of them",
                                     kMostStop, kMostStops));
    stops.push_back(stop);
  }
  return stops;
}

Token tokenOf(const Json &json, const LanguageModel &model) {
  auto size = int64_t(model.tokenizer().size());
  if (!json.is_number_integer() || json < 0 || json >= size)
    throw Refusal(400, fmt::format("tokens are whole numbers from 0 to {}", size - 1));
  return json;
}

std::string base64(const std::string &bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? uint8_t(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

} // namespace

Json parsed(const std::string &body) {
  try {
    Json json = boundedJson(body);
    if (json.is_object())
      return json;
  } catch (const Failure &failure) {
    throw Refusal(400, std::string("the body: ") + failure.what());
  }
  throw Refusal(400, "the body: it is no JSON object");
}

const Json &field(const Json &body, const char *name) {
  auto found = body.find(name);
  if (found == body.end() || found->is_null())
    throw Refusal(400, fmt::format("'{}' is missing", name));
  return *found;
}

TextRequest textRequest(const Json &body, bool isChat, const LanguageModel &model) {
  refuseWhatIsMissing(body, isChat);
  TextRequest request;
  request.isChat = isChat;
  request.isStreamed = flag(body, "stream");
  if (auto options = body.find("stream_options"); options != body.end() && options->is_object())
    request.hasUsage = flag(*options, "include_usage");
  request.choices = integer(body, "n", 1, 1, kMostChoices);
  request.stops = stopsOf(body);
  request.grammar = grammarOf(body);
  request.likeliest = likeliestOf(body, isChat);
  int64_t most = int64_t(1) << 31;
  int64_t tokens = integer(body, "max_tokens", isChat ? model.contextLength() : kTokens, 0, most);
  request.settings.most = integer(body, "max_completion_tokens", tokens, 0, most);
  SamplingSettings &sampling = request.settings.sampling;
  sampling.temperature = number(body, "temperature", 1);
  sampling.topP = number(body, "top_p", 1);
  sampling.topK = integer(body, "top_k", 0, 0, most);
  sampling.minP = number(body, "min_p", 0);
  sampling.repeatPenalty = number(body, "repeat_penalty", 1);
  sampling.presencePenalty = number(body, "presence_penalty", 0);
  sampling.frequencyPenalty = number(body, "frequency_penalty", 0);
  sampling.biases = biasesOf(body, model);
  sampling.seed =
      uint64_t(integer(body, "seed", int64_t(std::random_device()()), INT64_MIN, INT64_MAX));
  return request;
}

std::vector<std::vector<Token>> promptsOf(const Json &prompt, const LanguageModel &model) {
  auto one = [&](const Json &given) {
    std::vector<Token> tokens;
    if (given.is_string())
      tokens = model.encode(given.get_ref<const std::string &>(), false, true);
    else if (given.is_array())
      for (const Json &token : given)
        tokens.push_back(tokenOf(token, model));
    else
      throw Refusal(400, "a prompt is a text or a list of tokens");
    if (tokens.empty())
      throw Refusal(400, "a prompt has no tokens");
    if (int64_t(tokens.size()) > model.contextLength())
      throw Refusal(400, fmt::format("a prompt of {} tokens is longer than the context of {}",
                                     tokens.size(), model.contextLength()));
    return tokens;
  };
  if (!prompt.is_array() || prompt.empty() || prompt[0].is_number())
    return {one(prompt)};
  if (prompt.size() > kMostPrompts)
    throw Refusal(400, fmt::format("a request has at most {} prompts", kMostPrompts));
  std::vector<std::vector<Token>> prompts;
  for (const Json &each : prompt)
    prompts.push_back(one(each));
  return prompts;
}

Json chatVariables(const Json &body) {
  auto found = body.find("chat_template_kwargs");
  if (found == body.end() || found->is_null())
    return Json::object();
  if (!found->is_object())
    throw Refusal(400, "'chat_template_kwargs' is an object");
  return *found;
}

bool encodesBase64(const Json &body) {
  auto format = body.find("encoding_format");
  if (!asksNothing(body, "dimensions"))
    throw Refusal(400, "'dimensions' are the model's; leave it out");
  if (format == body.end() || format->is_null() || *format == "float")
    return false;
  if (*format != "base64")
    throw Refusal(400, "'encoding_format' is float or base64");
  return true;
}

// ---- Answers

DrawnToken drawnToken(Token token, std::span<const float> logits, int64_t count,
                      const Tokenizer &tokenizer) {
  auto of = [&](Token one) {
    float logit = logits[size_t(one)];
    return std::isnan(logit) ? -INFINITY : double(logit);
  };
  double most = -INFINITY, sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    most = std::max(most, of(Token(i)));
  for (size_t i = 0; i < logits.size(); ++i)
    sum += std::exp(of(Token(i)) - most);
  // JSON has no infinity.
  auto chance = [&](Token one) -> TokenChance {
    return {tokenizer.bytesOf(one), std::max(of(one) - most - std::log(sum), -9999.0)};
  };
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto end = order.begin() + std::min(count, int64_t(order.size()));
  std::ranges::partial_sort(
      order, end, [&](Token a, Token b) { return of(a) != of(b) ? of(a) > of(b) : a < b; });
  DrawnToken drawn{chance(token), {}};
  for (auto at = order.begin(); at != end; ++at)
    drawn.likeliest.push_back(chance(*at));
  return drawn;
}

Json TextRequest::frame(bool isPiece) const {
  const char *object = !isChat   ? "text_completion"
                       : isPiece ? "chat.completion.chunk"
                                 : "chat.completion";
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

Json TextRequest::choice(size_t index, const std::string &text, const char *reason, bool isPiece,
                         const Json &chances) const {
  Json choice = {{"index", index}, {"logprobs", chances}, {"finish_reason", nullptr}};
  if (reason)
    choice["finish_reason"] = reason;
  if (!isChat)
    choice["text"] = text;
  else if (isPiece)
    choice["delta"] = text.empty() ? Json::object() : Json{{"content", text}};
  else
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  return choice;
}

Json TextRequest::chances(const std::vector<DrawnToken> &tokens, size_t &offset) const {
  if (!likeliest)
    return nullptr;
  if (isChat) {
    auto written = [](const TokenChance &one) -> Json {
      std::vector<uint8_t> bytes(one.bytes.begin(), one.bytes.end());
      return {{"token", one.bytes}, {"logprob", one.logarithm}, {"bytes", bytes}};
    };
    Json content = Json::array();
    for (const DrawnToken &token : tokens) {
      Json each = written(token), others = Json::array();
      for (const TokenChance &other : token.likeliest)
        others.push_back(written(other));
      each["top_logprobs"] = others;
      content.push_back(each);
    }
    return {{"content", content}, {"refusal", nullptr}};
  }
  Json lists = {{"text_offset", Json::array()},
                {"token_logprobs", Json::array()},
                {"tokens", Json::array()},
                {"top_logprobs", Json::array()}};
  for (const DrawnToken &token : tokens) {
    Json others = Json::object();
    for (const TokenChance &other : token.likeliest)
      others[other.bytes] = other.logarithm;
    lists["text_offset"].push_back(offset), lists["tokens"].push_back(token.bytes);
    lists["token_logprobs"].push_back(token.logarithm), lists["top_logprobs"].push_back(others);
    offset += size_t(std::ranges::count_if(
        token.bytes, [](char byte) { return (uint8_t(byte) & 0xc0) != 0x80; }));
  }
  return lists;
}

Json TextRequest::opening(size_t index) const {
  Json choice = this->choice(index, "", nullptr, true);
  choice["delta"] = {{"role", "assistant"}, {"content", ""}};
  return choice;
}

Json TextRequest::usage(int64_t tokens) const {
  int64_t prompt = 0;
  for (const auto &each : prompts)
    prompt += int64_t(each.size());
  return {
      {"prompt_tokens", prompt}, {"completion_tokens", tokens}, {"total_tokens", prompt + tokens}};
}

Json modelJson(const std::string &name) {
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "tensmith"}};
}

Json embeddingJson(size_t index, const std::vector<float> &vector, bool isBase64) {
  Json embedding = vector;
  if (isBase64)
    embedding =
        base64({reinterpret_cast<const char *>(vector.data()), vector.size() * sizeof(float)});
  return {{"object", "embedding"}, {"index", index}, {"embedding", embedding}};
}

std::vector<float> unitLength(const std::vector<double> &vector) {
  double squares = 0;
  for (double x : vector)
    squares += x * x;
  std::vector<float> unit;
  for (double x : vector)
    unit.push_back(float(x / std::max(std::sqrt(squares), 1e-12)));
  return unit;
}

bool isSame(const std::string &given, const std::string &wanted) {
  unsigned differs = given.size() != wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i)
    differs |= unsigned(uint8_t(wanted[i]) ^ uint8_t(i < given.size() ? given[i] : 0));
  return !differs;
}

} // namespace tensmith::generation
