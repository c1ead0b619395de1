// Workers are forked before any thread exists, take the next seed from shared memory, and leave
// their verdicts there; see Batch.h.
#include "tests/random/Batch.h"

#include "tests/random/BrokenSizes.h"
#include "tests/random/Check.h"
#include "tests/random/Generator.h"
#include "tests/random/OpenForm.h"
#include "tests/random/Reducer.h"
#include "tests/random/SharedMemory.h"
#include "tests/random/TimeLimit.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

constexpr int kGraphsOfWorker = 50; // a context never forgets a type: a new process after so many
constexpr int64_t kMostBehind = 2;  // one that was asked for by its name
constexpr size_t kMostOperators = 512;
constexpr int kMostReduced = 12; // the rest are most likely the same mistakes

struct Entry {
  std::atomic<int> worker{0};
  std::atomic<bool> done{false};
  bool announced = false;
  Verdict verdict = Verdict::Crashed;
  int64_t elements = 0, loose = 0, nodes = 0;
  double seconds = 0;
  char message[600] = {};
};

struct Shared {
  std::atomic<int64_t> next{0};
  std::atomic<uint32_t> drawn[kMostOperators];
};

class Batch {
public:
  Batch(MLIRContext &context, const BatchOptions &options)
      : context_(context), options_(options), operators_(operatorsToDraw(&context)),
        shared_(shareMemory<Shared>(1)), entries_(shareMemory<Entry>(size_t(options.count))) {}

  bool run() {
    if (!shared_ || !entries_ || operators_.size() > kMostOperators)
      return complain("no memory to share with the workers");
    auto start = std::chrono::steady_clock::now();
    std::printf("random-graphs: seeds %llu to %llu\n", (unsigned long long)options_.first,
                (unsigned long long)(options_.first + uint64_t(options_.count) - 1));
    std::fflush(stdout);
    supervise();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summarise();
  }

private:
  static bool fuses(uint64_t seed) { return seed % 10 != 0; }

  /// Of open sizes each pair of choices comes up together: a covering array of three in four rows,
  /// with sizes by reference alone now and then.
  CheckOptions formOf(uint64_t seed, const std::string &cache) const {
    CheckOptions form{cache, options_.device, fuses(seed), {}};
    form.checkBounds = options_.checkBounds;
    form.target = options_.target;
    form.runner = options_.runner;
    form.points = options_.points;
    form.seed = seed;
    if (!options_.openRuns)
      return form;
    constexpr bool kRows[][3] = {
        {true, false, false}, {true, true, true}, {false, false, true}, {false, true, false}};
    const bool *row = kRows[seed % 4];
    form.fuse = row[0];
    form.precision = row[1] ? Precision::Exact : Precision::Fast;
    form.byReference = row[2] && seed % 3 == 0;
    return form;
  }

  OwningOpRef<ModuleOp> graphOf(uint64_t seed) {
    return random_graphs::graphOf(context_, options_, seed);
  }

  static bool complain(const std::string &text) {
    std::fprintf(stderr, "random-graphs: %s\n", text.c_str());
    return false;
  }

  void work() {
    for (int done = 0; done < kGraphsOfWorker; ++done) {
      int64_t index = shared_->next.fetch_add(1);
      if (index >= options_.count)
        return;
      Entry &entry = entries_[index];
      entry.worker = getpid();
      limitTime(options_.timeoutSeconds);
      auto start = std::chrono::steady_clock::now();
      record(entry, options_.first + uint64_t(index));
      entry.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      entry.done = true;
      if (options_.toFirst && isFailure(entry))
        shared_->next = options_.count;
    }
  }

  static bool isFailure(const Entry &entry) {
    return entry.verdict != Verdict::Agrees && entry.verdict != Verdict::NotEvaluated &&
           entry.verdict != Verdict::NotEmulated;
  }

  void record(Entry &entry, uint64_t seed) {
    auto module = graphOf(seed);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    for (Operation &op : function.getBody().front())
      for (size_t i = 0; i < operators_.size(); ++i)
        if (operators_[i].name == op.getName()) {
          ++shared_->drawn[i];
          ++entry.nodes;
        }
    if (!options_.breaking.empty() && llvm::none_of(function.getBody().front(), [&](Operation &op) {
          return hasRequirement(&op, options_.breaking);
        })) { // there is nothing to break
      entry.verdict = Verdict::Agrees;
      return;
    }
    Report report = check(*module, formOf(seed, ""));
    entry.elements = report.elements;
    entry.loose = report.loose;
    std::snprintf(entry.message, sizeof entry.message, "%s", report.message.c_str());
    entry.verdict = report.verdict;
  }

  void supervise() {
    int running = 0;
    while (true) {
      while (running < options_.jobs && shared_->next < options_.count) {
        pid_t child = fork();
        if (child == 0) {
          work();
          std::_Exit(0);
        }
        if (child < 0)
          break;
        ++running;
      }
      if (running == 0)
        return;
      int status = 0;
      pid_t child = wait(&status);
      --running;
      if (WIFSIGNALED(status))
        putDown(child, WTERMSIG(status));
      announce();
    }
  }

