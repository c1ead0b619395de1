// Chats to tokens; see Chat.h.
#include "generation/chat/Chat.h"

#include "files/Failure.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr size_t kMostMessages = 4096;

std::string sourceOf(const LanguageModel &model, const std::string &given) {
  std::string source = given.empty() ? model.file().text("tokenizer.chat_template", "") : given;
  if (source.empty())
    fail(model.file().name(), "has no chat template (tokenizer.chat_template); give a text to "
                              "continue instead of messages");
  return source;
}

/// The text of a message's content, whose parts are put one behind the other.
std::string textOf(const Json &content) {
  if (content.is_string())
    return content;
  if (content.is_null()) // beside calls of tools
    return "";
  if (!content.is_array())
    failUsage("the content of a message is a text, or a list of parts that are");
  std::string text;
  for (const Json &part : content) {
    bool isText = part.is_object() && part.value("type", Json()) == "text" &&
                  part.contains("text") && part["text"].is_string();
    if (!isText)
      failUsage(R"(a part of a message is {"type": "text", "text": "..."})");
    text += part["text"].get_ref<const std::string &>();
  }
  return text;
}

Json checked(const Json &messages) {
  if (!messages.is_array() || messages.empty() || messages.size() > kMostMessages)
    failUsage(fmt::format("'messages' is a list of 1 to {}", kMostMessages));
  Json result = Json::array();
  for (const Json &message : messages) {
    bool hasBoth = message.is_object() && message.contains("role") && message["role"].is_string() &&
                   message.contains("content");
    if (!hasBoth)
      failUsage("a message has a 'role' and a 'content'");
    result.push_back(message);
    result.back()["content"] = textOf(message["content"]);
  }
  return result;
}

} // namespace

Chat::Chat(std::shared_ptr<const LanguageModel> model, const std::string &source)
    : model_(std::move(model)), template_(ChatTemplate::parse(sourceOf(*model_, source))) {}

/// With names of control tokens parted, in keys, too.
Json Chat::parted(const Json &json) const {
  const Tokenizer &tokenizer = model_->tokenizer();
  if (json.is_string())
    return tokenizer.parted(json.get_ref<const std::string &>());
  if (!json.is_structured())
    return json;
  Json result = json.is_object() ? Json::object() : Json::array();
  for (const auto &[key, value] : json.items())
    if (json.is_object())
      result[tokenizer.parted(key)] = parted(value);
    else
      result.push_back(parted(value));
  return result;
}

std::vector<Token> Chat::tokens(const Json &messages, const Json &variables) const {
  const Tokenizer &tokenizer = model_->tokenizer();
  auto nameOf = [&](Token token) { return token < 0 ? std::string() : tokenizer.text(token); };
  if (!variables.is_object())
    failUsage("a template's variables are an object");
  Json all = {{"add_generation_prompt", true}};
  for (const auto &[name, value] : variables.items())
    all[name] = parted(value);
  all["messages"] = parted(checked(messages));
  all["bos_token"] = nameOf(tokenizer.beginning());
  all["eos_token"] = nameOf(tokenizer.ending());
  // The template writes the beginning's token itself.
  std::vector<Token> tokens = model_->encode(template_.render(all), true, false);
  if (tokens.empty())
    failUsage("the chat template makes no text of these messages");
  return tokens;
}

} // namespace tensmith::generation
