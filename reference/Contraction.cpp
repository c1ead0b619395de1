// Reference evaluation of sums of products over a shared dimension: matmul, einsum, det.
#include "reference/Reference.h"

namespace tensmith::reference {

std::span<const Entry> contractionEntries() { return {}; }

} // namespace tensmith::reference
