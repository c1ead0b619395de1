// The directory of the reference evaluators: every family's table, by name.
#include "reference/Reference.h"

#include <new>
#include <stdexcept>
#include <unordered_map>

namespace tensmith::reference {
namespace {

constexpr std::span<const Entry> (*kFamilies[])() = {
    arithmeticEntries,   functionEntries,   comparisonEntries,      castEntries,
    reductionEntries,    movementEntries,   dynamicMovementEntries, gatherEntries,
    scatterEntries,      creationEntries,   contractionEntries,     convolutionEntries,
    winogradEntries,     resamplingEntries, normalizationEntries,   recurrentEntries,
    quantizationEntries, signalEntries,     selectionEntries,       textEntries,
};

std::unordered_map<std::string_view, Evaluator> collectEntries() {
  std::unordered_map<std::string_view, Evaluator> entries;
  for (auto family : kFamilies)
    for (const Entry &entry : family()) {
      [[maybe_unused]] bool isNew = entries.emplace(entry.name, entry.evaluate).second;
      assert(isNew && "two evaluators of one name");
    }
  return entries;
}

} // namespace

Evaluator find(std::string_view name) {
  static const std::unordered_map<std::string_view, Evaluator> entries = collectEntries();
  auto found = entries.find(name);
  return found == entries.end() ? nullptr : found->second;
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
}

} // namespace tensmith::reference
