// Loads plug-ins: shared libraries that add to the compiler (Registry.h).
#pragma once

#include "base/Status.h"
#include "reference/Reference.h"

#include <functional>
#include <string>

namespace tensmith::extend {

/// Given the references that a plug-in adds, for a runtime that has a table of its own.
using GiveReferences = std::function<Status(std::span<const reference::Entry *const>)>;

/// Loads the shared library and adds what it registers. Compilations that begin afterwards have it;
/// one that goes on meanwhile may find a part of it. Nothing happens where it was loaded before. A
/// library stays loaded.
///
/// Errors name the file: IoError where it can't be read; InvalidArgument where it is no plug-in, or
/// one of another build, where a symbol is missing, or where a name is taken. Nothing is added
/// then.
Status loadPlugin(const std::string &path, const GiveReferences &giveReferences = nullptr);

} // namespace tensmith::extend
