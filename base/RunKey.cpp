// A number of the machine's entropy for the process, mixed with its id, since a forked one has the
// same, and with how many were given out before.
#include "base/RunKey.h"

#include "base/Philox.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <random>

namespace tensmith {
namespace {

uint64_t entropy() {
  try {
    std::random_device device;
    return uint64_t(device()) << 32 | device();
  } catch (const std::exception &) { // no such device here
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  }
}

} // namespace

uint64_t freshRunKey() {
  static const uint64_t kOfProcess = entropy();
  static std::atomic<uint64_t> given{0};
  return mixedSeed(mixedSeed(kOfProcess, uint64_t(getpid())), ++given);
}

} // namespace tensmith
