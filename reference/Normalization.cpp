// Reference evaluation of normalisation and attention.
#include "reference/Reference.h"

namespace tensmith::reference {

std::span<const Entry> normalizationEntries() { return {}; }

} // namespace tensmith::reference