  /// What failed since the last time: a long run says it at once, and reduces at the end.
  void announce() {
    for (int64_t i = 0; i < options_.count; ++i) {
      Entry &entry = entries_[i];
      if (!entry.done || entry.announced || entry.verdict == Verdict::Agrees)
        continue;
      entry.announced = true;
      std::printf("seed %llu %s: %s\n", (unsigned long long)(options_.first + uint64_t(i)),
                  nameOf(entry.verdict).data(), entry.message);
    }
    std::fflush(stdout);
  }

  /// The graph that a dead worker had in hand.
  void putDown(pid_t child, int signal) {
    for (int64_t i = 0; i < options_.count; ++i)
      if (entries_[i].worker == child && !entries_[i].done) {
        entries_[i].verdict = endsByTimeLimit(signal) ? Verdict::Hung : Verdict::Crashed;
        std::snprintf(entries_[i].message, sizeof entries_[i].message, "%s", strsignal(signal));
        entries_[i].done = true;
        if (options_.toFirst)
          shared_->next = options_.count;
      }
  }

  bool summarise() {
    int64_t drawn = 0, failed = 0, skipped = 0, lost = 0, elements = 0, loose = 0, nodes = 0;
    for (int64_t i = 0; i < options_.count; ++i) {
      const Entry &entry = entries_[i];
      if (!entry.done)
        continue;
      ++drawn;
      elements += entry.elements;
      loose += entry.loose;
      nodes += entry.nodes;
      skipped += entry.verdict == Verdict::NotEvaluated;
      lost += entry.verdict == Verdict::NotEmulated;
      if (entry.verdict == Verdict::Agrees)
        continue;
      failed += isFailure(entry);
      describe(entry, options_.first + uint64_t(i));
    }
    bool covered = coverage();
    const Entry *slowest = std::max_element(entries_, entries_ + options_.count,
                                            [](auto &a, auto &b) { return a.seconds < b.seconds; });
    std::printf("slowest: seed %llu, %.1f s\n",
                (unsigned long long)(options_.first + uint64_t(slowest - entries_)),
                slowest->seconds);
    std::printf("%lld graphs of %lld nodes in %.0f s: %lld elements compared, %lld of them to less "
                "than 1 %%; %lld not evaluated, %lld failed\n",
                (long long)drawn, (long long)nodes, seconds_, (long long)elements, (long long)loose,
                (long long)skipped, (long long)failed);
    if (lost > 0)
      std::printf("%lld not emulated\n", (long long)lost);
    return failed == 0 && skipped * 50 <= drawn && lost * 10 <= drawn &&
           (covered || !options_.allOperators);
  }

  void describe(const Entry &entry, uint64_t seed) {
    std::string path = options_.folder + "/seed-" + std::to_string(seed) + ".mlir";
    (void)llvm::sys::fs::create_directories(options_.folder);
    auto module = graphOf(seed);
    if (options_.reduce && isFailure(entry) && reduced_++ < kMostReduced)
      module = reduceGraph(*module, entry.verdict, formOf(seed, options_.folder + "/kernels"),
                           options_.timeoutSeconds);
    std::error_code error;
    llvm::raw_fd_ostream file(path, error);
    if (error) {
      complain("cannot write '" + path + "': " + error.message());
      return;
    }
    module->print(file);
    CheckOptions form = formOf(seed, "");
    std::printf("  random-graphs --replay %s%s%s%s%s\n", path.c_str(),
                form.fuse ? "" : " --no-fuse", form.precision == Precision::Exact ? " --exact" : "",
                form.byReference ? " --by-reference" : "",
                form.checkBounds ? " --check-bounds" : "");
  }

  bool coverage() {
    std::string missing;
    for (size_t i = 0; i < operators_.size(); ++i)
      if (shared_->drawn[i] == 0 && operators_[i].weight > 0)
        missing += " " + operators_[i].name.stripDialect().str();
    std::printf("%zu operators%s%s\n", operators_.size(),
                missing.empty() ? ", all drawn" : "; never drawn:", missing.c_str());
    return missing.empty();
  }

  MLIRContext &context_;
  const BatchOptions &options_;
  const std::vector<DrawnOperator> &operators_;
  Shared *shared_;
  Entry *entries_;
  double seconds_ = 0;
  int reduced_ = 0;
};

/// The operator that a graph must have: each in turn of those that were named, or, by the first
/// seeds of a run that is to draw all, of all; else none.
std::string chosen(MLIRContext &context, const BatchOptions &options, uint64_t seed) {
  const std::vector<std::string> &names = options.operators;
  if (!names.empty())
    return names[seed % names.size()];
  const std::vector<DrawnOperator> &all = operatorsToDraw(&context);
  if (!options.allOperators || seed == 0 || seed > all.size() || all[seed - 1].weight <= 0)
    return {};
  return all[seed - 1].name.stripDialect().str();
}

} // namespace

OwningOpRef<ModuleOp> graphOf(MLIRContext &context, const BatchOptions &options, uint64_t seed) {
  OwningOpRef<ModuleOp> module;
  if (std::string name = chosen(context, options, seed); !name.empty())
    module = Generator(&context, seed).runOperator(name, kMostBehind);
  if (!module) // of any operators where the chosen one didn't come to a graph
    module = Generator(&context, seed).run();
  if (options.openRuns)
    if (auto open = openSizes(*module, seed, options.openRuns, options.breaking))
      return open;
  return module;
}

bool runBatch(MLIRContext &context, const BatchOptions &options) {
  return Batch(context, options).run();
}

} // namespace tensmith::random_graphs
