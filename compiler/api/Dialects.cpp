// Registers the dialects of graphs, of programs and of targets in one place, so that all contexts
// have the same; see Dialects.h.
#include "compiler/api/Dialects.h"

#include "compiler/graph/Dialects.h"
#include "compiler/program/Program.h"
#include "compiler/targets/Target.h"

namespace tensmith {

mlir::DialectRegistry modelDialects() {
  mlir::DialectRegistry registry;
  graph::registerDialects(registry);
  registry.insert<program::ProgramDialect>();
  targets::registerDialects(registry);
  return registry;
}

} // namespace tensmith
