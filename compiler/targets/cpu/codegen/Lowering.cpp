// The stages from structured operations to the LLVM dialect, in order; see Lowering.h.
#include "compiler/targets/cpu/codegen/Lowering.h"

#include "compiler/targets/cpu/codegen/ArgumentPointers.h"
#include "compiler/targets/cpu/codegen/Expansions.h"
#include "compiler/targets/cpu/codegen/InterleaveLoops.h"
#include "compiler/targets/cpu/codegen/SplitLoops.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace tensmith::targets::cpu {
namespace {

/// What is in the module, so that stages without work are left out.
struct Census {
  bool linalg = false, affine = false, deepTransfers = false, views = false;

  explicit Census(ModuleOp module) {
    module.walk([&](Operation *op) {
      linalg |= isa_and_nonnull<linalg::LinalgDialect>(op->getDialect());
      affine |= isa_and_nonnull<affine::AffineDialect>(op->getDialect());
      views |= isa<memref::SubViewOp, memref::ExpandShapeOp, memref::CollapseShapeOp,
                   memref::ReinterpretCastOp, memref::ExtractStridedMetadataOp,
                   memref::ExtractAlignedPointerAsIndexOp>(op);
      if (auto transfer = dyn_cast<VectorTransferOpInterface>(op))
        deepTransfers |= transfer.getVectorType().getRank() > 1;
    });
  }
};

Status runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> add) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName(),
                     PassManager::Nesting::Implicit);
  passes.enableVerifier(false);
  add(passes);
  if (failed(passes.run(module)))
    return {StatusCode::Internal, "a lowering pass failed"};
  return {};
}

Status lowerStructured(ModuleOp module, const Census &census) {
  return runPasses(module, [&](OpPassManager &passes) {
    if (census.linalg)
      passes.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
    if (census.linalg || census.affine)
      passes.addPass(createLowerAffinePass());
    if (census.deepTransfers)
      passes.addPass(createConvertVectorToSCFPass(VectorTransferToSCFOptions().enableFullUnroll()));
  });
}

Status lowerControl(ModuleOp module, const Census &census) {
  return runPasses(module, [&](OpPassManager &passes) {
    if (census.views || census.linalg || census.deepTransfers) {
      passes.addPass(memref::createExpandStridedMetadataPass());
      passes.addPass(
          createLowerAffinePass()); // the arithmetic of strides is written in affine.apply
    }
    passes.addPass(createConvertSCFToCFPass());
  });
}

/// All that is left, in one conversion.
Status convertToLLVM(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  ArgumentPointers pointers(module);
  options.useBarePtrCallConv = pointers.bare();
  LLVMTypeConverter types(context, options);
  RewritePatternSet patterns(context);
  populateVectorToLLVMConversionPatterns(types, patterns, /*reassociateFPReductions=*/true,
                                         /*force32BitVectorIndices=*/true);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  index::populateIndexToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  ub::populateUBToLLVMConversionPatterns(types, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  SymbolTable symbols(module);
  populateFuncToLLVMConversionPatterns(types, patterns, &symbols);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  if (failed(applyPartialConversion(module, target, std::move(patterns))))
    return {StatusCode::Internal, "conversion to the LLVM dialect failed"};
  pointers.restore(module);
  return runPasses(
      module, [](OpPassManager &passes) { passes.addPass(createReconcileUnrealizedCastsPass()); });
}

} // namespace

Status lowerToLLVM(ModuleOp module, const Cpu &machine) {
  // What patterns outside of passes build must be loaded; passes do so themselves.
  module.getContext()
      ->loadDialect<affine::AffineDialect, arith::ArithDialect, cf::ControlFlowDialect,
                    LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  Census census(module);
  if (census.linalg || census.affine || census.deepTransfers)
    if (Status status = lowerStructured(module, census); !status.ok())
      return status;
  if (Status status = expandOperations(module, machine); !status.ok())
    return status;
  splitLoops(module);
  interleaveLoops(module, machine);
  if (Status status = lowerControl(module, census); !status.ok())
    return status;
  if (Status status = convertToLLVM(module); !status.ok())
    return status;
  annotateBranches(module);
  return {};
}

} // namespace tensmith::targets::cpu
