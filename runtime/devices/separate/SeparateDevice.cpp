// Devices "separate": the host's own processor with memory that the host can't touch.
//
// What they are for is to find out, without an accelerator, whether every copy and every wait that
// one would need is there. A device's addresses lie in a range that no access is allowed to, so
// that a host that reads or writes one is stopped at once; the memory itself lies at a fixed
// distance from them. Kernels are called with addresses moved by that distance, and refused where
// one isn't of the range, as those of another device aren't.
//
// Streams are threads, a few of each device. With TENSMITH_SEPARATE_DELAYS=N in the environment
// each piece of work begins up to N microseconds late, by chance: what a stream should have waited
// for is not done in time then.
#include "runtime/Device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr size_t kRange = size_t(1) << 38; // of addresses; memory is taken as it is written to
constexpr uint32_t kMostDevices = 8;
constexpr size_t kStreams = 4;
constexpr size_t kMostWaiting = 256; // pieces of work on a stream: whoever puts more there waits

/// Ranges of memory that are taken and free, by their offsets.
class Heap {
public:
  explicit Heap(size_t size) { free_[0] = size; }

  /// The offset; SIZE_MAX where there is no room.
  size_t take(size_t size) {
    std::lock_guard lock(mutex_);
    auto gap = std::find_if(free_.begin(), free_.end(),
                            [&](const auto &range) { return range.second >= size; });
    if (gap == free_.end())
      return SIZE_MAX;
    auto [at, room] = *gap;
    free_.erase(gap);
    if (room > size)
      free_.emplace(at + size, room - size);
    taken_.emplace(at, size);
    return at;
  }

  /// How much was given back.
  size_t give(size_t at) {
    std::lock_guard lock(mutex_);
    auto taken = taken_.find(at);
    if (taken == taken_.end())
      return 0;
    size_t size = taken->second;
    taken_.erase(taken);
    auto next = free_.emplace(at, size).first;
    if (auto after = std::next(next); after != free_.end() && at + size == after->first) {
      next->second += after->second;
      free_.erase(after);
    }
    if (next != free_.begin())
      if (auto before = std::prev(next); before->first + before->second == at) {
        before->second += next->second;
        free_.erase(next);
      }
    return size;
  }

  void beforeFork() { mutex_.lock(); }
  void afterFork() { mutex_.unlock(); }

private:
  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_; // offsets and sizes
};

/// A piece of work, and its own copy of all that it needs.
struct Work {
  // A kernel's call; null: a copy.
  TensmithKernel kernel = nullptr;
  TensmithCall call = {};
  uint32_t instruction = 0;
  Failures *failures = nullptr;
  std::vector<void *> operands;
  std::vector<int64_t> sizes;
  // A copy.
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  size_t bytes = 0;
  std::vector<Event> after;
};

int mostDelay() {
  const char *text = std::getenv("TENSMITH_SEPARATE_DELAYS");
  int microseconds = 0;
  if (text)
    std::from_chars(text, text + std::strlen(text), microseconds);
  return microseconds;
}

/// Pieces of work in order, in a ring whose places keep their memory. A thread does them; it is
/// made with the first, and ends with the process.
class Stream {
public:
  /// `fill` makes the piece. Its number, from 1 on.
  template <typename Fill> uint64_t put(std::span<const Event> after, Fill fill) {
    std::unique_lock lock(mutex_);
    if (!isStarted_)
      std::thread([this] { run(); }).detach();
    isStarted_ = true;
    changed_.wait(lock, [&] { return put_ - done_ < kMostWaiting; });
    Work &work = ring_[put_ % kMostWaiting];
    work.after.assign(after.begin(), after.end());
    fill(work);
    changed_.notify_all();
    return ++put_;
  }

  void wait(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }

  // Around a fork, between which nobody has the lock. A child has no thread of the stream, and
  // makes one with its next piece.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == put_; });
  }
  void beforeFork() { mutex_.lock(); }
  void afterFork(bool isChild) {
    if (isChild) {
      isStarted_ = false;
      done_ = put_; // what others had put there since is theirs
      std::construct_at(&changed_);
    }
    mutex_.unlock();
  }

private:
  void run() {
    std::minstd_rand random(unsigned(reinterpret_cast<uintptr_t>(this) >> 6));
    int delay = mostDelay();
    for (uint64_t number = begin();; ++number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return put_ > number; });
      lock.unlock();
      Work &work = ring_[number % kMostWaiting];
      for (const Event &event : work.after)
        waitFor(event);
      if (delay > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(int(random() % unsigned(delay))));
      execute(work);
      lock.lock();
      done_ = number + 1;
      changed_.notify_all();
    }
  }

  /// What was done before a fork is not done again. The piece that the thread was made for is not
  /// there yet, or the first.
  uint64_t begin() {
    std::lock_guard lock(mutex_);
    return done_;
  }

  static void execute(Work &work) {
    if (!work.kernel) {
      if (work.bytes)
        std::memmove(work.to, work.from, work.bytes);
    } else if (!work.failures->before(work.instruction) && fails(work)) {
      work.failures->tell(work.instruction);
    }
  }
  /// A kernel returns that it failed, or has said so within a loop.
  static bool fails(Work &work) {
    return work.kernel(&work.call) != 0 || work.call.services->poll(&work.call) != 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Work, kMostWaiting> ring_;
  bool isStarted_ = false;
  uint64_t put_ = 0, done_ = 0;
};

