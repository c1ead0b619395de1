// tensmith serve: a language model behind HTTP, until SIGTERM or SIGINT.
#include "client/Verbosity.h"
#include "generation/serving/Serving.h"
#include "tools/tensmith/GenerateCommand.h"

#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <thread>

namespace tensmith::cli {
namespace {

struct Settings {
  std::string model;
  generation::ModelSettings of;
  generation::ServingSettings serving;
  generation::HttpSettings http;
  DraftOptions drafts;
  int64_t bodyMegabytes = 4;
};

/// A thread of its own takes the signals, which all others leave to it. It stops the server until
/// that has ended: one that has not begun to serve yet would not notice.
class SignalsEnd {
public:
  explicit SignalsEnd(generation::HttpServer &server)
      : thread_([this, &server] {
          int signal = 0;
          ::sigwait(&set(), &signal);
          while (!hasEnded_) {
            server.stop();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
        }) {}
  ~SignalsEnd() {
    hasEnded_ = true;
    ::pthread_kill(thread_.native_handle(), SIGTERM); // where nobody sent one
    thread_.join();
  }
  static void block() { ::pthread_sigmask(SIG_BLOCK, &set(), nullptr); }

private:
  static const sigset_t &set() {
    static const sigset_t signals = [] {
      sigset_t both;
      ::sigemptyset(&both);
      ::sigaddset(&both, SIGTERM), ::sigaddset(&both, SIGINT);
      return both;
    }();
    return signals;
  }
  std::atomic<bool> hasEnded_ = false;
  std::thread thread_;
};

int serve(Settings settings) {
  SignalsEnd::block(); // before there are other threads
  if (settings.serving.name.empty()) {
    auto path = std::filesystem::weakly_canonical(settings.model);
    settings.serving.name = std::filesystem::is_directory(path) ? path.filename() : path.stem();
  }
  settings.http.bodyBytes = settings.bodyMegabytes << 20;
  auto model = generation::LanguageModel::load(settings.model, settings.of);
  settings.serving.batch.drafts = settings.drafts.loaded(settings.of, *model);
  generation::Serving serving(model, settings.serving);
  settings.http.isWelcome = [&](const auto &head) { return serving.isWelcome(head); };
  auto server = generation::openHttp(
      settings.http,
      [&](const generation::HttpRequest &request) { return serving.answer(request); },
      &generation::Serving::refusal);
  client::note(fmt::format("{} is served on http://{}:{}/v1", settings.serving.name,
                           settings.http.host, server->port()));
  SignalsEnd signals(*server);
  server->serve();
  return kSuccess;
}

template <typename Number>
void addNumber(CLI::App &command, const char *name, Number &value, const char *what, double least,
               double most) {
  command.add_option(name, value, what)->capture_default_str()->check(CLI::Range(least, most));
}

} // namespace

void addServe(CLI::App &app, Action &chosen) {
  auto settings = std::make_shared<Settings>();
  CLI::App *command = app.add_subcommand("serve", "Serve a language model over HTTP");
  command->add_option("MODEL", settings->model, "The model (.gguf, or a folder with config.json)")
      ->required();
  command
      ->add_option("--host", settings->http.host,
                   "Address to listen on; 0.0.0.0: every one there is")
      ->capture_default_str();
  addNumber(*command, "--port", settings->http.port, "Port to listen on; 0: one that is free", 0,
            65535);
  command->add_option("--key", settings->serving.key, "What clients must show as a bearer's token")
      ->envname("TENSMITH_SERVE_KEY")
      ->check([](const std::string &key) {
        return key.empty() ? "it is empty; leave it out to serve without one" : "";
      });
  command->add_option("--name", settings->serving.name,
                      "The model's, for clients; otherwise the file's");
  addNumber(*command, "--sequences", settings->serving.batch.sequences,
            "Texts that are computed at a time", 1, 1024);
  addNumber(*command, "--queue", settings->serving.queue, "Texts that run or wait, at most", 1,
            1e6);
  addNumber(*command, "--connections", settings->http.connections,
            "Connections that are served at a time", 1, 4096);
  addNumber(
      *command, "--client-seconds", settings->http.seconds,
      "Seconds that a client may take for a request's head, or to read; six times that for a body",
      1, 3600);
  addNumber(*command, "--body", settings->bodyMegabytes, "Megabytes of a request, at most", 1,
            1024);
  addNumber(*command, "--context", settings->of.context,
            "Tokens of prompt and text, at most; 0: the model's, up to 4096", 0, 1e9);
  addNumber(*command, "--cache-tokens", settings->serving.batch.cacheTokens,
            "Tokens of all texts together; 0: four contexts", 0, 1e9);
  addNumber(*command, "--threads", settings->of.threads, "Threads; 0: one for each CPU", 0, 1e6);
  addWeights(*command, settings->of);
  addCacheType(*command, settings->of);
  addDrafts(*command, settings->drafts);
  command->add_flag("--exact", settings->of.exact,
                    "Multiply weights by f32, which is not rounded to 8 bits for it");
  command->add_option("--cache-dir", settings->of.cacheDir, "Folder of compiled modules");
  command->add_flag("--no-cache", settings->of.noCache, "Compile anew, and keep nothing");
  command->footer("Examples:\n"
                  "  tensmith serve model.gguf --port 8080\n"
                  "  tensmith serve model.gguf --host 0.0.0.0 --key secret --sequences 32");
  command->callback([settings, &chosen] { chosen = [settings] { return serve(*settings); }; });
}

} // namespace tensmith::cli
