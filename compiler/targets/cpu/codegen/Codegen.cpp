// The way of a kernel through LLVM; see Codegen.h.
#include "compiler/targets/cpu/codegen/Codegen.h"

#include "compiler/targets/cpu/codegen/BoundsChecks.h"
#include "compiler/targets/cpu/codegen/ByteConversions.h"
#include "compiler/targets/cpu/codegen/LibraryCalls.h"
#include "compiler/targets/cpu/codegen/Lowering.h"
#include "compiler/targets/cpu/codegen/NativeTarget.h"
#include "compiler/targets/cpu/codegen/Optimization.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

Status internalError(const CodegenOptions &options, std::string message) {
  return {StatusCode::Internal, "kernel '" + options.symbol + "': " + std::move(message)};
}

/// The stages' texts, for people to read. That a dump can't be written stops nobody.
void dump(const CodegenOptions &options, llvm::StringRef suffix,
          llvm::function_ref<void(llvm::raw_ostream &)> print) {
  if (options.dumpFolder.empty())
    return;
  std::error_code error;
  llvm::raw_fd_ostream out(options.dumpFolder + "/" + options.symbol + suffix.str(), error);
  if (!error)
    print(out);
  out.clear_error();
}

constexpr int64_t kNeonBits = 128;

/// 64-bit ARM's SVE: how many times NEON's its vectors are, if they are longer.
std::optional<unsigned> vectorScale(const Cpu &machine) {
  bool isLonger = machine.isArm64() && machine.vectorBits > kNeonBits;
  return isLonger ? std::optional(unsigned(machine.vectorBits / kNeonBits)) : std::nullopt;
}

/// Those that code is made for. A float that all lanes of a vector of SVE share is loaded into all
/// of them: LLVM keeps it in one of some CPUs, for products with a lane, but finds none of these in
/// vectors of fixed lengths.
std::string featuresOf(const Cpu &machine) {
  return machine.featureString() + (vectorScale(machine) ? ",-no-sve-fp-ld1r" : "");
}

Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const Cpu &machine) {
  initializeTarget(machine.triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(machine.triple, error);
  if (!target)
    return unsupported("no code generator for " + machine.triple + ": " + error);
  llvm::TargetOptions options;
  options.MCOptions.ABIName = machine.abi();
  std::unique_ptr<llvm::TargetMachine> result(target->createTargetMachine(
      machine.triple, machine.cpu, featuresOf(machine), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
  if (!result)
    return unsupported("no code generator for " + machine.triple);
  return result;
}

/// The entry gets its symbol and stays visible; all else becomes the object's own, under names that
/// begin with it, by which profilers tell kernels apart.
Status nameSymbols(llvm::Module &module, const CodegenOptions &options) {
  llvm::Function *entry = module.getFunction(kKernelPlaceholder);
  if (!entry || entry->isDeclaration())
    return internalError(options,
                         std::string("the module doesn't define '") + kKernelPlaceholder + "'");
  for (llvm::GlobalObject &object : module.global_objects()) {
    llvm::StringRef rest = object.getName();
    if (object.isDeclaration() || object.getName().starts_with("llvm."))
      continue;
    if (&object != entry)
      object.setLinkage(llvm::GlobalValue::InternalLinkage);
    object.setDSOLocal(true);
    bool derived = rest.consume_front(kKernelPlaceholder);
    object.setName(options.symbol + (derived ? "" : ".") + rest.str());
  }
  return {};
}

void setAttributes(llvm::Module &module, const Cpu &machine) {
  std::string width = std::to_string(machine.vectorBits), features = featuresOf(machine);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.cpu);
    function.addFnAttr("target-features", features);
    function.addFnAttr("prefer-vector-width", width);
    // By which LLVM takes SVE's registers for vectors of fixed lengths.
    if (auto scale = vectorScale(machine))
      function.addFnAttr(
          llvm::Attribute::getWithVScaleRangeArgs(module.getContext(), *scale, *scale));
    function.addFnAttr("no-builtins");
    function.addFnAttr("frame-pointer", "none");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // For debuggers' backtraces; on 32-bit ARM the tables name a function of the C++ library.
    if (llvm::Triple(machine.triple).getArch() != llvm::Triple::arm)
      function.setUWTableKind(llvm::UWTableKind::Default);
  }
}

/// Compares single floats of 16 bits as f32, which is the same: where a choice goes by such a
/// comparison of what can't be NaN, LLVM 19 selects a maximum of f16, which it calls fmaxf for.
void compareHalvesWidened(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *compare = llvm::dyn_cast<llvm::FCmpInst>(&instruction);
      if (!compare || !compare->getOperand(0)->getType()->is16bitFPTy())
        continue;
      llvm::IRBuilder<> builder(compare);
      for (llvm::Use &operand : compare->operands())
        operand.set(builder.CreateFPExt(operand, builder.getFloatTy()));
    }
}

