// The step that enters a program's procedures: what it hands to the machine, and what it takes
// back.
#include "runtime/Machine.h"

namespace tensmith::runtime {

Status executeProcedure(Run &run, Frame &frame, const Step &step) {
  std::vector<TensorRef> arguments;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    auto operand = operandOf(run, frame, step, i);
    if (!operand)
      return operand.status();
    bool keep = (*operand)->ownsMemory();
    auto own = keep ? std::move(operand) : (*operand)->copy();
    if (!own)
      return own.status();
    arguments.push_back(std::move(*own));
  }
  auto returned = Machine(run).call(step.target, arguments);
  if (!returned)
    return returned.status();
  std::vector<Passed> results;
  if (step.results.size() == 1)
    results.push_back({*returned, false});
  else if ((*returned)->kind() == TensorKind::Data &&
           (*returned)->elements().size() == step.results.size())
    for (const TensorRef &field : (*returned)->elements())
      results.push_back({field, false});
  else
    return invalidArgument("the program returned " + describe(**returned) + " instead of " +
                           std::to_string(step.results.size()) + " values");
  return storeResults(run, frame, step, results);
}

} // namespace tensmith::runtime
