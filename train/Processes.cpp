// One at a time drives: one that waits, or else the thread; see Processes.h.
#include "train/Processes.h"

#include "files/Failure.h"
#include "train/BesideRuntime.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tensmith::train {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);
/// So long one that waits looks without a pause. What takes longer waits for a process that is
/// behind. It doesn't yield either where each thread has a CPU: another program that runs would get
/// a slice of milliseconds. Where processes share CPUs it does, since this may be that of the one
/// that is waited for: four on two CPUs take less than half the time for a step then.
constexpr auto kSpin = std::chrono::milliseconds(2);

} // namespace

Processes::Processes(Open open, double seconds, int threads)
    : seconds_(seconds), thread_([this, open = std::move(open), threads] { work(open, threads); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return opened_ || failure_; });
  if (!failure_)
    return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(failure_);
}

Processes::~Processes() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

int64_t Processes::begin(const Collective &collective, std::string label,
                         std::function<void()> then, bool soon) {
  std::lock_guard lock(mutex_);
  if (!soon && !driven_ &&
      waiting_ == 0) // else whoever drives finds it, or leaves it to the thread
    work_.notify_one();
  return enqueue(collective, std::move(label), std::move(then));
}

int64_t Processes::enqueue(const Collective &collective, std::string label,
                           std::function<void()> then) {
  int64_t number = next_++;
  open_[number] = true;
  queue_.push_back({number, 0, collective, std::move(label), std::move(then), {}});
  return number;
}

void Processes::wait(int64_t number) {
  std::unique_lock lock(mutex_);
  waitFor(number, lock);
}

void Processes::waitFor(int64_t number, std::unique_lock<std::mutex> &lock) {
  auto over = [&] { return failure_ || !open_.contains(number); };
  Clock::time_point start = Clock::now();
  ++waiting_;
  while (!over())
    if (driven_ || abort_ >= 0)
      changed_.wait(lock, [&] { return over() || (!driven_ && abort_ < 0); });
    else if (!drive(lock))
      giveWay(std::max(start, moved_), lock);
  if (--waiting_ == 0 && !idle())
    work_.notify_one(); // the thread goes on with the rest
  if (open_.contains(number))
    std::rethrow_exception(failure_);
}

void Processes::check() {
  std::lock_guard lock(mutex_);
  if (failure_)
    std::rethrow_exception(failure_);
}

void Processes::sum(std::span<double> values) {
  // In memory that stays where it fails: the caller's may be of the stack.
  auto own = std::make_shared<std::vector<double>>(values.begin(), values.end());
  std::unique_lock lock(mutex_); // until it waits, so that the thread sleeps on
  waitFor(enqueue({Collective::Kind::Sum, DataType::F64, reinterpret_cast<std::byte *>(own->data()),
                   int64_t(own->size()), nullptr},
                  "sum of scores", [own] {}),
          lock);
  std::ranges::copy(*own, values.begin());
}

void Processes::sum(DataType type, std::byte *data, int64_t count, std::string label) {
  std::unique_lock lock(mutex_);
  waitFor(enqueue({Collective::Kind::Sum, type, data, count, nullptr}, std::move(label), {}), lock);
}

void Processes::meet() {
  double none[1] = {0};
  sum(none);
}

void Processes::giveUp(std::shared_ptr<void> memory) {
  std::unique_lock lock(mutex_);
  if (idle())
    return;
  if (!failure_)
    failure_ = std::make_exception_ptr(Failure("this process has given up what was under way"));
  changed_.notify_all();
  work_.notify_one();
  changed_.wait(lock, [&] { return !driven_; });
  kept_.push_back(std::move(memory));
}

void Processes::abort(int status) {
  {
    std::lock_guard lock(mutex_);
    abort_ = status;
  }
  work_.notify_one();
  std::this_thread::sleep_for(std::chrono::seconds(5)); // the thread ends the process before
  ::_exit(status);
}

