// Reference evaluation of windows that slide over spatial dimensions: convolution and pooling.
#include "reference/Reference.h"

namespace tensmith::reference {

std::span<const Entry> convolutionEntries() { return {}; }

} // namespace tensmith::reference
