// tensmith-lsp: an editor's language server; for programs of the language, or, with --graph, for
// the graph's text, with all dialects that a dump of the compilation's stages may contain.
#include "compiler/graph/Dialects.h"
#include "compiler/targets/Target.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

#include "tools/tensmith-lsp/ProgramServer.h"

#include <string_view>

int main(int argc, char **argv) {
  if (argc == 1)
    return tensmith::lsp::serve();
  if (std::string_view(argv[1]) == "--graph")
    argv[1] = argv[0], --argc, ++argv;
  mlir::DialectRegistry registry;
  tensmith::graph::registerDialects(registry);
  tensmith::targets::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
