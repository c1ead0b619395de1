// Buckets hold every parameter once, processes' parts every sample once; and what several threads
// that stand for processes sum while they go on.
#include "ThreadTransport.h"

#include "TestFiles.h"

#include "train/Buckets.h"
#include "train/FlatMemory.h"
#include "train/Order.h"
#include "train/Processes.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <set>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace {
thread_local int64_t yields = 0;
} // namespace

/// What std::this_thread::yield calls.
extern "C" int sched_yield() noexcept {
  ++yields;
  return int(::syscall(SYS_sched_yield));
}

namespace tensmith::train {
namespace {

std::vector<Bucketed> floats(const std::vector<int64_t> &counts) {
  std::vector<Bucketed> result;
  for (int64_t count : counts)
    result.push_back({"w" + std::to_string(result.size()), DataType::F32, {count}});
  return result;
}

TEST(Buckets, CloseWhenTheyAreFull) {
  auto parameters = floats({100, 28, 1, 0, 1000, 3});
  auto buckets = makeBuckets(parameters, 512, 1);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].pieces.size(), 2u); // 112 and 32 numbers with what fills them up
  EXPECT_EQ(buckets[1].pieces.size(), 3u);
  EXPECT_EQ(buckets[2].pieces.size(), 1u);
}

TEST(Buckets, AreOfOneEachWithoutASize) {
  auto buckets = makeBuckets(floats({100, 0, 3}), 0, 2);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[1].count, 32); // of no elements, and still a line for each process
}

// Parts are equal, and pieces begin at lines: kernels read and write them as tensors.
TEST(Buckets, HoldEveryParameterOnce) {
  std::vector<Bucketed> parameters = floats({1, 17, 300, 5, 5, 2049, 0, 31});
  parameters[2].type = parameters[5].type = DataType::F64;
  parameters[3].shape = {5, 7};
  for (int processes : {1, 2, 3, 4, 7})
    for (int64_t bytes : {1, 1000, 1 << 20}) {
      std::vector<int> seen(parameters.size());
      for (const Bucket &bucket : makeBuckets(parameters, bytes, processes)) {
        EXPECT_EQ(bucket.count % processes, 0);
        EXPECT_EQ(bucket.bytes() / processes % 64, 0);
        int64_t end = 0;
        for (const Bucket::Piece &piece : bucket.pieces) {
          ++seen[piece.parameter];
          EXPECT_EQ(parameters[piece.parameter].type, bucket.type);
          EXPECT_EQ(piece.count, *elementCount(parameters[piece.parameter].shape));
          EXPECT_GE(piece.offset, end);
          EXPECT_EQ(piece.offset * byteSize(bucket.type) % 64, 0);
          end = piece.offset + piece.count;
        }
        EXPECT_LE(end, bucket.count);
      }
      EXPECT_EQ(seen, std::vector<int>(parameters.size(), 1));
    }
}

/// What the kernel has been told of the pages there: "hg" is that they should be huge.
std::string flagsOf(const std::byte *data) {
  std::ifstream maps("/proc/self/smaps");
  bool isThere = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      isThere =
          begin <= reinterpret_cast<uintptr_t>(data) && reinterpret_cast<uintptr_t>(data) < end;
    else if (isThere && line.starts_with("VmFlags:"))
      return line + " ";
  }
  return "";
}

// Breaks if a place doesn't stay, or if large ones aren't to have huge pages and others are.
TEST(FlatMemory, IsZeroedAlignedAndGivenBack) {
  bool hasHugePages = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  for (int64_t bytes : {int64_t(0), int64_t(100), int64_t(1) << 20, (int64_t(5) << 20) + 64}) {
    FlatMemory memory(bytes), other;
    ASSERT_EQ(memory.data() != nullptr, bytes > 0);
    bool isLarge = bytes >= int64_t(FlatMemory::kHugePage / 2);
    if (isLarge)
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % FlatMemory::kHugePage, 0u);
    if (std::string flags = flagsOf(memory.data()); hasHugePages && bytes > 0)
      EXPECT_EQ(flags.find(" hg ") != std::string::npos, isLarge) << flags;
    for (int time = 0; time < 2; ++time) {
      std::span<std::byte> all(memory.data(), size_t(bytes));
      EXPECT_TRUE(std::ranges::all_of(all, [](std::byte of) { return of == std::byte(0); }));
      std::ranges::fill(all, std::byte(7));
      memory.forget();
    }
    other = std::move(memory);
    EXPECT_EQ(other.bytes(), bytes);
  }
}