std::vector<Processes::Span> Processes::takeSpans() {
  std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void Processes::work(const Open &open, int threads) {
  try {
    std::unique_ptr<Transport> transport = open();
    crowded_ = !transport->hasCpusFor(threads);
    std::unique_lock lock(mutex_);
    transport_ = transport.get();
    rank_ = transport->rank();
    size_ = transport->size();
    opened_ = true;
    changed_.notify_all();
    serve(lock);
    // What is under way can't be taken back; whoever caught a failure ends the process.
    work_.wait(lock, [&] { return !driven_ && (abort_ >= 0 || stop_); });
    if (abort_ >= 0)
      transport->abort(abort_);
  } catch (...) {
    std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

/// What nobody waits for, until there is nothing more to do or it has failed; `lock` is held on the
/// way in and out.
void Processes::serve(std::unique_lock<std::mutex> &lock) {
  while (true) {
    work_.wait(lock, [&] {
      return abort_ >= 0 || failure_ || (stop_ && idle()) || (!idle() && !driven_ && waiting_ == 0);
    });
    if (abort_ >= 0 || failure_ || idle())
      return;
    bool moved = drive(lock);
    changed_.notify_all(); // who waits does the work from now on
    if (!moved)
      pause(lock);
  }
}

/// To those that may be waited for, of one that has waited since then.
void Processes::giveWay(Clock::time_point since, std::unique_lock<std::mutex> &lock) {
  if (Clock::now() - since > kSpin)
    return pause(lock);
  if (!crowded_)
    return;
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

void Processes::pause(std::unique_lock<std::mutex> &lock) {
  lock.unlock();
  std::this_thread::sleep_for(kPause);
  lock.lock();
}

/// Begins what there is and finishes what is done, if anything is; what fails is kept. `lock` is
/// held on the way in and out.
bool Processes::drive(std::unique_lock<std::mutex> &lock) {
  driven_ = true;
  std::vector<Entry> fresh = std::exchange(queue_, {});
  lock.unlock();
  std::optional<Entry> done;
  std::exception_ptr failure;
  try {
    done = move(std::move(fresh));
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  driven_ = false;
  if (failure)
    failure_ = failure;
  if (done) {
    const Collective &of = done->collective;
    spans_.push_back({done->label, of.count * byteSize(of.type), done->start, moved_});
    open_.erase(done->number);
  }
  if (done || failure_)
    changed_.notify_all();
  if (failure_ || abort_ >= 0)
    work_.notify_one();
  return done.has_value();
}

/// Moves all on that is under way; gives what is done.
std::optional<Processes::Entry> Processes::move(std::vector<Entry> fresh) {
  if (active_.empty())
    moved_ = Clock::now();
  for (Entry &entry : fresh) {
    entry.start = Clock::now();
    entry.begun = transport_->begin(entry.collective);
    active_.push_back(std::move(entry));
  }
  auto done =
      std::ranges::find_if(active_, [&](const Entry &e) { return transport_->done(e.begun); });
  if (done == active_.end()) {
    checkTime();
    return std::nullopt;
  }
  Entry entry = std::move(*done);
  active_.erase(done);
  if (entry.then)
    entry.then();
  moved_ = Clock::now();
  return entry;
}

void Processes::checkTime() const {
  // The first process knows whom it waits for; the others leave it the time to say so.
  double patience = rank_ == 0 ? seconds_ : 1.5 * seconds_ + 2;
  if (std::chrono::duration<double>(Clock::now() - moved_).count() < patience)
    return;
  throw Failure(fmt::format("{} has not answered for {} seconds; look whether it still runs, or "
                            "give --process-timeout more",
                            transport_->missing(), seconds_));
}

namespace {

/// For what a module has in the middle of its run; what it fails by is told behind the run.
bool sumOfOperator(void *context, DataType type, std::byte *data, int64_t count) {
  try {
    static_cast<Processes *>(context)->sum(type, data, count, "mean over processes");
    return true;
  } catch (...) {
    return false;
  }
}

} // namespace

std::unique_ptr<Processes> openMpi(double seconds, int threads) {
  // Open MPI's own plug-ins look for its symbols among those of the whole process.
  void *library = ::dlopen(besideRuntime("libtensmith_mpi.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    throw Failure(std::string("training on several processes needs libtensmith_mpi.so, which is "
                              "built where MPI's headers are (Debian: libopenmpi-dev): ") +
                  ::dlerror());
  auto open = reinterpret_cast<OpenTransport>(::dlsym(library, kOpenMpi));
  auto sumBy = reinterpret_cast<SumOperatorsBy>(::dlsym(library, kSumOperatorsBy));
  if (!open || !sumBy)
    throw Failure("libtensmith_mpi.so is of another version than this program");
  auto processes = std::make_unique<Processes>(
      [open] { return std::unique_ptr<Transport>(open()); }, seconds, threads);
  if (processes->size() > 1)
    sumBy({processes->size(), processes.get(), sumOfOperator});
  return processes;
}

} // namespace tensmith::train
