// Noting and restoring the attributes of memref arguments; see ArgumentPointers.h.
#include "compiler/targets/cpu/codegen/ArgumentPointers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

constexpr unsigned kAlignedPointer =
    1; // of a descriptor: allocated pointer, aligned pointer, offset, sizes, strides

bool canBeBare(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return !isa<BaseMemRefType>(type) ||
         (memref && memref.hasStaticShape() && memref.getLayout().isIdentity());
}

unsigned fieldsOf(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref ? 3 + 2 * unsigned(memref.getRank()) : 1;
}

} // namespace

ArgumentPointers::ArgumentPointers(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    bare_ &= llvm::all_of(function.getArgumentTypes(), canBeBare) &&
             llvm::all_of(function.getResultTypes(), canBeBare);
  for (auto function : module.getOps<func::FuncOp>()) {
    unsigned position = 0;
    for (auto [number, type] : llvm::enumerate(function.getArgumentTypes())) {
      unsigned fields = bare_ ? 1 : fieldsOf(type);
      if (auto attributes = function.getArgAttrDict(number);
          isa<MemRefType>(type) && attributes && !attributes.empty()) {
        functions_[function.getSymName().str()].push_back(
            {fields == 1 ? position : position + kAlignedPointer, attributes});
        for (NamedAttribute attribute : attributes)
          function.removeArgAttr(number, attribute.getName());
      }
      position += fields;
    }
  }
}

void ArgumentPointers::restore(ModuleOp module) const {
  for (const auto &[name, pointers] : functions_)
    if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
      for (const Pointer &pointer : pointers)
        for (NamedAttribute attribute : pointer.attributes)
          function.setArgAttr(pointer.argument, attribute.getName(), attribute.getValue());
}

} // namespace tensmith::targets::cpu
