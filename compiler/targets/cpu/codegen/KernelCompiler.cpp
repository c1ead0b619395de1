// Keys, deduplication and the workers; see KernelCompiler.h.
#include "compiler/targets/cpu/codegen/KernelCompiler.h"

#include "base/Cpus.h"
#include "cache/LoadedPlugins.h"
#include "compiler/targets/cpu/codegen/Codegen.h"
#include "compiler/targets/cpu/codegen/Dialects.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Config/llvm-config.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

constexpr char kLlvmVersion[] = LLVM_VERSION_STRING;
constexpr int kKernelsOfContext =
    64; // a context never forgets a type or attribute: a new one after so many

/// A kernel to compile, and the sources that are this kernel.
struct Job {
  Hash128 key;
  const KernelSource *source; // the first
  modules::KernelObject object;
  Status status;
  bool cached = false;
};

/// The sizes of the machine's caches are in the kernel's text, where they have a part in it. So are
/// the choices made by measured limits; those limits are in the key all the same, so that what was
/// compiled by others is told apart.
Hash128 keyOf(const KernelSource &source, const Cpu &machine) {
  Hasher hasher;
  hasher.add(kLlvmVersion);
  hasher.add(TENSMITH_CODEGEN_REVISION);
  hasher.add(cache::loadedPlugins());
  hasher.add(machine.triple);
  hasher.add(machine.cpu);
  hasher.add(machine.featureString());
  hasher.add(int64_t(machine.vectorBits));
  hasher.add(machine.limits);
  hasher.add(source.text);
  return hasher.finish();
}

class Worker {
public:
  Worker(const Cpu &machine, const CodeOptions &options) : machine_(machine), options_(options) {}

  Result<std::string> compile(const Job &job) {
    if (!context_ || ++used_ > kKernelsOfContext)
      renewContext();
    std::string problem;
    ScopedDiagnosticHandler handler(context_.get(),
                                    [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
    // The emitter's own: what it would have to be verified for, lowering refuses.
    ParserConfig config(context_.get(), /*verifyAfterParse=*/false);
    auto module = parseSourceString<ModuleOp>(job.source->text, config);
    if (!module)
      return Status(StatusCode::Internal, "its module doesn't parse: " + problem);
    CodegenOptions codegen{job.object.symbol, options_.dumpFolder};
    return compileToObject(*module, machine_, codegen);
  }

private:
  void renewContext() {
    DialectRegistry registry;
    registerCodegenDialects(registry);
    context_ = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    used_ = 0;
  }

  const Cpu &machine_;
  const CodeOptions &options_;
  std::unique_ptr<MLIRContext> context_;
  int used_ = 0;
};

/// The jobs of one call, worked on by several threads.
class Compilation {
public:
  Compilation(std::vector<Job> &jobs, const Cpu &machine, const CodeOptions &options)
      : jobs_(jobs), machine_(machine), options_(options),
        cache_(options.cacheFolder, options.cacheLimitBytes, options.warn) {}

  void run() {
    // The large ones first: a large one begun last would keep one core busy alone.
    for (Job &job : jobs_)
      order_.push_back(&job);
    std::stable_sort(order_.begin(), order_.end(), [](const Job *a, const Job *b) {
      return a->source->text.size() > b->source->text.size();
    });
    int threads = options_.threads > 0 ? options_.threads : availableCpus();
    threads = int(std::min<size_t>(size_t(threads), jobs_.size()));
    {
      std::vector<std::jthread> workers;
      workers.reserve(size_t(threads));
      try {
        for (int other = 1; other < threads; ++other)
          workers.emplace_back([this] { work(); });
      } catch (const std::system_error &) { // no more threads can be had: those there are do it
      }
      work();
    }
    cache_.trim();
  }

private:
  void work() {
    Worker worker(machine_, options_);
    for (size_t next; !failed_ && (next = next_.fetch_add(1)) < order_.size();) {
      Job &job = *order_[next];
      try {
        finish(job, worker);
      } catch (const std::bad_alloc &) {
        job.status = {StatusCode::ResourceExhausted, "no memory to compile " + job.source->label};
        failed_ = true;
      }
      report();
    }
  }

  void finish(Job &job, Worker &worker) {
    if (auto found = cache_.find(cache::Kind::Kernel, job.key)) {
      job.object.bytes = std::move(*found);
      job.cached = true;
      return;
    }
    auto object = worker.compile(job);
    if (!object) {
      job.status = object.status().within("kernel of " + job.source->label);
      failed_ = true;
      return;
    }
    job.object.bytes = std::move(*object);
    cache_.insert(cache::Kind::Kernel, job.key, job.object.bytes);
  }

  void report() {
    std::lock_guard lock(reporting_);
    ++done_;
    if (options_.progress)
      options_.progress(done_, int64_t(order_.size()));
  }

  std::vector<Job> &jobs_;
  const Cpu &machine_;
  const CodeOptions &options_;
  cache::Store cache_;
  std::vector<Job *> order_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex reporting_;
  int64_t done_ = 0;
};

} // namespace

Result<CompiledKernels> compileKernels(std::span<const KernelSource> sources, const Cpu &machine,
                                       const CodeOptions &options) {
  CompiledKernels result;
  std::map<Hash128, const KernelSource *> distinct;
  for (const KernelSource &source : sources) {
    Hash128 key = keyOf(source, machine);
    distinct.try_emplace(key, &source);
    result.symbols.push_back("k_" + toHex(key));
  }
  std::vector<Job> jobs;
  for (auto &[key, source] : distinct)
    jobs.push_back({key, source, {"k_" + toHex(key), {}}, {}, false});
  Compilation(jobs, machine, options).run();
  const Job *worst = nullptr; // the earliest source that failed
  for (Job &job : jobs) {
    if (!job.status.ok() && (!worst || job.source < worst->source))
      worst = &job;
    result.fromCache += job.cached;
    result.objects.push_back(std::move(job.object));
  }
  if (worst)
    return worst->status;
  return result;
}

} // namespace tensmith::targets::cpu