/// Of a kernel that is given what is not its device's memory.
int32_t refuse(const TensmithCall *call) {
  return call->services->fail(call, TENSMITH_FAIL_OUTSIDE, call->sizes ? *call->sizes : 0);
}

class SeparateDevice : public Device {
public:
  /// Whether the ranges could be had.
  bool open() {
    void *handles =
        mmap(nullptr, 2 * kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (handles == MAP_FAILED)
      return false;
    begin_ = static_cast<std::byte *>(handles);
    return mprotect(begin_ + kRange, kRange, PROT_READ | PROT_WRITE) == 0;
  }

  std::byte *allocate(int64_t bytes) override {
    if (bytes < 0 || bytes > int64_t(kRange))
      return nullptr;
    size_t size = size_t(std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    size_t at = heap_.take(size);
    return at == SIZE_MAX ? nullptr : begin_ + at;
  }

  void free(std::byte *memory) override {
    auto at = size_t(memory - begin_);
    giveBack(at, heap_.give(at));
  }

  Event launch(uint32_t stream, const Launch &launch, std::span<const Event> after) override {
    return put(stream, after, [&](Work &work) {
      work.kernel = launch.kernel;
      work.instruction = launch.instruction;
      work.failures = launch.failures;
      work.operands.assign(launch.call->operands, launch.call->operands + launch.operands);
      work.sizes.assign(launch.call->sizes, launch.call->sizes + launch.sizes);
      for (size_t i = 0; i < work.operands.size(); ++i)
        if (!translate(work.operands[i])) {
          work.kernel = refuse;
          work.sizes.assign(1, int64_t(i)); // told in the message
        }
      work.call = *launch.call;
      work.call.operands = work.operands.data();
      work.call.sizes = work.sizes.data();
    });
  }

  Event copyIn(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
               std::span<const Event> after) override {
    return copy(stream, to + kRange, from, bytes, after);
  }
  Event copyOut(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
                std::span<const Event> after) override {
    return copy(stream, to, from + kRange, bytes, after);
  }
  Event copyWithin(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
                   std::span<const Event> after) override {
    return copy(stream, to + kRange, from + kRange, bytes, after);
  }

  void wait(const Event &event) override { streams_[event.stream].wait(event.number); }

  void beforeFork() {
    for (Stream &stream : streams_) // which may wait for one another
      stream.finish();
    for (Stream &stream : streams_)
      stream.beforeFork();
    heap_.beforeFork();
  }
  void afterFork(bool isChild) {
    heap_.afterFork();
    for (Stream &stream : streams_)
      stream.afterFork(isChild);
  }

private:
  template <typename Fill> Event put(uint32_t stream, std::span<const Event> after, Fill fill) {
    uint32_t own = stream % kStreams;
    return {this, own, streams_[own].put(after, fill)};
  }

  Event copy(uint32_t stream, std::byte *to, const std::byte *from, int64_t bytes,
             std::span<const Event> after) {
    return put(stream, after, [&](Work &work) {
      work.kernel = nullptr;
      work.to = to;
      work.from = from;
      work.bytes = size_t(bytes);
    });
  }

  /// From a handle to what the kernel can read; false where it is none.
  bool translate(void *&operand) const {
    auto *address = static_cast<std::byte *>(operand);
    if (address && (address < begin_ || address >= begin_ + kRange))
      return false;
    operand = address ? address + kRange : nullptr;
    return true;
  }

  /// Whole pages of large blocks, to the system.
  void giveBack(size_t at, size_t size) {
    size_t first = (at + kPage - 1) / kPage * kPage, last = (at + size) / kPage * kPage;
    if (last > first && last - first >= size_t(1) << 20)
      madvise(begin_ + kRange + first, last - first, MADV_DONTNEED);
  }

  std::byte *begin_ = nullptr; // of the handles; memory begins kRange behind
  Heap heap_{kRange};
  std::array<Stream, kStreams> streams_;
};

} // namespace

namespace {

// Their threads go on for as long as the process does.
std::mutex mutex;
std::array<SeparateDevice *, kMostDevices> devices;

void forEach(void (*what)(SeparateDevice &device)) {
  for (SeparateDevice *device : devices)
    if (device)
      what(*device);
}

/// What is under way when another thread forks is not the child's.
void beginAnewInChildren() {
  auto before = [] {
    mutex.lock();
    forEach([](SeparateDevice &device) { device.beforeFork(); });
  };
  auto inParent = [] {
    forEach([](SeparateDevice &device) { device.afterFork(/*isChild=*/false); });
    mutex.unlock();
  };
  auto inChild = [] {
    forEach([](SeparateDevice &device) { device.afterFork(/*isChild=*/true); });
    mutex.unlock();
  };
  static const int ordered = pthread_atfork(before, inParent, inChild);
  (void)ordered;
}

} // namespace

extern "C" __attribute__((visibility("default"))) Device *tensmithDevice(uint32_t number) {
  beginAnewInChildren();
  std::lock_guard lock(mutex);
  if (number >= kMostDevices)
    return nullptr;
  if (!devices[number]) {
    auto *device = new SeparateDevice;
    if (!device->open()) {
      delete device;
      return nullptr;
    }
    devices[number] = device;
  }
  return devices[number];
}

} // namespace tensmith::runtime
