// Stages as files; see Dump.h.
#include "compiler/pipeline/Dump.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tensmith::pipeline {

Status Dump::makeFolder() {
  if (folder_.empty())
    return {};
  std::error_code error = llvm::sys::fs::create_directories(folder_);
  return error ? Status(StatusCode::IoError, "the stages of the compilation can't be written: '" +
                                                 folder_ + "': " + error.message())
               : Status();
}

Status Dump::writeFile(StringRef name, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::string path = folder_ + "/" + name.str();
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (!error)
    print(file);
  file.close();
  if (!error)
    error = file.error();
  file.clear_error();
  return error ? Status(StatusCode::IoError, "'" + path + "': " + error.message()) : Status();
}

Status Dump::write(ModuleOp module, StringRef stage) {
  if (folder_.empty())
    return {};
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(32).elideLargeResourceString(64);
  return writeFile(llvm::formatv("{0,0+2}-{1}.mlir", number_++, stage).str(),
                   [&](llvm::raw_ostream &file) { module->print(file, flags); });
}

Status Dump::write(const std::vector<targets::KernelSource> &kernels) {
  if (folder_.empty())
    return {};
  for (auto [number, kernel] : llvm::enumerate(kernels))
    if (Status status = writeFile(llvm::formatv("kernel-{0,0+3}.mlir", number).str(),
                                  [&, &kernel = kernel](llvm::raw_ostream &file) {
                                    file << "// " << kernel.label << "\n" << kernel.text;
                                  });
        !status.ok())
      return status;
  return {};
}

} // namespace tensmith::pipeline
