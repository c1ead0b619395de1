// Values of TOML files as JSON, which settings and parameters are read from.
#pragma once

#include "train/SettingTable.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace tensmith::train {

/// Null of dates and times, which nothing takes.
Json jsonOf(const toml::node &node);

} // namespace tensmith::train
