// Posting a loop, taking chunks of it, and coming and going of workers; see Threads.h.
#include "runtime/Threads.h"

#include "base/Cpus.h"
#include "base/Pause.h"
#include "runtime/Workers.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr int kMaxLanes = 256;
constexpr int64_t kChunksPerLane = 4;
/// How long a worker waits for the next loop of a run: some times what waking it would take.
constexpr std::chrono::microseconds kPatience(200);

/// One lane's part of the chunks; lanes that are done with theirs take from it, too.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Loop {
  ThreadPool::Body body;
  void *closure;
  int64_t count;
  int64_t chunks; // as even as they can be
  int lanes;
  Share shares[kMaxLanes];

  int64_t begin(int64_t chunk) const {
    return count / chunks * chunk + count % chunks * chunk / chunks;
  }
};

void runChunks(Loop &loop, int lane) {
  for (int turn = 0; turn < loop.lanes; ++turn) {
    Share &share = loop.shares[(lane + turn) % loop.lanes];
    for (int64_t chunk; (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;)
      loop.body(loop.closure, loop.begin(chunk), loop.begin(chunk + 1));
  }
}

/// The stack of the body that this thread runs, and for which pool.
thread_local const ThreadPool *currentPool = nullptr;
thread_local ScratchStack *currentStack = nullptr;

class StackOfBody {
public:
  StackOfBody(const ThreadPool *pool, ScratchStack &stack)
      : stack_(stack), outerPool_(std::exchange(currentPool, pool)),
        outerStack_(std::exchange(currentStack, &stack)) {
    stack.push();
  }
  ~StackOfBody() {
    stack_.pop();
    currentPool = outerPool_;
    currentStack = outerStack_;
  }

private:
  ScratchStack &stack_;
  const ThreadPool *outerPool_;
  ScratchStack *outerStack_;
};

} // namespace

void *ScratchStack::take(int64_t bytes) {
  size_t depth = depth_.load(std::memory_order_relaxed);
  while (blocks_.size() <= depth)
    blocks_.emplace_back();
  Block &block = blocks_[depth];
  return block.reserve(std::max<int64_t>(bytes, 1)) ? block.data() : nullptr;
}

/// The workers beside the thread that runs, and the place where it posts a loop for them. A worker
/// holds the crew, so that one that begins late finds it, whatever became of the pool.
struct ThreadPool::Crew {
  explicit Crew(int workers) : posts(size_t(workers)) {}

  /// A worker's own: its place among the lanes, held from the call until it leaves.
  struct Post : Workers::Job {
    std::atomic<bool> taken{false};
    const ThreadPool *pool = nullptr; // a name for it, and no more
    std::shared_ptr<Crew> crew;       // from the call until the worker begins
    ScratchStack stack;

    static void begin(Job &job) {
      auto &post = static_cast<Post &>(job);
      std::shared_ptr<Crew> crew = std::move(post.crew);
      crew->attend(post.pool, size_t(&post - crew->posts.data()));
    }
  };

  /// Whether the place was free.
  bool post(Loop &loop) {
    if (taken.exchange(true, std::memory_order_acquire))
      return false;
    posted.store(&loop);
    number.fetch_add(1);
    return true;
  }

  /// Returns when no other thread is, or will be, in the loop: a worker, or one that waits for a
  /// task, enters before it looks for the loop, so whoever saw this one is counted when its place
  /// is found empty.
  void withdraw() {
    posted.store(nullptr);
    for (unsigned turn = 0; inside.load() > 0; ++turn)
      pauseBetweenLooks(turn);
    taken.store(false, std::memory_order_release);
  }

  /// Takes part in what is posted until nothing is for a while, or no run is on.
  void attend(const ThreadPool *pool, size_t worker) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point idleSince = Clock::now();
    uint64_t seen = 0;
    idle.fetch_add(1, std::memory_order_relaxed);
    for (unsigned turn = 0;; ++turn) {
      if (tryTask(nullptr)) {
        idleSince = Clock::now();
      } else if (uint64_t now = number.load(std::memory_order_acquire); now != seen) {
        seen = now;
        takePart(pool, int(worker) + 1, posts[worker].stack);
        idleSince = Clock::now();
      } else if (turn % 16 == 15 && (runs.load(std::memory_order_relaxed) == 0 ||
                                     Clock::now() - idleSince > kPatience)) {
        break;
      }
      pauseBetweenLooks(turn);
    }
    idle.fetch_sub(1, std::memory_order_relaxed);
    posts[worker].taken.store(false, std::memory_order_release);
  }

  /// Does the task that was offered first (of the owner's, if one is given); false where there is
  /// none. The thread counts as idle before and after.
  bool tryTask(const void *owner) {
    if (offered.load(std::memory_order_relaxed) == 0)
      return false;
    Task *task = nullptr;
    {
      std::lock_guard lock(mutex);
      auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task *candidate) {
        return !owner || candidate->owner == owner;
      });
      if (found == tasks.end())
        return false;
      task = *found;
      tasks.erase(found);
      offered.fetch_sub(1, std::memory_order_relaxed);
      idle.fetch_sub(1, std::memory_order_relaxed);
    }
    task->body(*task);
    task->done.store(true, std::memory_order_release); // the task may be gone from here on
    idle.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void takePart(const ThreadPool *pool, int lane, ScratchStack &scratch) {
    inside.fetch_add(1);
    if (Loop *loop = posted.load()) {
      StackOfBody stack(pool, scratch);
      runChunks(*loop, lane);
    }
    inside.fetch_sub(1);
  }

  std::mutex mutex;
  std::vector<Task *> tasks; // offered, the oldest first
  std::atomic<int> offered{0}, idle{0};

  std::vector<Post> posts;
  std::atomic<bool> taken{false}; // by the run whose loop is posted
  std::atomic<int> runs{0};
  alignas(64) std::atomic<Loop *> posted{nullptr};
  std::atomic<uint64_t> number{0};        // of loops posted so far
  alignas(64) std::atomic<int> inside{0}; // threads that may hold `posted`, the poster aside
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::min(threads > 0 ? threads : availableCpus(), kMaxLanes)) {
  if (threads_ == 1)
    return;
  Workers::ofProcess().allow(std::max(threads_, availableCpus()) - 1);
  crew_ = std::make_shared<Crew>(threads_ - 1);
}

