// Which plug-ins the process has loaded: a part of every key, since what a plug-in changes is in no
// model, no option and no kernel's text.
#pragma once

#include "base/Hash.h"

#include <string>

namespace tensmith::cache {

/// By the hash of its file, once it is loaded.
void notePlugin(const Hash128 &contents);
/// The same of the file at that path, where it can be read.
void notePlugin(const std::string &path);
/// Those that were noted, in an order of their own; empty: none.
std::string loadedPlugins();

} // namespace tensmith::cache
