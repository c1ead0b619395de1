// The object is made by LLVM's code generator, from constants placed in the sections; see
// DataObject.h.
#include "compiler/target/cpu/DataObject.h"

#include "compiler/target/cpu/NativeTarget.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

namespace tensmith::target::cpu {
namespace {

void addSection(llvm::Module &module, const DataSection &section) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(section.bytes.data()), section.bytes.size());
  auto *contents =
      llvm::ConstantDataArray::getString(module.getContext(), bytes, /*AddNull=*/false);
  auto *global =
      new llvm::GlobalVariable(module, contents->getType(), /*isConstant=*/true,
                               llvm::GlobalValue::InternalLinkage, contents, section.name + 1);
  global->setSection(section.name);
  global->setAlignment(llvm::Align(64));
  llvm::appendToUsed(module, {global});
}

} // namespace

Result<std::string> dataObject(const std::vector<DataSection> &sections, const Machine &machine) {
  initializeNativeTarget();
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(machine.triple, error);
  if (!target)
    return unsupported("no code generator for " + machine.triple + ": " + error);
  std::unique_ptr<llvm::TargetMachine> generator(target->createTargetMachine(
      machine.triple, machine.cpu, "", llvm::TargetOptions(), llvm::Reloc::PIC_));
  llvm::LLVMContext context;
  llvm::Module module("data", context);
  module.setTargetTriple(machine.triple);
  module.setDataLayout(generator->createDataLayout());
  for (const DataSection &section : sections)
    addSection(module, section);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (generator->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    return Status(StatusCode::Internal, "no object files for " + machine.triple);
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

} // namespace tensmith::target::cpu
