// What MPI's transport sums, gathers and collects: a program that mpirun starts several of.
//
//     mpirun -n 3 mpi-sums                  checks all kinds, small and large; 1 where one is wrong
//     mpirun -n 3 mpi-sums cpus 2           says whether there is a CPU for each of 2 threads
//     mpirun -n 3 mpi-sums still 2          the first, after so many seconds in the middle of a
//                                           sum, names the last, which stands still for longer
//     mpirun -n 3 mpi-sums sum 1000000      one sum of so many floats, as are "parts" and "gather":
//                                           for who counts what is sent
//
// The oracle adds the processes' vectors, which all can make, one after the other.
#include "train/Transport.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" tensmith::train::Transport *tensmith_open_mpi();

namespace tensmith::train {
namespace {

constexpr int64_t kLarge = 64 << 10; // bytes, from which on the order of additions is known

template <typename T> constexpr DataType kType = sizeof(T) == 8 ? DataType::F64 : DataType::F32;

/// What a process has.
template <typename T> std::vector<T> drawn(int rank, int64_t count, int seed) {
  std::minstd_rand random(unsigned(seed * 100 + rank + 1));
  std::vector<T> values(static_cast<size_t>(count));
  for (T &value : values)
    value = T(double(random()) / double(random.max()) - 0.5);
  return values;
}

template <typename T> std::vector<T> summed(int processes, int64_t count, int seed) {
  std::vector<T> sum = drawn<T>(0, count, seed);
  for (int rank = 1; rank < processes; ++rank) {
    std::vector<T> values = drawn<T>(rank, count, seed);
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += values[i];
  }
  return sum;
}

int wrong = 0;

template <typename T>
void expect(const char *what, const T *found, const T *expected, int64_t count, bool sameBits) {
  for (int64_t i = 0; i < count; ++i)
    if (sameBits ? found[i] != expected[i] : std::abs(found[i] - expected[i]) > T(1e-5)) {
      std::fprintf(stderr, "%s of %ld: number %ld is %.9g instead of %.9g\n", what, long(count),
                   long(i), double(found[i]), double(expected[i]));
      ++wrong;
      return;
    }
}

template <typename T> std::byte *bytes(std::vector<T> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

void finish(Transport &transport, std::vector<int64_t> numbers) {
  if (transport.rank() % 2) // processes see in orders of their own what is done
    std::ranges::reverse(numbers);
  while (!numbers.empty())
    for (size_t i = numbers.size(); i-- > 0;)
      if (transport.done(numbers[i]))
        numbers.erase(numbers.begin() + long(i));
}

/// Of any number of elements, several at a time.
template <typename T> void checkSums(Transport &transport, const std::vector<int64_t> &counts) {
  std::vector<std::vector<T>> data;
  std::vector<int64_t> numbers;
  for (int64_t count : counts)
    data.push_back(drawn<T>(transport.rank(), count, int(count)));
  for (std::vector<T> &of : data)
    numbers.push_back(
        transport.begin({Collective::Kind::Sum, kType<T>, bytes(of), int64_t(of.size()), nullptr}));
  finish(transport, numbers);
  for (std::vector<T> &of : data) {
    auto count = int64_t(of.size()), whole = count - count % transport.size();
    bool isLarge = count * int64_t(sizeof(T)) >= kLarge;
    std::vector<T> sum = summed<T>(transport.size(), count, int(count));
    expect("sum", of.data(), sum.data(), isLarge ? whole : count, isLarge);
    expect("rest of a sum", of.data() + whole, sum.data() + whole, count - whole, false);
  }
}

/// Of the parts that processes have, and the first process all of them in the end.
template <typename T> void checkParts(Transport &transport, int64_t part) {
  int64_t count = part * transport.size();
  std::vector<T> data = drawn<T>(transport.rank(), count, 1), own(static_cast<size_t>(part));
  std::vector<T> sum = summed<T>(transport.size(), count, 1), all(sum.size());
  finish(transport,
         {transport.begin({Collective::Kind::SumParts, kType<T>, bytes(data), count, bytes(own)})});
  expect("sum of a part", own.data(), sum.data() + part * transport.rank(), part, true);
  std::copy(own.begin(), own.end(), data.begin() + part * transport.rank());
  finish(transport,
         {transport.begin({Collective::Kind::Gather, kType<T>, bytes(data), count, nullptr}),
          transport.begin({Collective::Kind::Collect, kType<T>,
                           transport.rank() == 0 ? bytes(all) : nullptr, count, bytes(own)})});
  expect("gathered parts", data.data(), sum.data(), count, true);
  if (transport.rank() == 0)
    expect("collected parts", all.data(), sum.data(), count, true);
}

void doOne(Transport &transport, const std::string &kind, int64_t count) {
  std::vector<float> data(size_t(count), 1), part(data.size());
  finish(transport, {transport.begin({kind == "sum"     ? Collective::Kind::Sum
                                      : kind == "parts" ? Collective::Kind::SumParts
                                                        : Collective::Kind::Gather,
                                      DataType::F32, bytes(data), count, bytes(part)})});
}

/// All begin a large sum, which no other can finish while the last process stands still; the first
/// begins another, so that all others are as far behind, and names whom it waits for.
void nameWhoStandsStill(Transport &transport, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto pause = std::chrono::duration<double>(seconds);
  std::vector<float> data(400003, 1), more(data);
  auto begin = [&](std::vector<float> &of) {
    return transport.begin(
        {Collective::Kind::Sum, DataType::F32, bytes(of), int64_t(of.size()), nullptr});
  };
  int64_t sum = begin(data);
  if (transport.rank() == 0) {
    int64_t other = begin(more);
    for (auto start = Clock::now(); Clock::now() - start < pause;)
      transport.done(other);
    std::puts(transport.missing().c_str());
    return finish(transport, {sum, other});
  }
  if (transport.rank() == transport.size() - 1)
    std::this_thread::sleep_for(2 * pause);
  finish(transport, {sum});
  finish(transport, {begin(more)});
}

} // namespace
} // namespace tensmith::train

int main(int argc, char **argv) {
  using namespace tensmith::train;
  std::unique_ptr<Transport> transport(tensmith_open_mpi());
  if (argc == 3 && argv[1] == std::string("cpus")) {
    std::puts(transport->hasCpusFor(std::stoi(argv[2])) ? "enough" : "too few");
    return 0;
  }
  if (argc == 3 && argv[1] == std::string("still")) {
    nameWhoStandsStill(*transport, std::stod(argv[2]));
    return 0;
  }
  if (argc == 3) {
    doOne(*transport, argv[1], std::stoll(argv[2]));
    return 0;
  }
  // Both sides of what is large, and parts that leave elements over.
  std::vector<int64_t> counts = {1,    5,    1000,   16383,  16384, 16385,  16387,  100003, 8191,
                                 8192, 8193, 700001, 300000, 2,     262144, 999999, 20000};
  checkSums<float>(*transport, counts);
  checkSums<double>(*transport, counts);
  for (int64_t part : {1, 7, 1024, 5000, 100001}) {
    checkParts<float>(*transport, part);
    checkParts<double>(*transport, part);
  }
  return wrong > 0;
}
