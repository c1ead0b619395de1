// What modules have done by this library (runtime/LibraryAbi.h): means over all processes.
//
// One thread at a time calls MPI (train/Processes.h), and the sums have their turn among those of
// gradients: all processes run the same plan, and so begin them in one order. A module that is
// run by a process of its own is done as if there were no others; by one of several that nobody
// told how to sum, not at all, since each would take its own part for the whole.
#include "runtime/LibraryAbi.h"
#include "train/Transport.h"

#include <cstring>

namespace {

tensmith::train::OperatorSums sums; // told before any module runs

template <typename T> void divide(std::byte *data, int64_t count) {
  auto *values = reinterpret_cast<T *>(data);
  for (int64_t i = 0; i < count; ++i)
    values[i] /= T(sums.processes);
}

} // namespace

extern "C" __attribute__((visibility("default"))) void
tensmith_sum_operators_by(const tensmith::train::OperatorSums &by) {
  sums = by;
}

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_all_reduce_mean(const TensmithCall *call) {
  int64_t count = call->sizes[TENSMITH_ALL_REDUCE_MEAN_COUNT];
  bool wide = call->sizes[TENSMITH_ALL_REDUCE_MEAN_WIDE];
  auto *result = static_cast<std::byte *>(call->operands[1]);
  if (result != call->operands[0])
    std::memcpy(result, call->operands[0], size_t(count) * (wide ? sizeof(double) : sizeof(float)));
  if (!sums.sum)
    return tensmith::train::startedProcesses() != 1
               ? call->services->fail(call, TENSMITH_FAIL_UNTOLD, count)
               : 0;
  auto type = wide ? tensmith::DataType::F64 : tensmith::DataType::F32;
  if (count > INT32_MAX || !sums.sum(sums.context, type, result, count))
    return call->services->fail(call, TENSMITH_FAIL_REFUSED, count);
  (wide ? divide<double> : divide<float>)(result, count);
  return 0;
}
