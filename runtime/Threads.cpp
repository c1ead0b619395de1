// Counting CPUs, cutting a loop into chunks, and handing them to oneTBB's workers.
#include "runtime/Threads.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sched.h>
#include <string>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace tensmith::runtime {
namespace {

constexpr int kMaxLanes = 256;
constexpr int64_t kChunksPerLane = 4;

int cpusOfAffinity() {
  // The kernel refuses a set smaller than its own.
  for (size_t cpus = 1024; cpus <= (size_t(1) << 20); cpus *= 2) {
    std::vector<unsigned long> set(cpus / (CHAR_BIT * sizeof(unsigned long)));
    size_t bytes = set.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t *>(set.data())) == 0)
      return std::max(1, CPU_COUNT_S(bytes, reinterpret_cast<cpu_set_t *>(set.data())));
  }
  return 1;
}

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int smallerQuota(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// The least quota of a group and the groups around it; 0 for none.
template <typename Read> int quotaOfGroups(std::string path, Read read) {
  int quota = 0;
  while (true) {
    quota = smallerQuota(quota, read(path));
    size_t slash = path.rfind('/');
    if (slash == std::string::npos)
      return quota;
    path.resize(slash);
  }
}

int quotaOfVersion1(const std::string &folder) {
  std::string quota = firstLine(folder + "/cpu.cfs_quota_us");
  std::string period = firstLine(folder + "/cpu.cfs_period_us");
  return quota.empty() || quota[0] == '-' ? 0 : cpusOfQuota((quota + " " + period).c_str());
}

/// Lines of /proc/self/cgroup are "number:controllers:path"; version 2's is "0::path".
int cpusOfControlGroup() {
  std::ifstream groups("/proc/self/cgroup");
  int quota = 0;
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/")
      path.clear();
    if (controllers == ",,")
      quota = smallerQuota(quota, quotaOfGroups(path, [](const std::string &group) {
                             return cpusOfQuota(
                                 firstLine("/sys/fs/cgroup" + group + "/cpu.max").c_str());
                           }));
    else if (controllers.find(",cpu,") != std::string::npos)
      quota = smallerQuota(quota, quotaOfGroups(path, [](const std::string &group) {
                             return quotaOfVersion1("/sys/fs/cgroup/cpu" + group);
                           }));
  }
  return quota;
}

/// One lane's part of the chunks; lanes that are done with theirs take from it, too.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  ThreadPool::Body body;
  void *closure;
  int64_t count;
  int64_t step;
  int lanes;
  ScratchStack *stacks; // one for each place of the arena
  // TBB orders the lanes' work with the caller's already; these say the same to ThreadSanitizer,
  // which can't see into TBB.
  std::atomic<bool> ready{false};
  std::atomic<int> finished{0};
  Share shares[kMaxLanes];
};

void runChunks(Job &job, int lane) {
  for (int turn = 0; turn < job.lanes; ++turn) {
    Share &share = job.shares[(lane + turn) % job.lanes];
    for (int64_t chunk; (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;)
      job.body(job.closure, chunk * job.step, std::min(job.count, (chunk + 1) * job.step));
  }
}

/// The stack of the body that this thread runs, and for which pool.
thread_local const ThreadPool *currentPool = nullptr;
thread_local ScratchStack *currentStack = nullptr;

} // namespace

int cpusOfQuota(const char *cpuMax) {
  double quota = 0, period = 0;
  if (std::sscanf(cpuMax, "%lf %lf", &quota, &period) != 2 || quota <= 0 || period <= 0)
    return 0;
  double cpus = quota / period;
  return cpus >= INT_MAX ? 0 : std::max(1, int(cpus + 0.999));
}

int availableCpus() { return smallerQuota(cpusOfAffinity(), cpusOfControlGroup()); }

void *ScratchStack::take(int64_t bytes) {
  size_t depth = depth_.load(std::memory_order_relaxed);
  while (blocks_.size() <= depth)
    blocks_.emplace_back();
  Block &block = blocks_[depth];
  return block.reserve(std::max<int64_t>(bytes, 1)) ? block.data() : nullptr;
}

