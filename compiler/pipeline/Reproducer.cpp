// The file of a failure; see Reproducer.h.
#include "compiler/pipeline/Reproducer.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tensmith::pipeline {
namespace {

constexpr int64_t kMostBytes = 1 << 16; // of a constant that is written in full

/// Weights hardly ever decide whether a compilation fails, and make text unreadable: a large one
/// becomes as many times its first element.
int64_t simplifyConstants(ModuleOp module) {
  int64_t simplified = 0;
  module.walk([&](graph::ConstantOp op) {
    auto tensor = graph::hostTensor(op.getValue());
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!tensor.ok() || !type || tensor->bytes() <= kMostBytes || !type.hasStaticShape())
      return;
    mlir::Attribute first;
    Type element = type.getElementType();
    if (isa<FloatType>(element))
      first = FloatAttr::get(element, tensor->getDouble(0));
    else if (isa<IntegerType>(element))
      first = IntegerAttr::get(element, tensor->getInt(0));
    else
      return;
    op->setAttr("value", DenseElementsAttr::get(type, ArrayRef(first)));
    ++simplified;
  });
  return simplified;
}

std::string commandLine(const CompileOptions &options) {
  std::string text = "tensmith compile " + options.reproducer + " -o out.so --no-cache";
  if (!options.target.empty() && options.target != "host")
    text += " --target " + options.target;
  if (!options.fuse)
    text += " --optimize 0";
  if (options.precision != Precision::Fast)
    text += " --precision " + std::string(kPrecisionNames[size_t(options.precision)]);
  if (!options.casts.empty())
    text += " --casts '" + llvm::join(options.casts, ",") + "'";
  if (options.fastMath)
    text += " --fast-math";
  if (options.libraries != "generated")
    text += " --libraries " + options.libraries;
  if (!options.schedules.empty())
    text += " --schedules " + options.schedules;
  if (!options.devices.empty())
    text += " --device " + llvm::join(options.devices, ",");
  if (options.byReference)
    text += " --evaluate-by-reference";
  if (options.verifyEachPass)
    text += " --verify-each-pass";
  if (options.checkBounds)
    text += " --check-bounds";
  return text;
}

/// Each line a comment.
void writeComment(llvm::raw_ostream &file, StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines)
    file << "// " << line << '\n';
}

Status write(ModuleOp module, const CompileOptions &options, const Status &failure) {
  int64_t simplified = simplifyConstants(module);
  std::error_code error;
  llvm::raw_fd_ostream file(options.reproducer, error);
  if (!error) {
    writeComment(file, "A compilation that failed: " + failure.message());
    writeComment(file, "Again: " + commandLine(options));
    writeComment(file, "Pipeline: " + pipelineText(options));
    if (simplified)
      writeComment(file, std::to_string(simplified) +
                             " large constants are as many times their first element here");
    module->print(file);
    file.close();
    error = file.error();
  }
  file.clear_error();
  return error ? failure
               : Status(failure.code(),
                        failure.message() + "; a reproducer is in " + options.reproducer);
}

/// Whether the failure may be the compiler's doing, and not the disk's, the memory's or the
/// caller's, as inputs to calibrate with that don't fit.
bool isOurs(const Status &status) {
  return !status.ok() && status.code() != StatusCode::IoError &&
         status.code() != StatusCode::ResourceExhausted &&
         status.code() != StatusCode::InvalidArgument;
}

} // namespace

Status reproducing(ModuleOp module, const CompileOptions &options,
                   llvm::function_ref<Status()> compile) {
  if (options.reproducer.empty())
    return compile();
  OwningOpRef<ModuleOp> before(cast<ModuleOp>(module->clone()));
  Status status;
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  if (!recovery.RunSafely([&] { status = compile(); }))
    status = Status(StatusCode::Internal, options.model + ": the compiler died of signal " +
                                              std::to_string(recovery.RetCode - 128));
  llvm::CrashRecoveryContext::Disable();
  return isOurs(status) ? write(*before, options, status) : status;
}

} // namespace tensmith::pipeline