std::string emit(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary(module)));
  if (machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true))
    return {};
  passes.run(module);
  return {bytes.begin(), bytes.end()};
}

/// A kernel has no undefined symbols: a name here is a function that some operation was lowered to
/// a call of.
Status checkStandsAlone(const std::string &object, const CodegenOptions &options) {
  auto file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, options.symbol));
  if (!file)
    return internalError(options,
                         "the object can't be read back: " + llvm::toString(file.takeError()));
  std::string names;
  for (const auto &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    bool undefined = flags && (*flags & llvm::object::SymbolRef::SF_Undefined);
    if (undefined && name && !name->empty())
      names += (names.empty() ? "" : ", ") + name->str();
    llvm::consumeError(flags.takeError());
    llvm::consumeError(name.takeError());
  }
  if (names.empty())
    return {};
  return internalError(options, "its code calls functions that a kernel can't link to: " + names);
}

struct DiagnosticText {
  std::string text;

  void add(llvm::StringRef message) { text += (text.empty() ? "" : "; ") + message.str(); }
  std::string after(llvm::StringRef what) const {
    return what.str() + (text.empty() ? "" : ": " + text);
  }
};

void collectErrors(const llvm::DiagnosticInfo *info, void *text) {
  if (info->getSeverity() != llvm::DS_Error)
    return;
  std::string message;
  llvm::raw_string_ostream out(message);
  llvm::DiagnosticPrinterRawOStream printer(out);
  info->print(printer);
  static_cast<DiagnosticText *>(text)->add(message);
}

Result<std::string> generate(llvm::Module &module, const Cpu &machine,
                             const CodegenOptions &options, const DiagnosticText &errors) {
  auto target = makeTargetMachine(machine);
  if (!target)
    return target.status();
  module.setTargetTriple(machine.triple);
  module.setDataLayout((*target)->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  if (Status status = nameSymbols(module, options); !status.ok())
    return status;
  setAttributes(module, machine);
  auto checked = checkBounds(module);
  if (!checked.ok())
    return internalError(options, checked.status().message());
  dump(options, ".ll", [&](llvm::raw_ostream &out) { out << module; });
  optimize(module, **target, /*loops=*/!*checked);
  compareHalvesWidened(module);
  if (machine.isArm64())
    convertBytesByHalves(module);
  replaceLibraryCalls(module, machine);
  dump(options, ".opt.ll", [&](llvm::raw_ostream &out) { out << module; });
  dump(options, ".s", [&](llvm::raw_ostream &out) {
    out << emit(*llvm::CloneModule(module), **target, llvm::CodeGenFileType::AssemblyFile);
  });
  std::string object = emit(module, **target, llvm::CodeGenFileType::ObjectFile);
  if (object.empty() || !errors.text.empty())
    return internalError(options, errors.after("LLVM emitted no code"));
  if (Status status = checkStandsAlone(object, options); !status.ok())
    return status;
  return object;
}

} // namespace

Result<std::string> compileToObject(ModuleOp kernel, const Cpu &machine,
                                    const CodegenOptions &options) {
  DiagnosticText errors;
  ScopedDiagnosticHandler handler(kernel.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors.add(diagnostic.str());
    return success();
  });
  if (Status status = lowerToLLVM(kernel, machine); !status.ok())
    return internalError(options, errors.after(status.message()));
  dump(options, ".llvm.mlir", [&](llvm::raw_ostream &out) { kernel.print(out); });
  llvm::LLVMContext context;
  context.setDiagnosticHandlerCallBack(collectErrors, &errors);
  auto module =
      translateModuleToLLVMIR(kernel, context, options.symbol, /*disableVerification=*/true);
  if (!module)
    return internalError(options, errors.after("no translation to LLVM IR"));
  return generate(*module, machine, options, errors);
}

} // namespace tensmith::targets::cpu
