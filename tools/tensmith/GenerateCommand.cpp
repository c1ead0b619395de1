// tensmith generate: text from a language model, as it comes.
#include "tools/tensmith/GenerateCommand.h"
#include "client/Verbosity.h"
#include "files/Files.h"
#include "generation/Batch.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <iterator>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, prompt, promptFile;
  bool quiet = false, control = false;
  DraftOptions drafts;
  generation::ModelSettings of;
  generation::GenerationSettings generation;
};

std::string promptOf(const Settings &settings) {
  if (settings.promptFile.empty())
    return settings.prompt;
  if (settings.promptFile == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  Bytes bytes = readFile(settings.promptFile);
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

double rate(int64_t tokens, double seconds) { return seconds > 0 ? double(tokens) / seconds : 0; }

std::string figures(int64_t prompt, double promptSeconds, int64_t generated, double seconds) {
  // The first comes of the prompt.
  int64_t stepped = std::max<int64_t>(generated - 1, 0);
  return fmt::format("prompt: {} tokens, {:.1f} a second; generated: {} tokens, {:.1f} a second",
                     prompt, rate(prompt, promptSeconds), generated, rate(stepped, seconds));
}

void give(const std::string &bytes) { std::cout << bytes << std::flush; }

/// By a batch of one text, whose tokens are those of any other.
int generateDrafted(const Settings &settings,
                    const std::shared_ptr<const generation::LanguageModel> &model,
                    std::vector<generation::Token> prompt) {
  generation::BatchSettings of;
  of.sequences = 1, of.cacheTokens = model->contextLength();
  of.drafts = settings.drafts.loaded(settings.of, *model);
  generation::Batch batch(model, of);
  generation::BatchRequest request;
  request.prompt = std::move(prompt);
  request.settings = settings.generation;
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now(), first = start;
  request.give = [&](generation::Token token) {
    if (first == start)
      first = Clock::now(); // it comes of the prompt
    give(model->tokenizer().bytesOf(token));
    return true;
  };
  batch.add(std::move(request));
  while (batch.step())
    ;
  using Seconds = std::chrono::duration<double>;
  auto end = Clock::now();
  if (first == start)
    first = end; // no token was given
  std::cout << std::endl;
  generation::BatchCounts counts = batch.counts();
  if (!settings.quiet)
    std::cerr << figures(counts.promptTokens, Seconds(first - start).count(), counts.tokens,
                         Seconds(end - first).count())
              << fmt::format("; guessed: {} tokens, {} of them right\n", counts.drafted,
                             counts.accepted);
  return kSuccess;
}

int generate(const Settings &settings) {
  auto model = generation::LanguageModel::load(settings.model, settings.of);
  auto prompt = model->tokenizer().encode(promptOf(settings), settings.control, /*begins=*/true);
  if (prompt.empty())
    failUsage("the prompt has no tokens; give a text with --prompt or --prompt-file");
  if (settings.drafts.isOn())
    return generateDrafted(settings, model, std::move(prompt));
  generation::Context context(model);
  auto result = generation::generate(context, prompt, settings.generation,
                                     [](generation::Token, const std::string &bytes) {
                                       give(bytes);
                                       return true;
                                     });
  std::cout << std::endl;
  if (!settings.quiet)
    std::cerr << figures(int64_t(prompt.size()), result.promptSeconds,
                         int64_t(result.tokens.size()), result.stepSeconds)
              << "\n";
  return kSuccess;
}

void addSampling(CLI::App &command, generation::SamplingSettings &s) {
  auto *group = command.add_option_group("Sampling");
  group->add_option("--temperature", s.temperature, "0: always the likeliest token")
      ->capture_default_str();
  group->add_option("--top-k", s.topK, "Tokens that are drawn from, at most; 0: all")
      ->capture_default_str();
  group->add_option("--top-p", s.topP, "The likeliest that have this probability together")
      ->capture_default_str();
  group->add_option("--min-p", s.minP, "Those at least so likely, beside the likeliest")
      ->capture_default_str();
  group
      ->add_option("--repeat-penalty", s.repeatPenalty, "Holds tokens back that were there; 1: not")
      ->capture_default_str();
  group->add_option("--repeat-last", s.repeatLast, "Tokens that are looked at for it")
      ->capture_default_str();
  group->add_option("--seed", s.seed, "The same gives the same text")->capture_default_str();
}

} // namespace

void addWeights(CLI::App &command, generation::ModelSettings &settings) {
  command
      .add_option("--weights", settings.weights,
                  "Bits that a folder's matrices are quantised to: 8 or 4; 0: as they are")
      ->capture_default_str()
      ->check(CLI::IsMember({0, 4, 8}));
}

void addCacheType(CLI::App &command, generation::ModelSettings &settings) {
  command.add_option("--cache-type", settings.cacheType, "How keys and values are kept")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16", "q8_0", "q4_0"}));
}

generation::DraftSettings DraftOptions::loaded(const generation::ModelSettings &of,
                                               const generation::LanguageModel &whose) const {
  generation::DraftSettings result = settings;
  if (model.empty())
    return result;
  generation::ModelSettings own = of;
  own.context = whose.contextLength(), own.shorter = true;
  if (!std::filesystem::is_directory(model))
    own.weights = 0; // which are as the file has them
  own.cacheType = "f32";
  result.model = generation::LanguageModel::load(model, own);
  if (result.model->contextLength() < whose.contextLength())
    client::warn(fmt::format("{} takes {} tokens, and guesses nothing beyond them; the context has "
                             "{}",
                             model, result.model->contextLength(), whose.contextLength()));
  return result;
}

void addDrafts(CLI::App &command, DraftOptions &drafts) {
  auto *group = command.add_option_group("Guesses");
  auto *model = group->add_option(
      "--draft", drafts.model, "A smaller model of the same tokens, which guesses the next ones");
  group
      ->add_flag("--lookup", drafts.settings.looksUp,
                 "Guess what the text said after the same tokens before")
      ->excludes(model);
  group
      ->add_option("--draft-tokens", drafts.settings.most,
                   "Tokens that are guessed at a time; 0: 4")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  group->callback([&drafts] {
    if (drafts.settings.most && !drafts.isOn())
      throw CLI::RequiresError("--draft-tokens", "--draft or --lookup");
  });
}

void addGenerate(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("generate", "Continue a text by a language model");
  command->add_option("MODEL", settings->model, "The model (.gguf, or a folder with config.json)")
      ->required();
  auto *prompt = command->add_option("-p,--prompt", settings->prompt, "The text to continue");
  command->add_option("--prompt-file", settings->promptFile, "A file with it; '-': stdin")
      ->excludes(prompt);
  command->add_option("-n,--tokens", settings->generation.most, "Tokens to generate, at most")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--context", settings->of.context,
                   "Tokens of prompt and text, at most; 0: the model's, up to 4096")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", settings->of.threads, "Threads; 0: one for each CPU")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  addWeights(*command, settings->of);
  addCacheType(*command, settings->of);
  addDrafts(*command, settings->drafts);
  command->add_flag("--exact", settings->of.exact,
                    "Multiply weights by f32, which is not rounded to 8 bits for it");
  command->add_flag("--control", settings->control,
                    "Names of control tokens in the prompt are those tokens");
  command->add_flag("-q,--quiet", settings->quiet, "No figures on the error output");
  command->add_option("--cache-dir", settings->of.cacheDir, "Folder of compiled modules");
  command->add_flag("--no-cache", settings->of.noCache, "Compile anew, and keep nothing");
  addSampling(*command, settings->generation.sampling);
  command->footer("Examples:\n"
                  "  tensmith generate model.gguf --prompt 'Once upon a time' -n 200\n"
                  "  tensmith generate model.gguf --prompt-file question.txt --temperature 0");
  command->callback([settings, &chosen] { chosen = [settings] { return generate(*settings); }; });
}

} // namespace tensmith::cli
