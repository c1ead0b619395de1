// Plug-ins through the C API: into this library's tables, and their references into the runtime's.
#include "compiler/api/Boundary.h"
#include "compiler/api/TakenStatus.h"
#include "compiler/extend/Plugin.h"
#include "runtime/Evaluators.h"

using namespace tensmith;

ts_status *ts_load_plugin(const char *path) {
  return guarded([&]() -> Status {
    if (!path)
      return missing("the plug-in's path");
    return extend::loadPlugin(path, [](std::span<const reference::Entry *const> rows) {
      return taken(ts_add_evaluators(rows.data(), rows.size()));
    });
  });
}
