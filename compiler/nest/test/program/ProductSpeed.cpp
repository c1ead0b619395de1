// product-speed M N K FILE [open|bytes]: a product scheduled by the primitives of FILE alone, timed
// on one thread beside a loop of multiply-adds in registers, which is the peak. Both run in turn;
// the numbers are CPU time. Prints one object of JSON.
//
// With `open` as the fifth word the sizes stay parameters; otherwise they are known to the code.
// With `bytes` it is one of u8 and i8 to i32, and the peak stays that of f32.
#include "compiler/nest/TileIntrinsic.h"
#include "compiler/nest/test/NestRunner.h"
#include "compiler/nest/test/Programs.h"
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"
#include "runtime/Memory.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>

using namespace tensmith;
using namespace tensmith::nest;

namespace {

double cpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// Flops of one call.
constexpr double kPeakSteps = 2e6;
#if defined(__clang__)
__attribute__((noinline, target("avx512f"))) double peak512() {
  typedef float Vector __attribute__((vector_size(64)));
  Vector sums[12], a, b;
  for (int lane = 0; lane < 16; ++lane)
    a[lane] = 1.0f + float(lane) * 1e-7f, b[lane] = 1e-9f;
  for (auto &sum : sums)
    sum = b;
  asm volatile("" : "+v"(a), "+v"(b));
  for (int64_t step = 0; step < int64_t(kPeakSteps); ++step)
#pragma clang loop unroll(full)
    for (auto &sum : sums)
      asm volatile("vfmadd231ps %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
  float total = 0;
  for (auto &sum : sums)
    total += sum[0];
  asm volatile("" ::"x"(total));
  return kPeakSteps * 12 * 16 * 2;
}
__attribute__((noinline, target("avx2,fma"))) double peak256() {
  typedef float Vector __attribute__((vector_size(32)));
  Vector sums[12], a, b;
  for (int lane = 0; lane < 8; ++lane)
    a[lane] = 1.0f + float(lane) * 1e-7f, b[lane] = 1e-9f;
  for (auto &sum : sums)
    sum = b;
  asm volatile("" : "+x"(a), "+x"(b));
  for (int64_t step = 0; step < int64_t(kPeakSteps); ++step)
#pragma clang loop unroll(full)
    for (auto &sum : sums)
      asm volatile("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(a), "x"(b));
  float total = 0;
  for (auto &sum : sums)
    total += sum[0];
  asm volatile("" ::"x"(total));
  return kPeakSteps * 12 * 8 * 2;
}
#endif

double peakRate() {
  double start = cpuSeconds();
  double work = __builtin_cpu_supports("avx512f") ? peak512() : peak256();
  return work / (cpuSeconds() - start);
}

} // namespace

int main(int count, char **words) {
  if (count < 5) {
    fprintf(stderr, "product-speed M N K SCHEDULE [open|bytes]\n");
    return 2;
  }
  std::vector<int64_t> sizes{atoll(words[1]), atoll(words[2]), atoll(words[3])};
  std::ifstream file(words[4]);
  std::stringstream text;
  text << file.rdbuf();
  std::string kind = count > 5 ? words[5] : "";
  bool isOfBytes = kind == "bytes";
  Nest nest =
      isOfBytes ? test::productOf(DataType::U8, DataType::I8, DataType::I32) : test::product();
  if (kind != "open")
    for (size_t number = 0; number < 3; ++number)
      nest.parameters[number].least = nest.parameters[number].most = sizes[number];
  auto schedule = Schedule::of(nest);
  if (schedule)
    schedule->setIntrinsics(tileIntrinsics(targets::cpu::intrinsicsOf(targets::cpu::hostCpu()),
                                           targets::cpu::hostCpu().vectorBits / 8));
  Status status = schedule ? schedule->apply(text.str()) : schedule.status();
  auto kernel =
      status.ok() ? test::RunnableNest::of(*schedule) : Result<test::RunnableNest>(status);
  if (!kernel) {
    fprintf(stderr, "%s\n", kernel.status().message().c_str());
    return 1;
  }
  size_t elements[] = {size_t(sizes[0] * sizes[2]), size_t(sizes[2] * sizes[1]),
                       size_t(sizes[0] * sizes[1])};
  std::vector<runtime::Block> memory; // as the runtime's: large ones on large pages
  std::vector<void *> operands;
  for (size_t each : elements) {
    if (!memory.emplace_back().reserve(int64_t(each * sizeof(float)))) {
      fprintf(stderr, "there is no memory for the operands\n");
      return 1;
    }
    operands.push_back(memory.back().data());
    std::fill_n(static_cast<float *>(operands.back()), each, isOfBytes ? 0 : 1.0f / 64);
  }
  double flops = 2.0 * double(sizes[0]) * double(sizes[1]) * double(sizes[2]);
  std::vector<double> shares, rates, peaks;
  kernel->call(operands, sizes);
  int repeat = std::max(1, int(2e8 / flops));
  for (int round = 0; round < 15; ++round) {
    double peak = peakRate(), start = cpuSeconds();
    peaks.push_back(peak);
    for (int time = 0; time < repeat; ++time)
      kernel->call(operands, sizes);
    rates.push_back(flops * repeat / (cpuSeconds() - start));
    shares.push_back(rates.back() / peak);
  }
  std::sort(shares.begin(), shares.end());
  std::sort(rates.begin(), rates.end());
  std::sort(peaks.begin(), peaks.end());
  printf(
      "{\"m\": %s, \"n\": %s, \"k\": %s, \"share_of_peak_median\": %.3f, \"best_by_best\": %.3f, "
      "\"gflops_median\": %.1f, \"peak_median\": %.1f, \"peak_best\": %.1f}\n",
      words[1], words[2], words[3], shares[shares.size() / 2], rates.back() / peaks.back(),
      rates[rates.size() / 2] * 1e-9, peaks[peaks.size() / 2] * 1e-9, peaks.back() * 1e-9);
}
