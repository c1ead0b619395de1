// The instructions of CPUs that templates may ask for, by family: a table for each.
#pragma once

#include "compiler/kernel/Intrinsic.h"
#include "compiler/targets/cpu/machine/Cpu.h"

namespace tensmith::targets::cpu {

/// All of a family, the better of two that do the same first.
llvm::ArrayRef<kernel::Intrinsic> x86Intrinsics();
llvm::ArrayRef<kernel::Intrinsic> armIntrinsics();
llvm::ArrayRef<kernel::Intrinsic> riscvIntrinsics();

/// Those that the machine has, of its vectors' width.
llvm::SmallVector<const kernel::Intrinsic *, 4> intrinsicsOf(const Cpu &machine);
/// The unit whose tiles' products are among them; null: there is none.
const kernel::MatrixUnit *matrixUnitOf(const Cpu &machine);

/// By the machine's instruction for one or two vectors of a table; without one where it has none.
kernel::Lookup lookupOf(const Cpu &machine);

/// The result of LLVM's intrinsic of that name.
mlir::Value emitIntrinsic(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef name,
                          mlir::Type result, mlir::ValueRange operands);

/// Whether a vector is longer than NEON's: it lies in a register of ARM's Scalable Vector Extension
/// (SVE) then.
bool isScalable(mlir::Type type);
/// The same bits as a vector of elements of the type, or of its own, whose length is the machine's.
mlir::Value asScalable(mlir::OpBuilder &builder, mlir::Location location, mlir::Value fixed,
                       mlir::Type element = {});
/// The other way, if it is one.
mlir::Value asFixed(mlir::OpBuilder &builder, mlir::Location location, mlir::Value scalable,
                    mlir::Type fixed);

/// Assembly without instructions, whose results are in the registers of its operands.
void hold(mlir::OpBuilder &builder, mlir::Location location,
          llvm::MutableArrayRef<mlir::Value> values, llvm::StringRef vectorRegister);
kernel::Hold holdOf(const Cpu &machine);

} // namespace tensmith::targets::cpu