struct ThreadPool::Arena {
  explicit Arena(int threads) : arena(threads, 1), stacks(size_t(threads)) {
    // TBB makes no more workers than CPUs, and says so on stderr, unless more are allowed.
    if (threads > tbb::info::default_concurrency())
      allowed.emplace(tbb::global_control::max_allowed_parallelism, size_t(threads));
  }
  std::optional<tbb::global_control> allowed;
  tbb::task_arena arena;
  std::vector<ScratchStack> stacks;
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::min(threads > 0 ? threads : availableCpus(), kMaxLanes)) {
  if (threads_ > 1)
    arena_ = std::make_unique<Arena>(threads_);
}

ThreadPool::~ThreadPool() = default;

ScratchStack &ThreadPool::scratch(ScratchStack &own) {
  return currentPool == this ? *currentStack : own;
}

namespace {

/// What TBB copies into its tasks and calls. Not instrumented: the copy travels through TBB, whose
/// ordering ThreadSanitizer does not know.
struct Lane {
  Job *job;
  const ThreadPool *pool;

  __attribute__((no_sanitize("thread"))) void operator()(int lane) const { run(job, pool, lane); }

  static void run(Job *job, const ThreadPool *pool, int lane) {
    if (!job->ready.load(std::memory_order_acquire))
      return;
    const ThreadPool *outerPool = std::exchange(currentPool, pool);
    ScratchStack *outerStack =
        std::exchange(currentStack, &job->stacks[tbb::this_task_arena::current_thread_index()]);
    currentStack->push();
    runChunks(*job, lane);
    currentStack->pop();
    currentStack = outerStack;
    currentPool = outerPool;
    job->finished.fetch_add(1, std::memory_order_release);
  }
};

/// Hands out the lanes of a job. TBB calls it from another thread where the arena has no place left
/// for the caller; not instrumented, as above.
struct Spread {
  Job *job;
  const ThreadPool *pool;

  __attribute__((no_sanitize("thread"))) void operator()() const { run(job, pool); }

  static void run(Job *job, const ThreadPool *pool) {
    if (!job->ready.load(std::memory_order_acquire))
      return;
    // Isolated: while this thread waits for its own lanes, it takes up no other run's work.
    tbb::this_task_arena::isolate(
        [=] { tbb::parallel_for(0, job->lanes, 1, Lane{job, pool}, tbb::simple_partitioner()); });
  }
};

} // namespace

void ThreadPool::parallelFor(int64_t count, int64_t grain, Body body, void *closure,
                             ScratchStack &own) {
  if (count <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t pieces = (count - 1) / grain + 1;
  if (threads_ == 1 || pieces == 1) {
    ScratchStack &stack = scratch(own);
    stack.push();
    body(closure, 0, count);
    return stack.pop();
  }
  int64_t wanted = std::min<int64_t>(pieces, threads_ * kChunksPerLane);
  Job job;
  job.body = body;
  job.closure = closure;
  job.count = count;
  job.step = (count - 1) / wanted + 1;
  int64_t chunks = (count - 1) / job.step + 1;
  job.lanes = int(std::min<int64_t>(threads_, chunks));
  job.stacks = arena_->stacks.data();
  for (int lane = 0; lane < job.lanes; ++lane) {
    job.shares[lane].next.store(chunks * lane / job.lanes, std::memory_order_relaxed);
    job.shares[lane].end = chunks * (lane + 1) / job.lanes;
  }
  job.ready.store(true, std::memory_order_release);
  try {
    arena_->arena.execute(Spread{&job, this});
  } catch (...) { // TBB could not have memory for its tasks: what is left is done here
    ScratchStack &stack = scratch(own);
    stack.push();
    runChunks(job, 0);
    stack.pop();
  }
  (void)job.finished.load(std::memory_order_acquire);
}

} // namespace tensmith::runtime
