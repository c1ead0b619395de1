// The device "separate": the host's own processor with memory that the host can't touch.
//
// What it is for is to find out, without an accelerator, whether every copy that one would need is
// there. Its addresses lie in a range that no access is allowed to, so that a host that reads or
// writes one is stopped at once; the memory itself lies at a fixed distance from them. Kernels are
// called with addresses moved by that distance, and refused where one isn't of the range.
#include "runtime/Device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr size_t kRange = size_t(1) << 38; // of addresses; memory is taken as it is written to
constexpr size_t kMostOnStack = 64;        // operands

class SeparateDevice : public Device {
public:
  /// Whether the ranges could be had.
  bool open() {
    void *handles =
        mmap(nullptr, 2 * kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (handles == MAP_FAILED)
      return false;
    begin_ = static_cast<std::byte *>(handles);
    free_[0] = kRange;
    return mprotect(begin_ + kRange, kRange, PROT_READ | PROT_WRITE) == 0;
  }

  std::byte *allocate(int64_t bytes) override {
    if (bytes < 0 || bytes > int64_t(kRange))
      return nullptr;
    size_t size = size_t(std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    std::lock_guard lock(mutex_);
    auto gap = std::find_if(free_.begin(), free_.end(),
                            [&](const auto &range) { return range.second >= size; });
    if (gap == free_.end())
      return nullptr;
    auto [at, room] = *gap;
    free_.erase(gap);
    if (room > size)
      free_.emplace(at + size, room - size);
    taken_.emplace(at, size);
    return begin_ + at;
  }

  void free(std::byte *memory) override {
    std::lock_guard lock(mutex_);
    auto taken = taken_.find(size_t(memory - begin_));
    if (taken == taken_.end())
      return;
    auto [at, size] = *taken;
    taken_.erase(taken);
    giveBack(at, size);
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
  }

  void copyIn(std::byte *to, const std::byte *from, int64_t bytes) override {
    std::memcpy(to + kRange, from, size_t(bytes));
  }
  void copyOut(std::byte *to, const std::byte *from, int64_t bytes) override {
    std::memcpy(to, from + kRange, size_t(bytes));
  }
  void copyWithin(std::byte *to, const std::byte *from, int64_t bytes) override {
    std::memmove(to + kRange, from + kRange, size_t(bytes));
  }

  int32_t run(TensmithKernel kernel, const TensmithCall &call, size_t operands) override {
    std::array<void *, kMostOnStack> few;
    std::vector<void *> many;
    void **own = few.data();
    if (operands > kMostOnStack) {
      many.resize(operands);
      own = many.data();
    }
    for (size_t i = 0; i < operands; ++i) {
      auto *address = static_cast<std::byte *>(call.operands[i]);
      if (address && (address < begin_ || address >= begin_ + kRange))
        return kForeign;
      own[i] = address ? address + kRange : nullptr;
    }
    TensmithCall moved = call;
    moved.operands = own;
    return kernel(&moved);
  }

private:
  /// Whole pages of large blocks, to the system.
  void giveBack(size_t at, size_t size) {
    size_t first = (at + kPage - 1) / kPage * kPage, last = (at + size) / kPage * kPage;
    if (last > first && last - first >= size_t(1) << 20)
      madvise(begin_ + kRange + first, last - first, MADV_DONTNEED);
  }

  std::byte *begin_ = nullptr; // of the handles; memory begins kRange behind
  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_; // offsets and sizes
};

} // namespace

extern "C" __attribute__((visibility("default"))) Device *tensmithDevice() {
  static SeparateDevice device;
  static bool opened = device.open();
  return opened ? &device : nullptr;
}

} // namespace tensmith::runtime
