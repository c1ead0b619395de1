// The CPUs' lowering for one that has nothing but vectors; see PlainCode.h.
#include "compiler/targets/PlainCode.h"

#include "compiler/targets/cpu/codegen/Codegen.h"
#include "compiler/targets/cpu/codegen/Dialects.h"
#include "compiler/targets/cpu/codegen/Lowering.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace tensmith::targets {

Result<std::unique_ptr<llvm::Module>> plainCode(const KernelSource &source, int64_t vectorBits,
                                                llvm::LLVMContext &context) {
  cpu::Cpu machine;
  machine.triple = "x86_64"; // of the families, the one that has no more without features
  machine.vectorBits = vectorBits;
  DialectRegistry registry;
  cpu::registerCodegenDialects(registry);
  MLIRContext dialects(registry, MLIRContext::Threading::DISABLED);
  std::string problem;
  ScopedDiagnosticHandler handler(&dialects,
                                  [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
  auto failed = [&](const std::string &what) {
    return Status(StatusCode::Internal, "kernel of " + source.label + ": " + what +
                                            (problem.empty() ? "" : ": " + problem));
  };
  ParserConfig config(&dialects, /*verifyAfterParse=*/false);
  auto module = parseSourceString<ModuleOp>(source.text, config);
  if (!module)
    return failed("its module doesn't parse");
  if (Status status = cpu::lowerToLLVM(*module, machine); !status.ok())
    return failed(status.message());
  auto code = translateModuleToLLVMIR(*module, context, source.label,
                                      /*disableVerification=*/true);
  if (!code)
    return failed("no translation to LLVM IR");
  code->setDataLayout("e-i64:64-n8:16:32:64");
  // Who renames the entries and links several kernels has all other functions once for each.
  for (llvm::Function &function : *code)
    if (!function.isDeclaration() && function.getName() != cpu::kKernelPlaceholder)
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  return code;
}

} // namespace tensmith::targets
