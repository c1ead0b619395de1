// Runs operations when what they read and write is ready, in program order for each variable and in
// parallel otherwise: the dependency engine of MXNet (Chen et al., "MXNet: A Flexible and Efficient
// Machine Learning Library for Heterogeneous Distributed Systems", 2015, section 3.2).
//
// A variable stands for memory. An operation is pushed with the variables that it reads and those
// that it writes. Each variable keeps a queue of the operations that have yet to get it: readers go
// together, a writer goes alone, and nobody overtakes. An operation that has got all of its
// variables is ready. So whatever threads do, each variable sees the order in which operations were
// pushed, and a program's results are those of serial execution, bit for bit.
//
// Ready operations are done by the process's workers (tensmith/workers.h) and by whoever waits. One
// that is small and ready when it is pushed runs there and then: to wake a thread takes longer.
//
// A failure stays with the variables that the failed operation writes. An operation that reads one
// of them does not run, and hands the failure on. It comes out where somebody waits.
#pragma once

#include "base/Status.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tensmith::eager {

/// Why an operation failed, and the place in the caller's program that issued it.
struct Failure {
  Status status;
  std::string place;
};

class Variable;
using VariableRef = std::shared_ptr<Variable>;

enum class Size : uint8_t { Small, Large };

/// One operation. `body` runs on any thread and keeps what it needs alive.
struct Task {
  std::function<Status()> body;
  std::vector<VariableRef> reads, writes;
  /// Of those that are written: what is as it was where the operation fails. Whoever has pushed it
  /// learns of that by another one.
  std::vector<VariableRef> kept = {};
  const char *name = "";  // for the trace; outlives the engine
  std::string place = {}; // in the caller's program; may be empty
  Size size = Size::Large;
};

struct EngineOptions {
  bool naive = false; // each operation is done before `push` returns
  int threads = 0;    // 0: as many as CPUs; the thread that waits is one of them
};

class Engine {
public:
  /// By the environment: TENSMITH_ENGINE=naive, TENSMITH_ENGINE_THREADS=n.
  static Engine &ofProcess();

  explicit Engine(EngineOptions options = {});
  ~Engine(); // waits for all
  Engine(const Engine &) = delete;

  void push(Task task);
  /// Until all that was pushed before and writes the variable is done; the failure of what did.
  /// The caller may then read. `alsoReaders`: and write.
  Status wait(Variable &variable, bool alsoReaders = false);
  /// Until all is done. Failures stay with their variables.
  void waitForAll();
  /// A variable that nothing is pushed for has not failed, from now on.
  void forgive(Variable &variable);
  /// Around a fork: all is done, and nothing is pushed until it is over. The child has no worker
  /// yet.
  void beforeFork();
  void afterFork(bool isChild);

  /// Whether `wait` would return at once, without failure.
  bool isReady(Variable &variable);
  /// Whether the calling thread is doing an operation, and so must not wait for all.
  static bool isInTask();
  /// Whether nothing is left to do, and nothing is about to be pushed: all variables are ready
  /// then.
  bool isIdle() const {
    return unfinished_.load(std::memory_order_acquire) == 0 &&
           announced_.load(std::memory_order_acquire) == 0;
  }
  /// That an operation will be pushed, by whoever lets others issue before it is.
  class Announced {
  public:
    explicit Announced(Engine &engine) : engine_(engine) { ++engine_.announced_; }
    ~Announced() { --engine_.announced_; }
    Announced(const Announced &) = delete;

  private:
    Engine &engine_;
  };
  bool naive() const { return options_.naive; }
  bool isTracing() const { return tracing_.load(std::memory_order_relaxed); }
  void setNaive(bool naive);
  int threads() const { return options_.threads; }

  /// Collects from now on when operations ran. The end gives what was collected as Chrome's trace
  /// events, which Perfetto shows.
  void beginTrace();
  std::string endTrace();

private:
  friend class Variable;
  struct Pushed;
  struct Waiting {
    Pushed *operation;
    bool writes;
  };
  struct Event {
    const char *name;
    std::string place;
    int64_t begin, end; // nanoseconds
    unsigned thread;
  };

  static bool grant(Variable &variable, bool writes, Pushed *operation);
  static bool mayHave(const Variable &variable, bool writes);
  bool runsHere(const Task &task) const;
  void release(Pushed &operation);
  void giveOn(Variable &variable);
  void runReady(std::unique_lock<std::mutex> &lock);
  void finish(std::unique_lock<std::mutex> &lock);
  /// Does what is ready while the condition holds, and waits where nothing is; the lock is held
  /// before and after.
  template <typename Condition>
  void workWhile(std::unique_lock<std::mutex> &lock, Condition condition);
  Status execute(const Task &task);
  void callWorker();
  static void work(void *self);

  EngineOptions options_;
  std::mutex mutex_;
  std::condition_variable progress_, idle_;
  std::deque<Pushed *> ready_;
  std::vector<Pushed *> free_;
  std::atomic<int64_t> unfinished_{0}, announced_{0};
  int workers_ = 0, waiting_ = 0;
  std::atomic<bool> tracing_{false};
  int64_t traceStart_ = 0;
  std::vector<Event> events_;
};

/// What operations depend on each other by. Its fields are the engine's.
class Variable {
public:
  Variable() = default;
  /// `isScratch`: of memory that holds nothing from one operation to the next, so that no failure
  /// stays with it.
  explicit Variable(bool isScratch) : isScratch_(isScratch) {}
  Variable(const Variable &) = delete;
  ~Variable() { delete queue_; }

private:
  friend class Engine;
  std::deque<Engine::Waiting> *queue_ = nullptr; // those that have not got it; null: none
  int readers_ = 0;                              // that have it
  bool written_ = false;                         // a writer has it
  bool isScratch_ = false;
  int pending_ = 0, pendingWrites_ = 0; // pushed and not done
  std::shared_ptr<const Failure> failure_;
};

} // namespace tensmith::eager
