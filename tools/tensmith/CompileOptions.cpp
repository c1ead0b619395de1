// The options of a compilation, which all commands that take a model have.
#include "base/Precision.h"
#include "tools/tensmith/Commands.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

namespace tensmith::cli {
namespace {

/// What runs of modules heed as well.
constexpr std::array<std::string_view, 5> kOfRunsToo = {"--shape", "--keep", "--plugin",
                                                        "--memory-limit", "--time-limit"};

void noteGiven(const CLI::App &group, CompileSettings &settings) {
  settings.ofModels.clear();
  for (const CLI::Option *option : group.get_options())
    if (option->count() > 0 &&
        std::ranges::find(kOfRunsToo, option->get_name()) == kOfRunsToo.end())
      settings.ofModels.push_back(option->get_name());
}

} // namespace

void addCompilation(CLI::App &command, CompileSettings &settings, bool threadsToo) {
  auto *group = command.add_option_group("Compilation", "For models; modules are compiled already");
  group
      ->add_option(
          "--shape", settings.shapes,
          "Fix an input's dimensions or a symbol, of a module those of inputs that are made up: "
          "image=1x3x224x224, batch=4 (repeatable)")
      ->type_name("NAME=DIMS")
      ->allow_extra_args(false);
  group
      ->add_option("--keep", settings.keep,
                   "A tensor on the way that becomes an output, by its name; '*': all (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  group
      ->add_option(
          "--target", settings.target,
          "CPU to compile for: host (default), x86-64-v3, znver4,-avx512f, aarch64:cortex-a76,\n"
          "riscv64:rv64gcv,zvl256b, ...")
      ->type_name("CPU");
  group
      ->add_option("--plugin", settings.plugins,
                   "A shared library that adds operators, rewrites, templates or targets "
                   "(repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  group
      ->add_option("--dump-ir", settings.dumpIr,
                   "Write each stage of the compilation there, numbered")
      ->type_name("DIR");
  group
      ->add_option("--cache", settings.cacheDir,
                   "Folder of compiled kernels and modules (default: $TENSMITH_CACHE)")
      ->type_name("DIR");
  group->add_flag("--no-cache", settings.noCache, "Compile everything afresh, and keep nothing");
  group
      ->add_option("--optimize,-O", settings.optimization,
                   "0: no fusion, programs as written; 1: fused, programs partially "
                   "evaluated (default)")
      ->type_name("LEVEL")
      ->check(CLI::Range(0, 1));
  // The last is of steps of training, which `tensmith train` makes.
  std::vector<std::string> policies(kPrecisionNames.begin(), kPrecisionNames.end() - 1);
  group
      ->add_option("--precision", settings.precision,
                   "fast (default): algorithms with fewer operations, that round differently; "
                   "exact: the model's own sums; bf16: as fast, with operands of products in bf16 "
                   "where that is faster (f16 is one of `tensmith train`)")
      ->type_name("POLICY")
      ->check(CLI::IsMember(policies));
  group
      ->add_option(
          "--calibrate", settings.calibrate,
          "Hold the results against double precision, on random inputs or those of an .npz "
          "file; layers that make them err beyond the policy's bound fall back")
      ->type_name("random|FILE");
  group
      ->add_option("--casts", settings.casts,
                   "What is rounded under bf16 and f16, in place of operators' own rules: of "
                   "operators, nodes or their types always, never, or where what reads it is")
      ->type_name("NAME=RULE")
      ->delimiter(',');
  group->add_flag("--fast-math", settings.fastMath,
                  "Rewrite expressions by rules of real numbers, too: roundings change, and what "
                  "overflows, is infinite or no number may become another");
  group->add_flag("!--no-debug-info", settings.debugInfo,
                  "The module does not tell debuggers and profilers which node and line of the "
                  "model a kernel is of");
  group
      ->add_option(
          "--schedules", settings.schedules,
          "Choices for kernels, as `tensmith inspect --chosen-schedules` prints them (JSON)")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  group
      ->add_option("--function", settings.function,
                   "Of a text of comprehensions (.tc) that has several: the one to compile")
      ->type_name("NAME");
  group
      ->add_option_function<std::string>(
          "--tuned", [&settings](const std::string &file) { settings.tuned = {file, true}; },
          "A database of tuned points, as `tensmith tune` writes it (default: $TENSMITH_TUNED, or "
          "that of the cache's folder)")
      ->type_name("FILE");
  group->add_flag_function(
      "--no-tuned", [&settings](int64_t) { settings.tuned = {"", false}; },
      "Choose by estimates, whatever tuning has found");
  group
      ->add_option(
          "--libraries", settings.libraries,
          "Who does products, convolutions, softmax and layer norm: generated (default); "
          "onednn, openblas, xsmm or a list of them, the first that can; measured: whoever is "
          "fastest here, by whichever algorithm is")
      ->type_name("NAMES");
  group->add_flag("--evaluate-by-reference", settings.byReference,
                  "No kernels: every operator by its reference evaluation");
  group->add_flag("--verify-each-pass", settings.verifyEachPass,
                  "Evaluate the graph by the reference after each rewrite, on made-up inputs, and "
                  "name the one that changes a result (slow)");
  group->add_flag("--check-bounds", settings.checkBounds,
                  "Kernels refuse each access outside of their operands, which is a fault of the "
                  "compiler (slow)");
  group
      ->add_option(
          "--reproducer", settings.reproducer,
          "Where a failing compilation leaves its graph (default: in the temporary folder)")
      ->type_name("FILE");
  group
      ->add_option("--memory-limit", settings.memoryLimit,
                   "Of the tensors of a compilation, and of a run: 512MB, 4GB (default: the "
                   "machine's memory)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::PositiveNumber);
  group
      ->add_option("--memory", settings.memory,
                   "What a run may hold, inputs and weights included: 2GiB, 500MB. Of a step of "
                   "training, values are then computed again for the gradients (default: any)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::PositiveNumber);
  group
      ->add_option("--recomputation", settings.recomputation,
                   "What is computed again: cost (default), the least work that does; segments, or "
                   "recursive, parts of the network and parts within parts")
      ->type_name("PLAN")
      ->check(CLI::IsMember({"cost", "segments", "recursive"}));
  group->add_flag("--for-evaluation", settings.forEvaluation,
                  "Of a model that was exported for training: dropout drops nothing, and batch "
                  "normalisation takes its running statistics");
  group
      ->add_option("--device", settings.device,
                   "What runs the kernels, with memory of its own: separate, the host's processor "
                   "with memory that the host can't touch, to see what is copied; or several, "
                   "separate:0,separate:1, of which each gets a part of the kernels (default: the "
                   "host)")
      ->type_name("NAMES");
  group
      ->add_option("--time-limit", settings.timeLimit,
                   "Seconds that a compilation, or a run, may take (default: 3600; -1: no limit)")
      ->type_name("SECONDS");
  group->add_option("--node-limit", settings.nodeLimit, "Of the model's nodes (default: 1000000)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  group
      ->add_option("--nesting-limit", settings.nestingLimit,
                   "Of subgraphs and functions in one another (default: 64)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  if (threadsToo)
    group
        ->add_option("--threads", settings.threads, "Of the compilation (default: as many as CPUs)")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
  command.parse_complete_callback([group, &settings] { noteGiven(*group, settings); });
}

} // namespace tensmith::cli
