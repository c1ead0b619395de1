// Runs through the public interface of the runtime, as any program's.
#include "compiler/api/TimeModule.h"

#include "compiler/api/Handles.h"
#include "compiler/api/TakenStatus.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace tensmith {
namespace {

constexpr double kSeconds = 0.05;
constexpr int kFewestRuns = 6, kFirstRuns = 2;

/// Small numbers around zero, none of them subnormal; zeros of other types.
Result<TensorHandle> drawn(const ts_port &port, uint32_t seed) {
  std::vector<int64_t> shape;
  for (int64_t dim = 0; dim < port.rank; ++dim)
    shape.push_back(std::strtoll(port.dims[dim], nullptr, 10));
  ts_tensor *tensor = nullptr;
  if (Status status = taken(ts_tensor_create(port.type, shape.data(), shape.size(), &tensor));
      !status.ok())
    return status;
  TensorHandle handle(tensor);
  auto *data = static_cast<float *>(ts_tensor_data(tensor));
  std::memset(data, 0, size_t(ts_tensor_size(tensor)) * ts_type_bytes(port.type));
  for (int64_t i = 0; i < ts_tensor_size(tensor) && port.type == TS_F32; ++i) {
    seed = seed * 1664525 + 1013904223;
    data[i] = float(int32_t(seed >> 16) - 32768) / 32768 + 0.5f / 32768;
  }
  return handle;
}

} // namespace

Result<double> secondsOfModule(const std::string &bytes) {
  auto loaded = loadModule(bytes);
  if (!loaded.ok())
    return loaded.status();
  ts_module *module = loaded->module.get();
  std::vector<TensorHandle> handles;
  std::vector<ts_tensor *> inputs;
  for (size_t i = 0; i < ts_module_input_count(module); ++i) {
    auto tensor = drawn(ts_module_input(module, i), uint32_t(i + 1));
    if (!tensor.ok())
      return tensor.status();
    inputs.push_back(tensor->get());
    handles.push_back(std::move(*tensor));
  }
  auto output = drawn(ts_module_output(module, 0), 0);
  if (!output.ok())
    return output.status();
  using Clock = std::chrono::steady_clock;
  double best = 0, spent = 0;
  for (int run = -kFirstRuns; run < kFewestRuns || spent < kSeconds; ++run) {
    ts_tensor *result = output->get();
    auto begin = Clock::now();
    if (Status status =
            taken(ts_session_run(loaded->session.get(), inputs.data(), inputs.size(), &result, 1));
        !status.ok())
      return status;
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (run < 0)
      continue;
    best = run == 0 ? seconds : std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

} // namespace tensmith
