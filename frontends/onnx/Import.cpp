// The front end's entry points; see Import.h.
#include "frontends/onnx/Import.h"

#include "compiler/graph/Dialects.h"
#include "frontends/onnx/Importer.h"

using namespace mlir;

namespace tensmith {
namespace {

Result<OwningOpRef<ModuleOp>> import(Result<std::shared_ptr<onnx_import::Model>> model,
                                     MLIRContext &context, const ImportOptions &options) {
  if (!model.ok())
    return model.status();
  DialectRegistry registry;
  graph::registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects(); // operators are made by name
  return onnx_import::Importer(*model, context, options).run();
}

} // namespace

Result<OwningOpRef<ModuleOp>> importFile(const std::string &path, MLIRContext &context,
                                         const ImportOptions &options) {
  return import(onnx_import::readModel(path, options), context, options);
}

Result<OwningOpRef<ModuleOp>> importBytes(std::span<const std::byte> bytes, const std::string &name,
                                          MLIRContext &context, const ImportOptions &options) {
  return import(onnx_import::parseModel(bytes, name, options), context, options);
}

} // namespace tensmith
