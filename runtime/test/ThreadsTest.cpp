// The threads of a session: every index once, scratch of one's own, sleep between runs.
#include "runtime/Threads.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tensmith::runtime;

namespace {

struct Counted {
  std::vector<std::atomic<int>> seen;
  std::atomic<int> calls{0};
};

// Breaks if the child waits for workers that only the parent has, or gets none of its own.
TEST(Threads, AForkedProcessHasItsOwn) {
  ThreadPool pool(2);
  ScratchStack own;
  auto sum = [&] {
    std::atomic<int64_t> total{0};
    pool.parallelFor(
        1000, 1,
        [](void *closure, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            *static_cast<std::atomic<int64_t> *>(closure) += i;
        },
        &total, own);
    return total.load();
  };
  EXPECT_EQ(sum(), 499500);
  std::this_thread::sleep_for(std::chrono::milliseconds(20)); // workers leave the loop
  pid_t child = fork();
  if (child == 0) {
    alarm(60); // where no second thread ever takes part
    std::array<std::atomic<pthread_t>, 2> seen{};
    while (!seen[1]) {
      if (sum() != 499500)
        _exit(1);
      pool.parallelFor(
          64, 1,
          [](void *closure, int64_t, int64_t) {
            auto &threads = *static_cast<std::array<std::atomic<pthread_t>, 2> *>(closure);
            pthread_t none{}, own = pthread_self();
            if (!threads[0].compare_exchange_strong(none, own) && threads[0] != own)
              threads[1] = own;
            std::this_thread::yield();
          },
          &seen, own);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Threads, EachIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ScratchStack own;
    for (int64_t count : {0, 1, 2, 7, 64, 1000})
      for (int64_t grain : {1, 3, 1000}) {
        Counted counted{std::vector<std::atomic<int>>(size_t(count)), {}};
        pool.parallelFor(
            count, grain,
            [](void *closure, int64_t begin, int64_t end) {
              auto *counted = static_cast<Counted *>(closure);
              ++counted->calls;
              for (int64_t i = begin; i < end; ++i)
                ++counted->seen[size_t(i)];
            },
            &counted, own);
        for (auto &seen : counted.seen)
          EXPECT_EQ(seen, 1);
        EXPECT_LE(counted.calls, (count + grain - 1) / grain)
            << "ranges are no smaller than the grain";
      }
  }
}

/// A loop of two bodies, each of which waits for the other.
struct Meeting : ThreadPool::Task {
  ThreadPool *pool;
  ScratchStack own;
  std::atomic<int> here{0}, met{0};

  static void loop(Task &self) {
    auto &meeting = static_cast<Meeting &>(self);
    meeting.pool->parallelFor(2, 1, wait, &meeting, meeting.own);
  }
  static void wait(void *closure, int64_t begin, int64_t end) {
    auto &meeting = *static_cast<Meeting *>(closure);
    meeting.here += int(end - begin);
    auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (meeting.here < 2 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    meeting.met += meeting.here == 2;
  }
};

TEST(Threads, WhoWaitsForATaskTakesPartInItsLoops) {
  ThreadPool pool(2);
  ThreadPool::Attendance attendance(pool);
  Meeting meeting;
  meeting.pool = &pool;
  meeting.body = Meeting::loop;
  meeting.owner = &meeting;
  ASSERT_TRUE(pool.offer(meeting));
  pool.wake();
  ThreadPool::Waiting waiting(pool);
  while (!meeting.done.load(std::memory_order_acquire))
    waiting.pass(/*owner=*/&pool, /*mayWork=*/true); // not the task itself, which is another's
  EXPECT_EQ(meeting.met, 2);
}

struct Nested {
  ThreadPool *pool;
  ScratchStack *own;
  std::atomic<int> wrong{0};
};

void innerBody(void *closure, int64_t begin, int64_t end) {
  auto *nested = static_cast<Nested *>(closure);
  auto *scratch = static_cast<char *>(nested->pool->scratch(*nested->own).take(256));
  std::memset(scratch, 1, 256);
}

void outerBody(void *closure, int64_t begin, int64_t end) {
  auto *nested = static_cast<Nested *>(closure);
  auto *scratch = static_cast<char *>(nested->pool->scratch(*nested->own).take(256));
  std::memset(scratch, 2, 256);
  nested->pool->parallelFor(8, 1, innerBody, nested, *nested->own);
  nested->wrong += reinterpret_cast<uintptr_t>(scratch) % 64 != 0;
  for (int i = 0; i < 256; ++i)
    nested->wrong += scratch[i] != 2;
}

// Breaks when a body's scratch is handed to another body of the same thread.
TEST(Threads, ScratchSurvivesNestedLoops) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    ScratchStack own;
    auto *kernels = static_cast<char *>(pool.scratch(own).take(256));
    std::memset(kernels, 3, 256);
    Nested nested{&pool, &own, {}};
    pool.parallelFor(16, 1, outerBody, &nested, own);
    EXPECT_EQ(nested.wrong, 0);
    for (int i = 0; i < 256; ++i)
      EXPECT_EQ(kernels[i], 3);
  }
}

TEST(Threads, ImpossibleScratchIsNull) {
  ScratchStack stack;
  EXPECT_EQ(stack.take(INT64_MAX), nullptr);
  EXPECT_NE(stack.take(1), nullptr) << "a refused request must not spoil the next";
}

double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void spin(void *, int64_t begin, int64_t end) {
  volatile double sum = 0;
  for (int64_t i = begin; i < end; ++i)
    for (int j = 0; j < 1000; ++j)
      sum = sum + double(j);
}

// Breaks when workers spin while nothing runs, or in a run that goes on without loops.
TEST(Threads, WorkersSleepWhileNothingIsPosted) {
  ThreadPool pool(2);
  ScratchStack own;
  ThreadPool::Attendance longRun(pool);
  for (int i = 0; i < 20; ++i)
    pool.parallelFor(1000, 1, spin, nullptr, own);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  double before = processorSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processorSeconds() - before, 0.03);
}

// Breaks when two runs that share a session lose a part of one's loop or wait for each other.
TEST(Threads, RunsSideBySideFinishTheirOwnLoops) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> runs;
  for (int run = 0; run < 4; ++run)
    runs.emplace_back([&] {
      ScratchStack own;
      ThreadPool::Attendance attendance(pool);
      for (int i = 0; i < 500; ++i)
        pool.parallelFor(
            37, 1,
            [](void *closure, int64_t begin, int64_t end) {
              *static_cast<std::atomic<int64_t> *>(closure) += end - begin;
            },
            &sum, own);
    });
  for (std::thread &run : runs)
    run.join();
  EXPECT_EQ(sum, 4 * 500 * 37);
}

} // namespace
