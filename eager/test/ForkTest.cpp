// A fork while a step of another thread has the lock of co-execution: the child, in which that
// thread is not there to give it back, takes it all the same.
#include "eager/Array.h"
#include "eager/CoexecutionLock.h"

#include <gtest/gtest.h>

#include <latch>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tensmith::eager {
namespace {

constexpr unsigned kHangsAfterSeconds = 60;

/// What the child of a fork ends with that takes the lock; by a signal where it waits for ever.
int statusOfChild() {
  pid_t child = fork();
  if (child == 0) {
    alarm(kHangsAfterSeconds);
    {
      Entry entry;
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// Breaks if the child keeps the lock as it was at the fork.
TEST(Fork, TheChildTakesALockThatAnotherThreadHeld) {
  Array x = *Array::allocate(DataType::F32, {4});
  ASSERT_TRUE(assign(x, x).ok()); // forks are ordered from the first operation on
  std::latch isHeld(1), isForked(1);
  std::thread other([&] {
    Entry entry;
    isHeld.count_down();
    isForked.wait();
  });
  isHeld.wait();
  int status = statusOfChild();
  isForked.count_down();
  other.join();
  EXPECT_EQ(status, 0);
}

// Breaks if what the forking thread itself holds is not its own in the child.
TEST(Fork, TheChildKeepsTheLockThatItsOwnThreadHeld) {
  Array x = *Array::allocate(DataType::F32, {4});
  ASSERT_TRUE(assign(x, x).ok());
  Entry first, second;
  EXPECT_EQ(statusOfChild(), 0);
}

} // namespace
} // namespace tensmith::eager
