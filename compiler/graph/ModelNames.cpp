// The table, which front ends look in after their own; see ModelNames.h.
#include "compiler/graph/ModelNames.h"

namespace tensmith::graph {

Table<ModelName> &modelNames() {
  static constexpr ModelName kOwn[] = {{"tensmith:Comprehension", "graph.comprehension"}};
  static Table<ModelName> all("name of an operator in models", {std::span(kOwn)});
  return all;
}

} // namespace tensmith::graph
