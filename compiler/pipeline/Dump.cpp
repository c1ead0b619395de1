// Stages as files; see Dump.h.
#include "compiler/pipeline/Dump.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tensmith::pipeline {

Dump::Dump(std::string folder) : folder_(std::move(folder)) {
  if (!folder_.empty())
    llvm::sys::fs::create_directories(folder_);
}

void Dump::write(ModuleOp module, StringRef stage) {
  if (folder_.empty())
    return;
  std::error_code error;
  llvm::raw_fd_ostream file(folder_ + llvm::formatv("/{0,0+2}-{1}.mlir", number_++, stage).str(),
                            error);
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(32).elideLargeResourceString(64);
  if (!error)
    module->print(file, flags);
}

void Dump::write(const std::vector<target::cpu::KernelSource> &kernels) {
  if (folder_.empty())
    return;
  for (auto [number, kernel] : llvm::enumerate(kernels)) {
    std::error_code error;
    llvm::raw_fd_ostream file(folder_ + llvm::formatv("/kernel-{0,0+3}.mlir", number).str(), error);
    if (!error)
      file << "// " << kernel.label << "\n" << kernel.text;
  }
}

} // namespace tensmith::pipeline
