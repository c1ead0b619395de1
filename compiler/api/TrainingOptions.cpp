// From the C API's words to compiler/training's; see TrainingOptions.h.
#include "compiler/api/TrainingOptions.h"

#include "base/HostTensor.h"
#include "compiler/graph/Constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tensmith {
namespace {

Status addNames(const char *const *names, size_t count, const char *what,
                std::vector<std::string> &result) {
  for (size_t i = 0; i < count; ++i) {
    if (!names || !names[i])
      return invalidArgument(std::string(what) + " " + std::to_string(i) + " is a null pointer");
    result.push_back(names[i]);
  }
  return {};
}

Status checkNumbers(const training::Options &options) {
  for (const auto &[name, value] : options.settings)
    if (!std::isfinite(value))
      return invalidArgument("the setting '" + name + "' of the training is no finite number");
    else if (name == "learning_rate" && value < 0)
      return invalidArgument("learning_rate must be a number from 0 on");
  if (!(options.clipNorm >= 0) || !std::isfinite(options.clipNorm))
    return invalidArgument("clip_norm must be a number from 0 on");
  if (double decay = options.weightDecay.value_or(0); !(decay >= 0) || !std::isfinite(decay))
    return invalidArgument("weight_decay must be a number from 0 on");
  if (!(options.emaDecay >= 0 && options.emaDecay < 1))
    return invalidArgument("ema_decay must be a number from 0 on and below 1");
  return {};
}

} // namespace

Result<training::Options> trainingOptions(const ts_training_options &given) {
  if (given.size < sizeof(size_t))
    return invalidArgument("the training options' size is not set");
  ts_training_options known{};
  std::memcpy(&known, &given, std::min(given.size, sizeof(known)));
  training::Options result;
  if (known.loss)
    result.loss = known.loss;
  if (known.of)
    result.of = known.of;
  if (known.optimiser)
    result.optimiser = known.optimiser;
  if (known.schedule)
    result.schedule = known.schedule;
  std::vector<std::string> settings;
  if (Status status =
          addNames(known.setting_names, known.setting_count, "the name of setting", settings);
      !status.ok())
    return status;
  if (known.setting_count && !known.setting_values)
    return invalidArgument("the values of the settings are a null pointer");
  for (size_t i = 0; i < settings.size(); ++i)
    result.settings.push_back({settings[i], known.setting_values[i]});
  result.clipNorm = known.clip_norm;
  if (known.weight_decay != 0 || known.no_weight_decay)
    result.weightDecay = known.weight_decay;
  result.emaDecay = known.ema_decay;
  result.gradientsAlone = known.gradients_alone != 0;
  for (auto [names, count, what, list] :
       {std::tuple(known.trainable, known.trainable_count, "trainable name", &result.trainable),
        std::tuple(known.outputs, known.output_count, "output", &result.outputs)})
    if (Status status = addNames(names, count, what, *list); !status.ok())
      return status;
  Status status = checkNumbers(result);
  return status.ok() ? Result<training::Options>(std::move(result)) : status;
}

uint64_t trainingSeed(const ts_training_options &given) {
  ts_training_options known{};
  std::memcpy(&known, &given, std::min(given.size, sizeof(known)));
  return known.seed;
}

Result<std::vector<training::Updated>>
updatedTensors(llvm::ArrayRef<ts_updated> given, int64_t processes, mlir::MLIRContext &context) {
  constexpr int64_t kMost = int64_t(1) << 31;
  if (processes < 1 || processes > kMost)
    return invalidArgument("there must be one process or more to update tensors");
  std::vector<training::Updated> result;
  for (const ts_updated &tensor : given) {
    if (!tensor.name || (tensor.rank && !tensor.shape))
      return invalidArgument("the name or the shape of a tensor to update is a null pointer");
    std::string name = "'" + std::string(tensor.name) + "'";
    if (tensor.type <= TS_UNDEFINED || tensor.type >= kDataTypeCount ||
        !isFloat(DataType(tensor.type)))
      return invalidArgument(name + " can't be updated: it is no tensor of floats");
    std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
    auto elements = elementCount(shape);
    if (!elements)
      return invalidArgument(name + " has a size that none can have");
    if (tensor.part && (tensor.part < 0 || tensor.part >= INT64_MAX / kMost ||
                        tensor.part * processes < *elements))
      return invalidArgument(name + " can't be shared out to " + std::to_string(processes) +
                             " processes by parts of " + std::to_string(tensor.part));
    auto element = graph::elementType(&context, DataType(tensor.type));
    result.push_back({tensor.name, mlir::RankedTensorType::get(shape, element), tensor.part});
  }
  return result;
}

} // namespace tensmith
