// Sizes for each probe, its runs through the public interface of the runtime, and rates from their
// times.
#include "compiler/api/MeasureMachine.h"

#include "base/Cpus.h"
#include "compiler/api/Boundary.h"
#include "compiler/api/TakenStatus.h"
#include "compiler/pipeline/ProbeModule.h"
#include "compiler/targets/cpu/machine/HostCaches.h"

#include <tensmith/tensmith.h>

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <unistd.h>

using namespace tensmith::targets;
using namespace tensmith::targets::cpu;

namespace tensmith {
namespace {

constexpr double kSecondsOfProbe = 0.1;
constexpr int kFewestRuns = 8;
constexpr int kMostAttempts = 4;          // at figures that another process must have disturbed
constexpr int64_t kBytesOfRun = 32 << 20; // that a run moves within a cache
constexpr int64_t kTurnsOfRun = 400'000;  // of arithmetic
constexpr int64_t kSmallestMemory = 128ll << 20; // that no cache holds
// A worker comes late to a run's first loop, and stays for the others. Runs are short all the same,
// since on a shared machine only short ones are left alone.
constexpr int64_t kRoundsTogether = 8, kPartOfRound = 4;
constexpr int64_t kRoundsOfHandOver = 2000;
constexpr int kCalls = 2000;

template <typename Handle, void (*free)(Handle *)> struct Freed {
  void operator()(Handle *handle) const { free(handle); }
};
using ModuleHandle = std::unique_ptr<ts_module, Freed<ts_module, ts_module_free>>;
using SessionHandle = std::unique_ptr<ts_session, Freed<ts_session, ts_session_free>>;
using TensorHandle = std::unique_ptr<ts_tensor, Freed<ts_tensor, ts_tensor_free>>;

/// A probe ready to run.
struct Program {
  ModuleHandle module;
  SessionHandle session;
  TensorHandle buffer;
};

Result<Program> load(const std::string &bytes, int64_t bufferBytes, int threads) {
  Program program;
  ts_module *module = nullptr;
  if (Status status = taken(ts_module_load_bytes(bytes.data(), bytes.size(), nullptr, &module));
      !status.ok())
    return status;
  program.module.reset(module);
  ts_session_options options{};
  options.size = sizeof options;
  options.threads = threads;
  ts_session *session = nullptr;
  if (Status status = taken(ts_session_create(module, &options, &session)); !status.ok())
    return status;
  program.session.reset(session);
  ts_tensor *buffer = nullptr;
  if (Status status = taken(ts_tensor_create(TS_U8, &bufferBytes, 1, &buffer)); !status.ok())
    return status;
  program.buffer.reset(buffer);
  std::memset(ts_tensor_data(buffer), 0, size_t(bufferBytes));
  return program;
}

/// Seconds of the fastest run.
Result<double> fastest(const Program &program) {
  using Clock = std::chrono::steady_clock;
  double best = 0, spent = 0;
  for (int run = -1; run < kFewestRuns || spent < kSecondsOfProbe; ++run) {
    ts_tensor *output = program.buffer.get();
    auto begin = Clock::now();
    if (Status status = taken(ts_session_run(program.session.get(), nullptr, 0, &output, 1));
        !status.ok())
      return status;
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (run < 0) // brings memory and threads to where they are needed
      continue;
    best = run == 0 ? seconds : std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// Bytes that the process can use without making others give theirs up.
int64_t spareMemory() {
  int64_t pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? pages * bytes / 2 : kSmallestMemory;
}

int64_t roundedDown(int64_t value, int64_t multiple) {
  return std::max(value / multiple, int64_t(1)) * multiple;
}

class Measurement {
public:
  using Progress = std::function<void(const char *, double)>;

  Measurement(const Cpu &machine, const Progress &progress)
      : machine_(machine), progress_(progress), threads_(availableCpus()),
        cores_(hostCaches().empty() ? threads_
                                    : threads_ / std::max(hostCaches().front().sharedBy, 1)) {}

  Result<MachineLimits> run() {
    probes_ = {readProbe(machine_), writeProbe(machine_), copyProbe(machine_)};
    for (Probe &probe : arithmeticProbes(machine_))
      probes_.push_back(std::move(probe));
    if (Status status = compile(); !status.ok())
      return status;
    limits_.processor = hostProcessor();
    limits_.cpu = machine_.cpu;
    limits_.threads = threads_;
    for (auto stage :
         {&Measurement::measureArithmetic, &Measurement::measureMemory, &Measurement::measureCalls})
      if (Status status = (this->*stage)(); !status.ok())
        return status.within("measuring the machine");
    return limits_;
  }

private:
  enum { Read, Write, Copy, FirstArithmetic };

  Status compile() {
    std::vector<KernelSource> sources;
    for (const Probe &probe : probes_)
      sources.push_back({"a probe of the machine", probe.text});
    CodeOptions options;
    auto compiled = compileKernels(sources, machine_, options);
    if (!compiled)
      return compiled.status();
    for (const std::string &symbol : compiled->symbols)
      kernels_.push_back(
          *llvm::find_if(compiled->objects, [&](const modules::KernelObject &object) {
            return object.symbol == symbol;
          }));
    return {};
  }

  Result<double> seconds(size_t probe, const ProbeSizes &sizes, int threads, int calls = 1) {
    auto bytes = pipeline::probeModule(kernels_[probe], sizes, calls, machine_);
    if (!bytes)
      return bytes.status();
    auto program = load(*bytes, sizes.items * sizes.stride, threads);
    return program ? fastest(*program) : Result<double>(program.status());
  }

  /// The rate of `amount(threads)`, moved or computed in the time of the probe, for one thread and
  /// for all; or what it was, where that was more.
  template <typename Sizes, typename Amount>
  Status rate(size_t probe, Rate &rate, Sizes sizes, Amount amount) {
    for (auto [threads, result] : {std::pair(1, &rate.one), std::pair(threads_, &rate.all)}) {
      ProbeSizes given = sizes(threads);
      auto time = seconds(probe, given, threads);
      if (!time)
        return time.status();
      *result = std::max(*result, amount(given) / *time);
    }
    return {};
  }

  static int64_t rounds(int threads) { return threads > 1 ? kRoundsTogether : 1; }
  static int64_t part(int64_t run, int threads) { return threads > 1 ? run / kPartOfRound : run; }

  Status measureArithmetic() {
    for (size_t probe = FirstArithmetic; probe < probes_.size(); ++probe) {
      report("arithmetic of " + probes_[probe].type, 0.3 * double(probe) / double(probes_.size()));
      ArithmeticLimit limit{probes_[probe].type, probes_[probe].instruction, {}};
      for (int attempt = 0;
           attempt == 0 || (attempt < kMostAttempts && !plausible(limit.operations, cores_));
           ++attempt)
        if (Status status = measureArithmetic(probe, limit.operations); !status.ok())
          return status;
      limits_.arithmetic.push_back(limit);
    }
    return {};
  }

  Status measureArithmetic(size_t probe, Rate &operations) {
    return rate(
        probe, operations,
        [&](int threads) {
          return ProbeSizes{rounds(threads), threads, 1, part(kTurnsOfRun, threads), 4096};
        },
        [&](const ProbeSizes &sizes) {
          return double(probes_[probe].operations) * double(sizes.count) *
                 double(sizes.items * sizes.rounds);
        });
  }

  /// Bytes that one of `threads` threads works on so that they come from that cache, or from
  /// memory.
  int64_t blockBytes(const std::vector<HostCache> &caches, size_t level, int threads) const {
    if (level == caches.size()) {
      int64_t largest = caches.empty() ? 0 : caches.back().bytes;
      int64_t wanted = std::max(kSmallestMemory, 4 * largest);
      return std::min(wanted, spareMemory()) / threads;
    }
    int64_t sharing = std::min(caches[level].sharedBy, threads);
    int64_t half = caches[level].bytes / (2 * std::max<int64_t>(sharing, 1));
    // A cache that is not much larger than the one before it, and holds what that one doesn't.
    return level == 0 ? half : std::max(half, caches[level - 1].bytes * 3 / 2);
  }

  ProbeSizes memorySizes(int64_t block, int threads) const {
    int64_t vector = machine_.vectorBits / 8;
    ProbeSizes sizes;
    sizes.items = threads;
    sizes.stride = roundedDown(block, 4096);
    sizes.count = roundedDown(sizes.stride / vector, kProbeUnroll);
    sizes.passes = std::max<int64_t>(1, part(kBytesOfRun, threads) / sizes.stride);
    sizes.rounds = sizes.stride > kBytesOfRun ? 1 : rounds(threads);
    return sizes;
  }

  Status measureMemory() {
    const std::vector<HostCache> &caches = hostCaches();
    for (size_t level = 0; level <= caches.size(); ++level) {
      MemoryLimit limit;
      bool memory = level == caches.size();
      limit.name = memory ? "memory" : "L" + std::to_string(caches[level].level);
      limit.bytes = memory ? 0 : caches[level].bytes;
      limit.sharedBy = memory ? threads_ : caches[level].sharedBy;
      report("bandwidth of " + limit.name, 0.3 + 0.6 * double(level) / double(caches.size() + 1));
      auto sizes = [&](int threads) {
        return memorySizes(blockBytes(caches, level, threads), threads);
      };
      auto moved = [](const ProbeSizes &sizes) {
        return double(sizes.stride) * double(sizes.passes) * double(sizes.items * sizes.rounds);
      };
      for (auto [probe, result] :
           {std::pair(Read, &limit.bandwidth.read), std::pair(Write, &limit.bandwidth.write),
            std::pair(Copy, &limit.bandwidth.copy)})
        if (Status status = rate(probe, *result, sizes, moved); !status.ok())
          return status;
      limits_.memory.push_back(limit);
    }
    return {};
  }

  Status measureCalls() {
    report("calls", 0.95);
    ProbeSizes loops{kRoundsOfHandOver, threads_, 0, 0, 4096}, nothing{0, 1, 0, 0, 4096};
    auto handOver = seconds(Write, loops, threads_);
    if (!handOver)
      return handOver.status();
    auto calls = seconds(Write, nothing, 1, kCalls);
    if (!calls)
      return calls.status();
    limits_.handOverSeconds = *handOver / double(kRoundsOfHandOver);
    limits_.callSeconds = *calls / kCalls;
    return {};
  }

  void report(const std::string &stage, double fraction) {
    if (progress_)
      progress_(stage.c_str(), fraction);
  }

  const Cpu &machine_;
  const Progress &progress_;
  const int threads_;
  const int cores_;
  std::vector<Probe> probes_;
  std::vector<modules::KernelObject> kernels_; // of the probes
  MachineLimits limits_;
};

} // namespace

Result<MachineLimits> measureMachine(const Cpu &machine,
                                     const std::function<void(const char *, double)> &progress) {
  return Measurement(machine, progress).run();
}

} // namespace tensmith

using namespace tensmith;

ts_status *ts_describe_machine(char **json) {
  return guarded([&]() -> Status {
    if (!json)
      return missing("the result");
    Cpu machine = hostCpu();
    auto limits = keptLimits(machine);
    return copyText(describe(machine, limits ? &*limits : nullptr), json);
  });
}

ts_status *ts_measure_machine(const ts_measure_options *given, char **json) {
  return guarded([&]() -> Status {
    if (!json)
      return missing("the result");
    ts_measure_options options{};
    if (given && given->size < sizeof(size_t))
      return invalidArgument("the options' size is not set");
    if (given)
      std::memcpy(&options, given, std::min(given->size, sizeof options));
    Cpu machine = hostCpu();
    auto limits = keptLimits(machine);
    if (!limits || options.again) {
      auto measured = measureMachine(machine, [&](const char *stage, double fraction) {
        if (options.progress)
          options.progress(options.progress_context, stage, fraction);
      });
      if (!measured)
        return measured.status();
      limits = std::move(*measured);
      Status kept = keepLimits(*limits, machine);
      if (!kept.ok() && options.warn)
        options.warn(options.warn_context,
                     ("the machine's limits are not kept: " + kept.message()).c_str());
    }
    if (std::string doubt = limits->doubt(); !doubt.empty() && options.warn)
      options.warn(options.warn_context,
                   (doubt + "; 'tensmith machine --again' measures it anew").c_str());
    return copyText(describe(machine, &*limits), json);
  });
}