TEST(Parts, OfBatchesAreTheBatches) {
  std::vector<int64_t> order(50);
  std::iota(order.begin(), order.end(), 100);
  for (int64_t count : {1, 2, 3, 4}) {
    int64_t size = 12 / count;
    for (int64_t part = 0; part < count; ++part) {
      auto own = partOfBatches(order, 12, {part, count});
      for (int64_t i = 0; i < 4 * size; ++i)
        EXPECT_EQ(own[size_t(i)], 100 + i / size * 12 + part * size + i % size);
    }
  }
}

TEST(Parts, OfAllAreAll) {
  std::vector<int64_t> rows = {3, 1, 4, 1, 5, 9, 2};
  for (int64_t count : {1, 2, 3, 9}) {
    std::vector<int64_t> together;
    for (int64_t part = 0; part < count; ++part) {
      auto own = partOfAll(rows, {part, count});
      EXPECT_LE(std::abs(int64_t(own.size()) * count - int64_t(rows.size())), count);
      together.insert(together.end(), own.begin(), own.end());
    }
    EXPECT_EQ(together, rows);
  }
}

/// Does the same in so many threads that are processes to one another.
template <typename Work> void inProcesses(int count, double seconds, Work work) {
  auto meeting = std::make_shared<Meeting>(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([=] {
      Processes processes([=] { return std::make_unique<ThreadTransport>(meeting, rank); },
                          seconds);
      work(processes);
    });
  for (std::thread &thread : threads)
    thread.join();
}

std::byte *bytes(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

TEST(Processes, SumSeveralAtATime) {
  for (int count : {1, 2, 4})
    inProcesses(count, 60, [&](Processes &processes) {
      auto rank = float(processes.rank());
      for (int time = 0; time < 20; ++time) {
        std::vector<float> a(8, rank), b(8), part(size_t(8 / count)), c(8, -1);
        std::iota(b.begin(), b.end(), rank);
        std::fill_n(c.begin() + 8 / count * processes.rank(), 8 / count, rank);
        int called = 0;
        std::vector<int64_t> numbers = {
            processes.begin({Collective::Kind::Sum, DataType::F32, bytes(a), 8, nullptr}, "a",
                            [&] { ++called; }),
            processes.begin({Collective::Kind::SumParts, DataType::F32, bytes(b), 8, bytes(part)},
                            "b"),
            processes.begin({Collective::Kind::Gather, DataType::F32, bytes(c), 8, nullptr}, "c")};
        for (int64_t number : {numbers[2], numbers[0], numbers[1]})
          processes.wait(number);
        EXPECT_EQ(called, 1);
        float all = float(count * (count - 1)) / 2;
        EXPECT_EQ(a, std::vector<float>(8, all));
        for (int i = 0; i < 8 / count; ++i)
          EXPECT_EQ(part[size_t(i)], all + float(count * (8 / count * processes.rank() + i)));
        for (int i = 0; i < 8; ++i)
          EXPECT_EQ(c[size_t(i)], float(i / (8 / count)));
      }
      EXPECT_EQ(processes.takeSpans().size(), 60u);
      EXPECT_TRUE(processes.takeSpans().empty());
    });
}

/// Keeps which thread begins something.
class WatchedTransport : public ThreadTransport {
public:
  WatchedTransport(std::shared_ptr<Meeting> meeting, std::set<std::thread::id> &callers)
      : ThreadTransport(std::move(meeting), 0), callers_(callers) {}
  int64_t begin(const Collective &collective) override {
    callers_.insert(std::this_thread::get_id());
    return ThreadTransport::begin(collective);
  }

private:
  std::set<std::thread::id> &callers_;
};

// To wake another thread, and be woken by it, takes longer than small sums do.
TEST(Processes, WhoWaitsDoesTheWork) {
  std::set<std::thread::id> callers;
  Processes processes(
      [&] { return std::make_unique<WatchedTransport>(std::make_shared<Meeting>(1), callers); },
      60);
  for (int time = 0; time < 100; ++time)
    processes.meet();
  EXPECT_EQ(callers, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(Processes, WhatNobodyWaitsForIsDone) {
  std::set<std::thread::id> callers;
  Processes processes(
      [&] { return std::make_unique<WatchedTransport>(std::make_shared<Meeting>(1), callers); },
      60);
  std::vector<float> values(8);
  std::promise<std::thread::id> done;
  processes.begin({Collective::Kind::Sum, DataType::F32, bytes(values), 8, nullptr}, "a",
                  [&] { done.set_value(std::this_thread::get_id()); });
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
}

/// Done so long after it was begun; counts how often somebody looks from 10 ms on.
class LateTransport : public ThreadTransport {
public:
  LateTransport(std::chrono::microseconds late, std::atomic<int64_t> &looks, bool hasCpus = true)
      : ThreadTransport(std::make_shared<Meeting>(1), 0), late_(late), looks_(looks),
        hasCpus_(hasCpus) {}
  bool hasCpusFor(int) override { return hasCpus_; }
  int64_t begin(const Collective &collective) override {
    begun_ = Processes::Clock::now();
    return ThreadTransport::begin(collective);
  }
  bool done(int64_t number) override {
    auto passed = Processes::Clock::now() - begun_;
    looks_ += passed > std::chrono::milliseconds(10);
    return passed > late_ && ThreadTransport::done(number);
  }

private:
  std::chrono::microseconds late_;
  std::atomic<int64_t> &looks_;
  bool hasCpus_;
  Processes::Clock::time_point begun_;
};

/// How often a thread of this program has gone to sleep.
int64_t sleepsOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  const std::string key = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return std::stoll(line.substr(key.size()));
  ADD_FAILURE() << "no thread " << thread;
  return 0;
}

// Breaks if the thread is woken whenever one that waits has looked.
TEST(Processes, TheThreadSleepsWhileSomebodyWaits) {
  std::atomic<int64_t> looks = 0;
  pid_t thread = 0;
  Processes processes(
      [&] {
        thread = ::gettid();
        return std::make_unique<LateTransport>(std::chrono::milliseconds(50), looks);
      },
      60);
  processes.meet();
  int64_t before = sleepsOf(thread);
  looks = 0;
  for (int time = 0; time < 2; ++time)
    processes.meet();
  EXPECT_GT(looks, 0);
  EXPECT_LE(sleepsOf(thread) - before, 3);
}

// One that waits for long leaves the CPU to others: breaks if it looks without pauses.
TEST(Processes, WhoWaitsForLongPauses) {
  std::atomic<int64_t> looks = 0;
  Processes processes(
      [&] { return std::make_unique<LateTransport>(std::chrono::milliseconds(50), looks); }, 60);
  auto start = Processes::Clock::now();
  processes.meet();
  auto pauses = (Processes::Clock::now() - start) / std::chrono::microseconds(50);
  EXPECT_LE(looks, pauses);
}

// Breaks if one that waits for what is there soon sleeps, or yields where it needn't or doesn't
// where it must.
TEST(Processes, WhoWaitsForAShortWhileLooksOrYields) {
  for (bool hasCpus : {true, false}) {
    std::atomic<int64_t> looks = 0, least = INT64_MAX;
    Processes processes(
        [&] {
          return std::make_unique<LateTransport>(std::chrono::microseconds(500), looks, hasCpus);
        },
        60);
    yields = 0;
    for (int time = 0; time < 20; ++time) { // the machine may be in the way of some
      int64_t before = sleepsOf(::gettid());
      processes.meet();
      least = std::min<int64_t>(least, sleepsOf(::gettid()) - before);
    }
    EXPECT_EQ(least, 0);
    EXPECT_EQ(yields > 0, !hasCpus);
  }
}

// Breaks if one that waits isn't woken when the one that drove has what it wanted.
TEST(Processes, SeveralWaitAtATime) {
  std::atomic<int64_t> looks = 0;
  Processes processes(
      [&] { return std::make_unique<LateTransport>(std::chrono::microseconds(100), looks); }, 60);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int time = 0; time < 100; ++time)
        processes.meet();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(processes.takeSpans().size(), 300u);
}

/// Writes where it sums at each look, and comes to no end. The looks are odd during one.
class EndlessTransport : public ThreadTransport {
public:
  explicit EndlessTransport(std::atomic<int64_t> &looks)
      : ThreadTransport(std::make_shared<Meeting>(1), 0), looks_(looks) {}
  int64_t begin(const Collective &collective) override {
    of_ = collective;
    return ThreadTransport::begin(collective);
  }
  bool done(int64_t number) override {
    ++looks_;
    std::this_thread::sleep_for(std::chrono::milliseconds(2)); // it is given up meanwhile
    std::fill_n(of_.data, of_.count * byteSize(of_.type), std::byte(1));
    ++looks_;
    return number < 0;
  }

private:
  std::atomic<int64_t> &looks_;
  Collective of_;
};

// A step may fail while its first bucket is summed: breaks if that goes on in memory that is gone,
// as it does by itself where the machine's network writes.
TEST(Processes, WhatIsGivenUpIsLeftAlone) {
  std::atomic<int64_t> looks = 0;
  auto memory = std::make_shared<std::vector<float>>(100000);
  std::weak_ptr<void> kept = memory;
  {
    Processes processes([&] { return std::make_unique<EndlessTransport>(looks); }, 60);
    auto number = processes.begin(
        {Collective::Kind::Sum, DataType::F32, bytes(*memory), 100000, nullptr}, "bucket");
    while (looks % 2 == 0)
      std::this_thread::yield();
    processes.giveUp(std::move(memory));
    int64_t before = looks;
    EXPECT_EQ(before % 2, 0);
    EXPECT_FALSE(kept.expired());
    EXPECT_HAS(refusal([&] { processes.wait(number); }), "given up");
    EXPECT_HAS(refusal([&] { processes.meet(); }), "given up");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(looks, before);
  }
  EXPECT_TRUE(kept.expired());
}

TEST(Processes, WhatIsDoneIsNotKept) {
  Processes processes(
      [] { return std::make_unique<ThreadTransport>(std::make_shared<Meeting>(1), 0); }, 60);
  processes.meet();
  auto memory = std::make_shared<int>();
  processes.giveUp(memory);
  EXPECT_EQ(memory.use_count(), 1);
  processes.meet();
}

TEST(Processes, TheFirstCollects) {
  inProcesses(4, 60, [](Processes &processes) {
    std::vector<float> own(3, float(processes.rank())), all(12, -1);
    bool first = processes.rank() == 0;
    processes.wait(processes.begin(
        {Collective::Kind::Collect, DataType::F32, first ? bytes(all) : nullptr, 12, bytes(own)},
        "slots"));
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(all[size_t(i)], first ? float(i / 3) : -1);
  });
}

// Of a run that hangs one has to be told which process to look at.
TEST(Processes, WhoDoesNotAnswerIsNamed) {
  inProcesses(3, 0.3, [](Processes &processes) {
    if (processes.rank() == 1)
      return;
    std::string said = refusal([&] { processes.meet(); });
    EXPECT_HAS(said, "process 1 has not answered for 0.3 seconds");
    EXPECT_HAS(said, "--process-timeout");
    EXPECT_HAS(refusal([&] { processes.meet(); }), "process 1"); // as all that comes after
  });
}

TEST(Processes, WhatCanNotBeOpenedIsSaid) {
  EXPECT_HAS(refusal([] {
               Processes([]() -> std::unique_ptr<Transport> { throw Failure("no MPI"); }, 1);
             }),
             "no MPI");
}

} // namespace
} // namespace tensmith::train
