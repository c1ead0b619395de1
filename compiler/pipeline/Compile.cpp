// The ways into a compilation; see Compile.h.
#include "compiler/pipeline/Compile.h"

#include "compiler/pipeline/CalibratedCompilation.h"
#include "compiler/pipeline/Compilation.h"
#include "compiler/pipeline/Reproducer.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

Status compileParts(ModuleOp module, const CompileOptions &options, WriteParts write) {
  if (options.calibration)
    return compileCalibrated(module, options, write);
  Compilation compilation(module, options);
  auto parts = compilation.run();
  return parts.ok() ? write(*parts) : parts.status();
}

} // namespace

Result<std::string> compileToBytes(ModuleOp module, const CompileOptions &options) {
  std::string bytes;
  Status status = reproducing(module, options, [&] {
    return compileParts(module, options, [&](const modules::ModuleParts &parts) {
      auto written = modules::moduleBytes(parts);
      if (written.ok())
        bytes = std::move(*written);
      return written.status();
    });
  });
  return status.ok() ? Result<std::string>(std::move(bytes)) : Result<std::string>(status);
}

Status compileToFile(ModuleOp module, const CompileOptions &options, const std::string &path) {
  return reproducing(module, options, [&] {
    return compileParts(module, options, [&](const modules::ModuleParts &parts) {
      return modules::writeModule(parts, path);
    });
  });
}

Result<CodelessModule> compileWithoutCode(ModuleOp module, const CompileOptions &options) {
  Compilation compilation(module, options, /*generateCode=*/false);
  auto parts = compilation.run();
  if (!parts.ok())
    return parts.status();
  CodelessModule result;
  result.plan.assign(reinterpret_cast<const char *>(parts->plan.data()), parts->plan.size());
  result.weights.resize(size_t(parts->weightsBytes));
  for (const modules::WeightPart &part : parts->weights)
    if (!part.bytes.empty())
      std::memcpy(result.weights.data() + part.offset, part.bytes.data(), part.bytes.size());
  return result;
}

} // namespace tensmith::pipeline
