// From the C API's words to compiler/autodiff's; see Derivatives.h.
#include "compiler/api/Derivatives.h"

#include <string_view>

using namespace mlir;

namespace tensmith {
namespace {

std::vector<std::string> names(const char *const *list, size_t count) {
  return {list, list + count};
}

bool isComplete(const char *const *list, size_t count) {
  if (count && !list)
    return false;
  for (size_t i = 0; i < count; ++i)
    if (!list[i])
      return false;
  return true;
}

} // namespace

/// Memory that is planned to a budget has no room for what the run alone tells the sizes of, as of
/// a loop's parts.
autodiff::Checkpointing checkpointing(const ts_compile_options &options) {
  if (options.memory_budget)
    return autodiff::Checkpointing::None;
  std::string_view plan = options.recomputation ? options.recomputation : "";
  return plan == "segments"    ? autodiff::Checkpointing::Segments
         : plan == "recursive" ? autodiff::Checkpointing::Recursive
                               : autodiff::Checkpointing::None;
}

Status checkDerivatives(const ts_compile_options &options) {
  if (options.derivative_count && !options.derivatives)
    return invalidArgument("the derivatives are a null pointer");
  for (size_t i = 0; i < options.derivative_count; ++i) {
    const ts_derivative &derivative = options.derivatives[i];
    if (!isComplete(derivative.of, derivative.of_count) ||
        !isComplete(derivative.by, derivative.by_count))
      return invalidArgument("a name of derivative " + std::to_string(i) + " is a null pointer");
    if (derivative.mode != TS_GRADIENT && derivative.mode != TS_TANGENT)
      return invalidArgument("there is no kind of derivative " + std::to_string(derivative.mode));
  }
  return {};
}

std::vector<std::string> namesOfDerivatives(const ts_compile_options &options) {
  std::vector<std::string> result;
  for (size_t i = 0; i < options.derivative_count; ++i)
    for (std::string &name : names(options.derivatives[i].by, options.derivatives[i].by_count))
      result.push_back(std::move(name));
  return result;
}

Status addDerivatives(ModuleOp module, const ts_compile_options &options) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !options.derivative_count)
    return {};
  for (size_t i = 0; i < options.derivative_count; ++i) {
    const ts_derivative &asked = options.derivatives[i];
    autodiff::Derivative derivative;
    derivative.mode = asked.mode == TS_GRADIENT ? autodiff::Mode::Reverse : autodiff::Mode::Forward;
    derivative.of = names(asked.of, asked.of_count);
    derivative.withRespectTo = names(asked.by, asked.by_count);
    derivative.takesCotangent = asked.takes_cotangent != 0;
    derivative.keepsBits = options.precision == TS_PRECISION_EXACT;
    derivative.checkpointing = checkpointing(options);
    if (Status status = autodiff::differentiate(main, derivative); !status.ok())
      return status;
  }
  return {};
}

} // namespace tensmith
