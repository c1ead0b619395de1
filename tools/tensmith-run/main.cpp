// tensmith-run: runs a module where there is nothing but this file. Reads the arguments, and says
// on stderr what failed: "tensmith-run: file: what; what to do".
#include "tools/tensmith-run/Commands.h"
#include "tools/tensors/Failures.h"

#include <CLI/CLI.hpp>

#include <tensmith/tensmith.hpp>

#include <cstdio>
#include <iostream>

using namespace tensmith;
using namespace tensmith::cli;

namespace {

int report(const std::string &message, int status) {
  std::fprintf(stderr, "tensmith-run: %s\n", message.c_str());
  return status;
}

void addOptions(CLI::App &app, RunSettings &settings) {
  app.add_option("MODULE", settings.file, "What `tensmith compile` wrote for this machine");
  app.add_option("--input,-i", settings.inputs,
                 "NAME=file.npy, NAME=1x3x224x224xf32=random (or zeros, ones, range), or\n"
                 "NAME=random where the size is known. The only input's name may be left out\n"
                 "(repeatable)")
      ->type_name("WHAT")
      ->allow_extra_args(false);
  app.add_option("--shape", settings.shapes,
                 "Sizes of what is made up, an input's or a symbol's: image=1x3x224x224, batch=4 "
                 "(repeatable)")
      ->type_name("NAME=DIMS")
      ->allow_extra_args(false);
  app.add_option("--out,-o", settings.outputFolder, "Save each output there as NAME.npy")
      ->type_name("FOLDER");
  app.add_option("--repeat,-n", settings.repeat,
                 "Run so many times more, and say how long a run takes")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--seconds", settings.seconds,
                 "Run five times more, and until that took so long together")
      ->type_name("S")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--threads", settings.threads, "Default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  app.add_option("--seed", settings.seed, "Of random inputs and random operators (default 0)")
      ->type_name("N");
  app.add_flag("--verify", settings.verify, "Check the hash of the module's weights first");
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app(
      "Runs a compiled module, and prints its outputs' types and shapes, the time that it\n"
      "took and the memory that it needed, as JSON.",
      "tensmith-run");
  app.footer(
      "Examples:\n"
      "  tensmith-run model.so --signature\n"
      "  tensmith-run model.so --input x=x.npy --out results/\n"
      "  tensmith-run model.so --input x=1x3x224x224xf32=random --repeat 100\n"
      "  tensmith-run --machine\n"
      "Times are in milliseconds: load_ms of opening the module, first_ms of the first run,\n"
      "median_ms, min_ms and max_ms of the N runs after it. Exit status: 0 done, 1 failed,\n"
      "2 the command line can't be meant.");
  app.set_version_flag("--version", std::string("tensmith-run ") + ts_version());
  RunSettings settings;
  bool signature = false, machine = false;
  addOptions(app, settings);
  app.add_flag("--signature", signature, "Print the module's inputs and outputs, and run nothing");
  app.add_flag("--machine", machine, "Print this machine's kind, its CPUs and their features");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help and --version
      return app.exit(error);
    return report(std::string(error.what()) + "; see tensmith-run --help", kUsage);
  }
  if (!machine && settings.file.empty())
    return report("no module is given; see tensmith-run --help", kUsage);
  int status = withFailuresSaid(
      [&] {
        if (machine)
          describeMachine();
        else if (signature)
          describeSignature(settings);
        else
          run(settings);
        return int(kSuccess);
      },
      report);
  std::cout.flush();
  if (!std::cout && status == kSuccess)
    return report("the output can't be written; free some space, or write elsewhere", kFailure);
  return status;
}
