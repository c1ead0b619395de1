// Targets whose kernels have one template, that of loops or that of nests: "loops:host",
// "nests:host".
//
// Which templates there are is the machine's: rewrites ask it, and name none. What has no template
// there is decomposed, or computed element by element, and must be what it is elsewhere. A rewrite
// that takes a template for granted makes kernels that nobody emits, which this finds.
#pragma once

namespace tensmith {

/// Makes the kinds known to this process.
void addLoopsTarget();

} // namespace tensmith
