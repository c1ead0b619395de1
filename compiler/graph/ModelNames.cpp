// The table, which front ends look in after their own; see ModelNames.h.
#include "compiler/graph/ModelNames.h"

namespace tensmith::graph {

Table<ModelName> &modelNames() {
  static Table<ModelName> all("name of an operator in models");
  return all;
}

} // namespace tensmith::graph
