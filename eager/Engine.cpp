// One lock guards all variables and the list of ready operations; bodies run without it. Operations
// are recycled, so that a push of an empty one takes two uncontended locks and no memory but its
// own lists'.
#include "eager/Engine.h"

#include "base/Cpus.h"

#include <tensmith/workers.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string_view>
#include <thread>

namespace tensmith::eager {

struct Engine::Pushed {
  Task task;
  int missing = 0; // variables that it has not got
};

namespace {

/// So many operations may wait; whoever pushes more does some of them first.
constexpr int64_t kMostUnfinished = 1 << 16;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

unsigned threadNumber() {
  return unsigned(std::hash<std::thread::id>()(std::this_thread::get_id()) % 100000);
}

EngineOptions fromEnvironment() {
  EngineOptions options;
  if (const char *kind = std::getenv("TENSMITH_ENGINE"))
    options.naive = std::string_view(kind) == "naive";
  if (const char *threads = std::getenv("TENSMITH_ENGINE_THREADS"))
    options.threads = std::atoi(threads);
  return options;
}

thread_local bool inTask = false;

/// Each variable once, and not as read where it is written too: an operation that got a variable as
/// a reader would wait for itself as its writer.
void makeDistinct(Task &task) {
  auto unique = [](std::vector<VariableRef> &list) {
    if (list.size() < 2)
      return;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  unique(task.reads);
  unique(task.writes);
  // They are in order: an optimiser's program has hundreds of both.
  std::erase_if(task.reads, [&](const VariableRef &read) {
    return std::binary_search(task.writes.begin(), task.writes.end(), read);
  });
}

} // namespace

Engine &Engine::ofProcess() {
  static Engine &engine = *new Engine(fromEnvironment()); // workers may outlive static objects
  return engine;
}

Engine::Engine(EngineOptions options) : options_(options) {
  if (options_.threads <= 0)
    options_.threads = availableCpus();
  ts_workers_allow(options_.threads - 1);
}

Engine::~Engine() {
  waitForAll();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return workers_ == 0; });
  for (Pushed *operation : free_)
    delete operation;
}

void Engine::setNaive(bool naive) {
  waitForAll();
  std::lock_guard lock(mutex_);
  options_.naive = naive;
}

bool Engine::mayHave(const Variable &variable, bool writes) {
  if (variable.written_ || (variable.queue_ && !variable.queue_->empty()))
    return false;
  return !writes || variable.readers_ == 0;
}

/// Whether the operation has the variable now; it is in its queue where not.
bool Engine::grant(Variable &variable, bool writes, Pushed *operation) {
  ++variable.pending_;
  variable.pendingWrites_ += writes;
  if (!mayHave(variable, writes)) {
    if (!variable.queue_)
      variable.queue_ = new std::deque<Waiting>();
    variable.queue_->push_back({operation, writes});
    return false;
  }
  variable.readers_ += !writes;
  variable.written_ |= writes;
  return true;
}

bool Engine::runsHere(const Task &task) const {
  if (task.size == Size::Large && options_.threads > 1 && !options_.naive)
    return false;
  return std::all_of(task.reads.begin(), task.reads.end(),
                     [](const VariableRef &v) { return mayHave(*v, false); }) &&
         std::all_of(task.writes.begin(), task.writes.end(),
                     [](const VariableRef &v) { return mayHave(*v, true); });
}

void Engine::push(Task task) {
  makeDistinct(task);
  std::unique_lock lock(mutex_);
  while (unfinished_ > kMostUnfinished && !ready_.empty())
    runReady(lock);
  Pushed *operation;
  if (free_.empty()) {
    operation = new Pushed();
  } else {
    operation = free_.back();
    free_.pop_back();
  }
  bool here = runsHere(task);
  operation->task = std::move(task);
  operation->missing = 0;
  ++unfinished_;
  for (const VariableRef &read : operation->task.reads)
    operation->missing += !grant(*read, false, operation);
  for (const VariableRef &written : operation->task.writes)
    operation->missing += !grant(*written, true, operation);
  if (operation->missing == 0) {
    if (here)
      ready_.push_front(operation), runReady(lock);
    else
      ready_.push_back(operation), callWorker();
  }
  if (options_.naive)
    while (unfinished_ > 0) {
      if (ready_.empty())
        progress_.wait(lock);
      else
        runReady(lock);
    }
}

/// With the lock held: one more worker, where there may be one and there is work for it.
void Engine::callWorker() {
  if (waiting_ > 0)
    progress_.notify_all();
  if (options_.naive || workers_ >= options_.threads - 1)
    return;
  ++workers_;
  if (!ts_workers_call(&Engine::work, this))
    --workers_;
}

void Engine::work(void *self) {
  auto &engine = *static_cast<Engine *>(self);
  std::unique_lock lock(engine.mutex_);
  while (!engine.ready_.empty())
    engine.runReady(lock);
  if (--engine.workers_ == 0)
    engine.idle_.notify_all();
}

