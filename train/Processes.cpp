// One queue, one thread; see Processes.h.
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

} // namespace

Processes::Processes(Open open, double seconds)
    : seconds_(seconds), thread_([this, open = std::move(open)] { work(open); }) {
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
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

int64_t Processes::begin(const Collective &collective, std::string label,
                         std::function<void()> then) {
  std::lock_guard lock(mutex_);
  return enqueue(collective, std::move(label), std::move(then));
}

int64_t Processes::enqueue(const Collective &collective, std::string label,
                           std::function<void()> then) {
  int64_t number = next_++;
  open_[number] = true;
  queue_.push_back({number, 0, collective, std::move(label), std::move(then), {}});
  changed_.notify_all();
  return number;
}

void Processes::wait(int64_t number) {
  std::unique_lock lock(mutex_);
  waitFor(number, lock);
}

void Processes::waitFor(int64_t number, std::unique_lock<std::mutex> &lock) {
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return failure_ || !open_.contains(number); });
  --waiting_;
  if (open_.contains(number))
    std::rethrow_exception(failure_);
}

void Processes::check() {
  std::lock_guard lock(mutex_);
  if (failure_)
    std::rethrow_exception(failure_);
}

void Processes::sum(std::span<double> values) {
  sum(DataType::F64, reinterpret_cast<std::byte *>(values.data()), int64_t(values.size()),
      "sum of scores");
}

void Processes::sum(DataType type, std::byte *data, int64_t count, std::string label) {
  std::unique_lock lock(mutex_); // until it waits, so that the thread begins in a hurry
  waitFor(enqueue({Collective::Kind::Sum, type, data, count, nullptr}, std::move(label), {}), lock);
}

void Processes::meet() {
  double none[1] = {0};
  sum(none);
}

void Processes::abort(int status) {
  {
    std::lock_guard lock(mutex_);
    abort_ = status;
  }
  changed_.notify_all();
  std::this_thread::sleep_for(std::chrono::seconds(5)); // the thread ends the process before
  ::_exit(status);
}

std::vector<Processes::Span> Processes::takeSpans() {
  std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void Processes::work(const Open &open) {
  try {
    std::unique_ptr<Transport> transport = open();
    std::unique_lock lock(mutex_);
    rank_ = transport->rank();
    size_ = transport->size();
    opened_ = true;
    changed_.notify_all();
    try {
      serve(*transport, lock);
    } catch (...) {
      if (!lock.owns_lock())
        lock.lock();
      failure_ = std::current_exception();
      changed_.notify_all();
      // What is under way can't be taken back; whoever caught the failure ends the process.
      changed_.wait(lock, [&] { return abort_ >= 0 || stop_; });
    }
    if (abort_ >= 0)
      transport->abort(abort_);
  } catch (...) {
    std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

/// Until there is nothing more to do; `lock` is held on the way in and out.
void Processes::serve(Transport &transport, std::unique_lock<std::mutex> &lock) {
  while (true) {
    changed_.wait(lock,
                  [&] { return abort_ >= 0 || stop_ || !queue_.empty() || !active_.empty(); });
    if (abort_ >= 0 || (stop_ && queue_.empty() && active_.empty()))
      return;
    std::vector<Entry> fresh = std::exchange(queue_, {});
    bool hurry = waiting_ > 0;
    lock.unlock();
    if (active_.empty())
      moved_ = Clock::now();
    for (Entry &entry : fresh) {
      entry.start = Clock::now();
      entry.begun = transport.begin(entry.collective);
      ++begun_;
      active_.push_back(std::move(entry));
    }
    bool moved = finishOne(transport);
    if (!moved)
      checkTime(transport);
    if (!moved && hurry)
      std::this_thread::yield();
    else if (!moved)
      std::this_thread::sleep_for(kPause);
    lock.lock();
  }
}

bool Processes::finishOne(Transport &transport) {
  auto done =
      std::ranges::find_if(active_, [&](const Entry &e) { return transport.done(e.begun); });
  if (done == active_.end())
    return false;
  if (done->then)
    done->then();
  moved_ = Clock::now();
  std::lock_guard lock(mutex_);
  spans_.push_back(
      {done->label, done->collective.count * byteSize(done->collective.type), done->start, moved_});
  open_.erase(done->number);
  active_.erase(done);
  changed_.notify_all();
  return true;
}

void Processes::checkTime(Transport &transport) const {
  // The first process knows whom it waits for; the others leave it the time to say so.
  double patience = rank_ == 0 ? seconds_ : 1.5 * seconds_ + 2;
  if (std::chrono::duration<double>(Clock::now() - moved_).count() < patience)
    return;
  throw Failure(fmt::format("{} has not answered for {} seconds; look whether it still runs, or "
                            "give --process-timeout more",
                            transport.missing(begun_), seconds_));
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

std::unique_ptr<Processes> openMpi(double seconds) {
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
  auto processes =
      std::make_unique<Processes>([open] { return std::unique_ptr<Transport>(open()); }, seconds);
  if (processes->size() > 1)
    sumBy({processes->size(), processes.get(), sumOfOperator});
  return processes;
}

} // namespace tensmith::train
