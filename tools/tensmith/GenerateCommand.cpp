// tensmith generate: text from a language model, as it comes.
#include "tools/tensmith/GenerateCommand.h"
#include "files/Files.h"
#include "generation/LanguageModel.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>
#include <iterator>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model, prompt, promptFile;
  bool quiet = false, control = false;
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

double rate(size_t tokens, double seconds) { return seconds > 0 ? double(tokens) / seconds : 0; }

int generate(const Settings &settings) {
  auto model = generation::LanguageModel::load(settings.model, settings.of);
  generation::Context context(model);
  auto prompt = model->tokenizer().encode(promptOf(settings), settings.control, /*begins=*/true);
  if (prompt.empty())
    failUsage("the prompt has no tokens; give a text with --prompt or --prompt-file");
  auto result = generation::generate(context, prompt, settings.generation,
                                     [](generation::Token, const std::string &bytes) {
                                       std::cout << bytes << std::flush;
                                       return true;
                                     });
  std::cout << std::endl;
  if (!settings.quiet)
    std::cerr << fmt::format(
        "prompt: {} tokens, {:.1f} a second; generated: {} tokens, {:.1f} a second\n",
        prompt.size(), rate(prompt.size(), result.promptSeconds), result.tokens.size(),
        // The first comes of the prompt.
        rate(result.tokens.size() - !result.tokens.empty(), result.stepSeconds));
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

void addGenerate(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("generate", "Continue a text by a language model");
  command->add_option("MODEL", settings->model, "The model (.gguf)")->required();
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
