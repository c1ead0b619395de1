// tensmith-lsp: an editor's language server for the graph's text, with all dialects that a dump of
// the compilation's stages may contain.
#include "compiler/graph/Dialects.h"
#include "compiler/target/cpu/Dialects.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  tensmith::graph::registerDialects(registry);
  tensmith::target::cpu::registerCodegenDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
