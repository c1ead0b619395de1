// Processes as threads of a test: sums and gathers over shared memory, in an order of ranks that is
// turned round at each other sum, since no order may matter.
#pragma once

#include "trees/Training.h"

#include <barrier>
#include <limits>

namespace tensmith::trees::test {

struct SharedMemory {
  explicit SharedMemory(int count) : count(count), spans(count), barrier(count) {}
  int count;
  std::vector<std::span<const double>> spans;
  std::barrier<> barrier;
};

class SharedMemoryExchange : public Exchange {
public:
  SharedMemoryExchange(SharedMemory &memory, int rank) : memory_(memory), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return memory_.count; }

  Status sum(std::span<double> values) override {
    memory_.spans[rank_] = values;
    memory_.barrier.arrive_and_wait();
    std::vector<double> sums(values.size(), 0);
    for (int at = 0; at < memory_.count; ++at) {
      std::span<const double> of = memory_.spans[turn_ % 2 ? at : memory_.count - 1 - at];
      for (size_t place = 0; place < sums.size(); ++place)
        sums[place] += of[place];
    }
    ++turn_;
    memory_.barrier.arrive_and_wait();
    std::copy(sums.begin(), sums.end(), values.begin());
    return {};
  }
  /// What is another's part is spoilt, as a transport may do.
  Status sumParts(std::span<const std::span<double>> arrays) override {
    if (Status status = sumAll(arrays); !status.ok())
      return status;
    for (std::span<double> array : arrays)
      for (size_t at = 0; at < array.size(); ++at)
        if (int(at / (array.size() / size_t(size()))) != rank_)
          array[at] = std::numeric_limits<double>::quiet_NaN();
    return {};
  }
  Status gather(std::span<const double> own, std::span<double> all) override {
    memory_.spans[rank_] = own;
    memory_.barrier.arrive_and_wait();
    for (int at = 0; at < memory_.count; ++at)
      std::copy(memory_.spans[at].begin(), memory_.spans[at].end(),
                all.begin() + at * int64_t(own.size()));
    memory_.barrier.arrive_and_wait();
    return {};
  }

private:
  SharedMemory &memory_;
  int rank_, turn_ = 0;
};

} // namespace tensmith::trees::test
