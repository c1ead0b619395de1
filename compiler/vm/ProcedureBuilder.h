// One procedure of a plan, from a function of the program dialect whose tensor code is in segments.
#pragma once

#include "compiler/program/Program.h"
#include "compiler/vm/ModuleTables.h"

namespace tensmith::vm {

class ProcedureBuilder {
public:
  ProcedureBuilder(ModuleTables &tables, plan::ProcedureT &procedure)
      : tables_(tables), procedure_(procedure) {}

  Status build(mlir::func::FuncOp function);

private:
  /// Ends in a return, or in a jump to where the result is waited for.
  Status emitBlock(mlir::Block &block, std::optional<uint32_t> result);
  Status emit(mlir::Operation *op);
  Status emitBranches(mlir::Operation *op, std::optional<uint32_t> result);
  /// Whether the operator is a call whose result is what its block gives.
  bool emitTailCall(mlir::Operation *op);
  Status emitScalar(mlir::Operation *op, uint32_t result);
  /// Loads the constants that the operators use, each once.
  Status constants(llvm::ArrayRef<mlir::Operation *> ops);
  void load(mlir::Operation *op, mlir::Value constant, const HostTensor &tensor);

  void begin(mlir::Operation *op, plan::Code code, size_t count);
  void word(uint32_t word) { procedure_.code.push_back(word); }
  uint32_t position() const { return uint32_t(procedure_.code.size()); }
  /// The operand's register, marked where nothing needs the value afterwards.
  void read(mlir::OpOperand &operand);
  uint32_t registerOf(mlir::Value value);

  ModuleTables &tables_;
  plan::ProcedureT &procedure_;
  llvm::DenseMap<mlir::Value, uint32_t> registers_;
  bool forked_ = false; // within calls that share their constants
};

} // namespace tensmith::vm
