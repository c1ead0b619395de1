// CPUs of quotas and of this process.
#include "base/Cpus.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tensmith;

namespace {

TEST(Cpus, CountsTheCpusOfAQuota) {
  EXPECT_EQ(cpusOfQuota("max 100000"), 0);
  EXPECT_EQ(cpusOfQuota("100000 100000"), 1);
  EXPECT_EQ(cpusOfQuota("150000 100000"), 2);
  EXPECT_EQ(cpusOfQuota("1000 100000"), 1);
  EXPECT_EQ(cpusOfQuota(""), 0);
  EXPECT_EQ(cpusOfQuota("-1 100000"), 0);
  EXPECT_GE(availableCpus(), 1);
  EXPECT_LE(availableCpus(), int(std::thread::hardware_concurrency()));
}

} // namespace
