// random-programs: draws programs, compiles them, and compares them with the language's evaluator.
//
//   random-programs --count 300           programs 1 to 300, as the test does
//   random-programs --first 17 --count 1  one of them
//   random-programs --print 17            its text
#include "tests/random_programs/Batch.h"
#include "tests/random_programs/Check.h"

#include <CLI/CLI.hpp>
#include <cstdio>

using namespace tensmith::random_programs;

int main(int argc, char **argv) {
  CLI::App app("Compares compiled programs, drawn at random, with the evaluator of the language.",
               "random-programs");
  BatchOptions options;
  uint64_t print = 0;
  app.add_option("--count", options.count, "Programs to draw")->capture_default_str();
  app.add_option("--first", options.first, "Seed of the first; the others count up from it")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "Processes at a time")->capture_default_str();
  app.add_option("--batch", options.batch, "Programs that are compiled as one")
      ->capture_default_str();
  app.add_option("--out", options.folder, "Where failing programs go")->capture_default_str();
  app.add_option("--timeout", options.timeoutSeconds, "Seconds that a batch may take")
      ->capture_default_str();
  app.add_option("--device", options.device,
                 "What runs the kernels: separate, or several: separate:0,separate:1");
  app.add_option("--print", print, "Print the program of a seed instead");
  CLI11_PARSE(app, argc, argv);
  if (print) {
    std::fputs(textOf(print).c_str(), stdout);
    return 0;
  }
  return runBatches(options) ? 0 : 1;
}