/// Takes the first ready operation and does it; the lock is held before and after.
void Engine::runReady(std::unique_lock<std::mutex> &lock) {
  Pushed *operation = ready_.front();
  ready_.pop_front();
  std::shared_ptr<const Failure> failure;
  for (const auto *list : {&operation->task.reads, &operation->task.writes})
    for (const VariableRef &variable : *list)
      if (!failure)
        failure = variable->failure_;
  if (!failure) {
    lock.unlock();
    Status status = execute(operation->task);
    lock.lock();
    if (!status.ok())
      failure = std::make_shared<const Failure>(Failure{std::move(status), operation->task.place});
  }
  if (failure)
    for (const VariableRef &written : operation->task.writes)
      if (!written->failure_ && !written->isScratch_ &&
          std::ranges::find(operation->task.kept, written) == operation->task.kept.end())
        written->failure_ = failure;
  release(*operation);
  Task task = std::exchange(operation->task, Task{});
  free_.push_back(operation);
  if (waiting_ > 0 || options_.naive)
    progress_.notify_all();
  // What the operation kept alive goes without the lock: a tensor's last reference may be here. It
  // counts as unfinished until then, since who waits for all may do so for the memory.
  lock.unlock();
  task = Task{};
  lock.lock();
  if (--unfinished_ == 0 && (waiting_ > 0 || options_.naive))
    progress_.notify_all();
}

bool Engine::isInTask() { return inTask; }

Status Engine::execute(const Task &task) {
  auto run = [&] {
    bool before = std::exchange(inTask, true);
    Status status = task.body ? task.body() : Status();
    inTask = before;
    return status;
  };
  if (!tracing_)
    return run();
  int64_t begin = now();
  Status status = run();
  int64_t end = now();
  std::lock_guard lock(mutex_);
  if (tracing_)
    events_.push_back({task.name, task.place, begin, end, threadNumber()});
  return status;
}

void Engine::release(Pushed &operation) {
  for (const VariableRef &read : operation.task.reads) {
    --read->readers_;
    --read->pending_;
    giveOn(*read);
  }
  for (const VariableRef &written : operation.task.writes) {
    written->written_ = false;
    --written->pending_;
    --written->pendingWrites_;
    giveOn(*written);
  }
}

/// Gives a variable to those that are next: all readers up to a writer, or one writer.
void Engine::giveOn(Variable &variable) {
  if (!variable.queue_)
    return;
  std::deque<Waiting> &queue = *variable.queue_;
  while (!queue.empty() && !variable.written_) {
    auto [operation, writes] = queue.front();
    if (writes && variable.readers_ > 0)
      break;
    queue.pop_front();
    variable.readers_ += !writes;
    variable.written_ = writes;
    if (--operation->missing == 0) {
      ready_.push_back(operation);
      callWorker();
    }
  }
}

template <typename Condition>
void Engine::workWhile(std::unique_lock<std::mutex> &lock, Condition condition) {
  while (condition()) {
    if (!ready_.empty()) {
      runReady(lock);
      continue;
    }
    ++waiting_;
    progress_.wait(lock);
    --waiting_;
  }
}

Status Engine::wait(Variable &variable, bool alsoReaders) {
  std::unique_lock lock(mutex_);
  workWhile(lock, [&] { return (alsoReaders ? variable.pending_ : variable.pendingWrites_) > 0; });
  if (!variable.failure_)
    return {};
  const Failure &failure = *variable.failure_;
  return failure.place.empty() ? failure.status : failure.status.within(failure.place);
}

void Engine::forgive(Variable &variable) {
  std::unique_lock lock(mutex_);
  variable.failure_ = nullptr;
}

void Engine::waitForAll() {
  std::unique_lock lock(mutex_);
  finish(lock);
}

void Engine::beforeFork() {
  std::unique_lock lock(mutex_);
  finish(lock);
  lock.release();
}

void Engine::afterFork(bool isChild) {
  if (isChild) { // threads that slept in the conditions are not there
    std::construct_at(&progress_);
    std::construct_at(&idle_);
    workers_ = waiting_ = 0;
  }
  mutex_.unlock();
}

/// Does what is ready and waits for the rest; the lock is held before and after.
void Engine::finish(std::unique_lock<std::mutex> &lock) {
  workWhile(lock, [&] { return unfinished_ > 0; });
}

bool Engine::isReady(Variable &variable) {
  if (isIdle()) // then no thread but this one touches variables
    return !variable.failure_;
  std::lock_guard lock(mutex_);
  return variable.pendingWrites_ == 0 && !variable.failure_;
}

void Engine::beginTrace() {
  waitForAll();
  std::lock_guard lock(mutex_);
  tracing_ = true;
  events_.clear();
  traceStart_ = now();
}

std::string Engine::endTrace() {
  waitForAll();
  std::lock_guard lock(mutex_);
  tracing_ = false;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Event &event : events_)
    list.push_back({{"name", event.name},
                    {"ph", "X"},
                    {"pid", 1},
                    {"tid", event.thread},
                    {"ts", double(event.begin - traceStart_) * 1e-3},
                    {"dur", double(event.end - event.begin) * 1e-3},
                    {"args", {{"place", event.place}}}});
  return nlohmann::ordered_json{{"traceEvents", std::move(list)}}.dump();
}

} // namespace tensmith::eager
