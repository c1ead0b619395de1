// Through the public interface of the runtime, as any program's run; see RunModule.h.
#include "compiler/api/RunModule.h"

#include "compiler/api/Handles.h"
#include "compiler/api/TakenStatus.h"

namespace tensmith {
namespace {

/// The elements are kept by the handle that they are of.
Result<graph::RuntimeValue> keptValue(std::shared_ptr<ts_tensor> handle) {
  if (ts_tensor_kind(handle.get()) != TS_TENSOR || ts_tensor_type(handle.get()) == TS_STRING)
    return fromHandle(handle.get());
  const int64_t *dims = ts_tensor_shape(handle.get());
  Shape shape(dims, dims + ts_tensor_rank(handle.get()));
  return graph::RuntimeValue(HostTensor(DataType(ts_tensor_type(handle.get())), std::move(shape),
                                        ts_tensor_data(handle.get()), handle));
}

} // namespace

Status checkCalibration(const ts_compile_options &options) {
  if (options.calibration < TS_CALIBRATE_NONE || options.calibration > TS_CALIBRATE_GIVEN)
    return invalidArgument("there is no calibration " + std::to_string(options.calibration));
  if (options.calibration == TS_CALIBRATE_NONE)
    return {};
  if (options.training)
    return invalidArgument("a step of training can't be calibrated; its precision is a rule of "
                           "each operator");
  if (options.evaluate_by_reference)
    return invalidArgument("the reference evaluation rounds nothing otherwise: there is nothing to "
                           "calibrate");
  if (options.calibration == TS_CALIBRATE_RANDOM)
    return {};
  if (options.calibration_count == 0)
    return invalidArgument("no inputs are given to calibrate with");
  for (size_t i = 0; i < options.calibration_count; ++i) {
    bool isNull = !options.calibration_names || !options.calibration_names[i] ||
                  !options.calibration_values || !options.calibration_values[i];
    if (isNull)
      return invalidArgument("calibration input " + std::to_string(i) + " is a null pointer");
    if (ts_tensor_kind(options.calibration_values[i]) != TS_TENSOR)
      return invalidArgument("calibration takes tensors, and '" +
                             std::string(options.calibration_names[i]) + "' is none");
  }
  return {};
}

std::optional<pipeline::CalibrationInputs> calibrationInputs(const ts_compile_options &options) {
  if (options.calibration == TS_CALIBRATE_NONE)
    return std::nullopt;
  pipeline::CalibrationInputs inputs;
  if (options.calibration_source)
    inputs.name = options.calibration_source;
  for (size_t i = 0; options.calibration == TS_CALIBRATE_GIVEN && i < options.calibration_count;
       ++i)
    if (auto value = fromHandle(options.calibration_values[i]); value.ok())
      inputs.given[options.calibration_names[i]] = value->tensor;
  return inputs;
}

Result<std::vector<graph::RuntimeValue>> runModule(const std::string &bytes,
                                                   std::span<const graph::RuntimeValue> inputs) {
  auto loaded = loadModule(bytes);
  if (!loaded.ok())
    return loaded.status();
  std::vector<TensorHandle> handles;
  std::vector<ts_tensor *> given, results(ts_module_output_count(loaded->module.get()));
  for (const graph::RuntimeValue &input : inputs) {
    ts_tensor *handle = nullptr;
    if (Status status = taken(toHandle(input, &handle)); !status.ok())
      return status;
    given.push_back(handles.emplace_back(handle).get());
  }
  Status status = taken(ts_session_run(loaded->session.get(), given.data(), given.size(),
                                       results.data(), results.size()));
  std::vector<std::shared_ptr<ts_tensor>> kept;
  for (ts_tensor *result : results)
    kept.emplace_back(result, ts_tensor_free);
  if (!status.ok())
    return status;
  std::vector<graph::RuntimeValue> values;
  for (std::shared_ptr<ts_tensor> &handle : kept) {
    auto value = keptValue(std::move(handle));
    if (!value.ok())
      return value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

} // namespace tensmith