ThreadPool::~ThreadPool() = default;

ThreadPool::Attendance::Attendance(ThreadPool &pool) : pool_(pool) {
  if (pool_.crew_)
    pool_.crew_->runs.fetch_add(1, std::memory_order_relaxed);
}

ThreadPool::Attendance::~Attendance() {
  if (pool_.crew_)
    pool_.crew_->runs.fetch_sub(1, std::memory_order_relaxed);
}

bool ThreadPool::hungry() const {
  return crew_ && crew_->offered.load(std::memory_order_relaxed) <
                      std::max(crew_->idle.load(std::memory_order_relaxed), 1);
}

bool ThreadPool::offer(Task &task) {
  std::lock_guard lock(crew_->mutex);
  try {
    crew_->tasks.push_back(&task);
  } catch (const std::bad_alloc &) {
    return false;
  }
  crew_->offered.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool ThreadPool::takeBack(Task &task) {
  std::lock_guard lock(crew_->mutex);
  auto found = std::find(crew_->tasks.begin(), crew_->tasks.end(), &task);
  if (found == crew_->tasks.end())
    return false;
  crew_->tasks.erase(found);
  crew_->offered.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

ThreadPool::Waiting::Waiting(ThreadPool &pool) : pool_(pool) {
  pool_.crew_->idle.fetch_add(1, std::memory_order_relaxed);
}

ThreadPool::Waiting::~Waiting() { pool_.crew_->idle.fetch_sub(1, std::memory_order_relaxed); }

void ThreadPool::Waiting::pass(const void *owner, bool mayWork) {
  Crew &crew = *pool_.crew_;
  if (mayWork && crew.tryTask(owner))
    return;
  if (uint64_t now = crew.number.load(std::memory_order_acquire); mayWork && now != seen_) {
    seen_ = now;
    return crew.takePart(&pool_, 1, scratch_);
  }
  pauseBetweenLooks(turn_++);
}

ScratchStack &ThreadPool::scratch(ScratchStack &own) {
  return currentPool == this ? *currentStack : own;
}

void ThreadPool::callWorkers(int wanted) {
  for (size_t number = 0; number < size_t(wanted); ++number) {
    Crew::Post &post = crew_->posts[number];
    if (post.taken.load(std::memory_order_relaxed) ||
        post.taken.exchange(true, std::memory_order_acq_rel))
      continue;
    post.body = Crew::Post::begin;
    post.pool = this;
    post.crew = crew_;
    if (!Workers::ofProcess().call(post)) { // the others do the work
      post.crew.reset();
      return post.taken.store(false, std::memory_order_release);
    }
  }
}

void ThreadPool::parallelFor(int64_t count, int64_t grain, Body body, void *closure,
                             ScratchStack &own) {
  if (count <= 0)
    return;
  StackOfBody stack(this, scratch(own));
  grain = std::max<int64_t>(grain, 1);
  int64_t pieces = (count - 1) / grain + 1;
  if (threads_ == 1 || pieces == 1)
    return body(closure, 0, count);
  int64_t chunks = std::min<int64_t>(pieces, threads_ * kChunksPerLane);
  Loop loop{body, closure, count, chunks, 0, {}};
  loop.lanes = int(std::min<int64_t>(threads_, chunks));
  for (int lane = 0; lane < loop.lanes; ++lane) {
    loop.shares[lane].next.store(chunks * lane / loop.lanes, std::memory_order_relaxed);
    loop.shares[lane].end = chunks * (lane + 1) / loop.lanes;
  }
  if (!crew_->post(loop))
    return body(closure, 0, count);
  callWorkers(loop.lanes - 1);
  runChunks(loop, 0);
  crew_->withdraw();
}

} // namespace tensmith::runtime
