// The directory of the reference evaluators: every family's table, by name.
#include "reference/Reference.h"

#include <new>
#include <stdexcept>

namespace tensmith::reference {

Table<Entry> &evaluators() {
  static Table<Entry> all(
      "reference evaluation of",
      {arithmeticEntries(),   functionEntries(),   comparisonEntries(),      castEntries(),
       reductionEntries(),    movementEntries(),   dynamicMovementEntries(), gatherEntries(),
       scatterEntries(),      creationEntries(),   contractionEntries(),     convolutionEntries(),
       winogradEntries(),     resamplingEntries(), normalizationEntries(),   recurrentEntries(),
       quantizationEntries(), signalEntries(),     selectionEntries(),       textEntries(),
       comprehensionEntries()});
  return all;
}

Evaluator find(std::string_view name) {
  const Entry *found = evaluators().find(name);
  return found ? found->evaluate : nullptr;
}

Result<std::vector<HostTensor>> evaluate(const Invocation &invocation) try {
  Evaluator evaluator = find(invocation.name);
  if (!evaluator)
    return unsupported("operator '" + std::string(invocation.name) +
                       "' has no reference evaluation");
  return evaluator(invocation);
} catch (const std::bad_alloc &) { // of an evaluator's own lists; tensors report it themselves
  return Status(StatusCode::ResourceExhausted, std::string(invocation.name) + ": no memory");
} catch (const std::length_error &) {
  return Status(StatusCode::ResourceExhausted, std::string(invocation.name) + ": no memory");
} catch (const std::exception &error) { // of a plug-in's
  return Status(StatusCode::Internal,
                "the reference of '" + std::string(invocation.name) + "' threw: " + error.what());
} catch (...) {
  return Status(StatusCode::Internal, "the reference of '" + std::string(invocation.name) +
                                          "' threw what is no exception");
}

} // namespace tensmith::reference
