// The table of templates of CPUs: of machines that compute with vectors.
#pragma once

#include "compiler/kernel/Template.h"

namespace tensmith::targets::cpu {

/// In order of preference; the last takes everything. Plug-ins add theirs.
Table<kernel::Template> &templates();

} // namespace tensmith::targets::cpu
