// Workers leave their findings in shared memory; see Batch.h.
#include "tests/random_programs/Batch.h"

#include "compiler/graph/Dialects.h"
#include "compiler/program/Program.h"
#include "compiler/targets/Target.h"
#include "tests/random/SharedMemory.h"
#include "tests/random_programs/Check.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tensmith::random_programs {
namespace {

struct Entry {
  Verdict verdict = Verdict::Crashed;
  int64_t elements = 0, loose = 0;
  char message[600] = {};
};

class Batches {
public:
  explicit Batches(const BatchOptions &options)
      : options_(options), entries_(random_graphs::shareMemory<Entry>(size_t(options.count))) {}

  bool run() {
    if (!entries_) {
      std::fprintf(stderr, "random-programs: no memory to share with the workers\n");
      return false;
    }
    std::filesystem::create_directories(options_.folder);
    std::vector<std::pair<int64_t, int64_t>> batches, singles;
    for (int64_t i = 0; i < options_.count; i += options_.batch)
      batches.push_back({i, std::min<int64_t>(options_.batch, options_.count - i)});
    auto start = std::chrono::steady_clock::now();
    work(batches);
    // What one program does to all of its batch is put down to it.
    for (int64_t i = 0; options_.batch > 1 && i < options_.count; ++i)
      if (entries_[i].verdict != Verdict::Agrees && entries_[i].verdict != Verdict::Endless) {
        entries_[i] = {};
        singles.push_back({i, 1});
      }
    work(singles);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return summarise(seconds);
  }

private:
  void work(const std::vector<std::pair<int64_t, int64_t>> &batches) {
    int running = 0;
    for (size_t next = 0; next < batches.size() || running;) {
      if (next < batches.size() && running < options_.jobs) {
        auto [first, count] = batches[next++];
        if (fork() == 0) {
          alarm(unsigned(options_.timeoutSeconds));
          checkBatch(first, count);
          std::_Exit(0);
        }
        ++running;
        continue;
      }
      int status = 0;
      wait(&status);
      --running;
    }
  }

  void checkBatch(int64_t first, int64_t count) {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    registry.insert<program::ProgramDialect>();
    targets::registerDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    std::vector<uint64_t> seeds;
    for (int64_t i = 0; i < count; ++i)
      seeds.push_back(options_.first + uint64_t(first + i));
    CheckOptions options{options_.folder + "/kernels",
                         (seeds[0] / uint64_t(options_.batch)) % 5 == 4, options_.device};
    std::vector<Finding> findings = check(context, seeds, options);
    for (int64_t i = 0; i < count; ++i) {
      Entry &entry = entries_[first + i];
      entry.verdict = findings[size_t(i)].verdict;
      entry.elements = findings[size_t(i)].elements;
      entry.loose = findings[size_t(i)].loose;
      std::snprintf(entry.message, sizeof entry.message, "%s", findings[size_t(i)].message.c_str());
    }
  }

  bool summarise(double seconds) {
    int64_t failed = 0, endless = 0, elements = 0, loose = 0;
    for (int64_t i = 0; i < options_.count; ++i) {
      const Entry &entry = entries_[i];
      elements += entry.elements;
      loose += entry.loose;
      endless += entry.verdict == Verdict::Endless;
      if (entry.verdict == Verdict::Agrees || entry.verdict == Verdict::Endless)
        continue;
      ++failed;
      uint64_t seed = options_.first + uint64_t(i);
      std::string path = options_.folder + "/seed-" + std::to_string(seed) + ".tsm";
      std::ofstream(path) << textOf(seed);
      std::printf("%s %s: %s\n", path.c_str(), nameOf(entry.verdict), entry.message);
    }
    std::printf("%lld programs in %.0f s: %lld elements compared, %lld of them to less than 1 %%; "
                "%lld longer than the limit, %lld failed\n",
                (long long)options_.count, seconds, (long long)elements, (long long)loose,
                (long long)endless, (long long)failed);
    return failed == 0 && endless * 20 <= options_.count;
  }

  const BatchOptions &options_;
  Entry *entries_;
};

} // namespace

bool runBatches(const BatchOptions &options) { return Batches(options).run(); }

} // namespace tensmith::random_programs
