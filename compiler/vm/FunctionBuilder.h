// One function of a plan, from one block of graph IR.
#pragma once

#include "compiler/graph/Checks.h"
#include "compiler/program/Program.h"
#include "compiler/vm/Arenas.h"
#include "compiler/vm/ModuleTables.h"
#include "compiler/vm/SizeBounds.h"

#include "llvm/ADT/MapVector.h"

namespace tensmith::vm {

class FunctionBuilder {
public:
  FunctionBuilder(ModuleTables &tables, plan::FunctionT &function)
      : tables_(tables), function_(function), expressions_(function), bounds_(expressions_) {}

  /// `captured`: values from outside that the block uses, which become parameters after its
  /// arguments; `given`: the symbols whose values the caller passes.
  Status build(mlir::Block &block, mlir::ValueRange captured,
               llvm::ArrayRef<mlir::StringAttr> given);

  /// What lies in its arenas, which have no places yet. The builder is of no use afterwards.
  Arena takeArena() { return {std::move(expressions_), std::move(lifetimes_), std::move(placed_)}; }

private:
  Status addInstruction(mlir::Operation *op);
  /// The condition, unless it is proved or was checked before; false where one of its sizes is not
  /// known yet.
  bool addCheck(const graph::Condition &condition, mlir::Location location);
  /// What the operators of a kernel require, which its code doesn't look at.
  Status addChecks(graph::KernelOp op);
  void addQuotientsWithin(graph::KernelOp op, plan::InstructionT &instruction);
  Status addKernel(graph::KernelOp op, plan::InstructionT &instruction);
  Status addRoutine(mlir::Operation *op, plan::InstructionT &instruction);
  Status addCall(mlir::Operation *op, plan::InstructionT &instruction);
  Status addEnter(program::EnterOp op, plan::InstructionT &instruction);
  void addView(graph::ReshapeOp op, plan::InstructionT &instruction);
  /// Values that are computed where they lie in a larger one, which `concat` then is.
  void findParts(graph::ConcatOp join);
  Status addJoin(graph::ConcatOp op, plan::InstructionT &instruction);
  Status addOperands(mlir::ValueRange operands, plan::InstructionT &instruction);
  Status addResults(mlir::Operation *op, plan::InstructionT &instruction, bool binds);
  bool mayOwnMemory(mlir::Value value, plan::Storage storage);
  void releaseValues(mlir::Operation *op, plan::InstructionT &instruction);
  /// What kernels may write over the block's arguments, if the caller needs those no more.
  void addOverwrites();

  Result<uint32_t> valueOf(mlir::Value value);
  uint32_t addEmptyOptional(mlir::Value value);
  uint32_t addNone(mlir::Value value);
  Result<uint32_t> addConstant(graph::ConstantOp op);
  uint32_t addValue(mlir::Value value, plan::Storage storage);
  bool entryKnown(mlir::RankedTensorType type);
  plan::Storage storageOf(mlir::Value result);
  /// Gives results a place in the arena where their size, or a bound of it, is known at entry.
  void reserve(mlir::Operation *op);
  void place(uint32_t index, mlir::Value value, size_t lifetime);
  /// From that operator on, until the last use of the result.
  void beginLifetime(mlir::Operation *here, mlir::Value result, uint32_t bytes);
  /// The buffer's owner: what a chain of views looks at.
  mlir::Value rootOf(mlir::Value value);
  /// The last operator of the block that uses the value, itself or through views.
  mlir::Operation *lastUse(mlir::Value root);
  /// Whether two values lie in one buffer, as far as kernels' results and views go.
  bool shareBuffer(mlir::Value a, mlir::Value b);
  mlir::Value operandToOverwrite(graph::KernelOp op);
  bool isView(graph::ReshapeOp op);

  ModuleTables &tables_;
  plan::FunctionT &function_;
  Expressions expressions_;
  SizeBounds bounds_;
  mlir::Block *block_ = nullptr;
  std::optional<graph::ShapeContext> shapes_; // of the checks
  graph::SizeFacts facts_;
  std::vector<std::pair<graph::Condition, mlir::Location>> waiting_; // for sizes
  llvm::DenseSet<mlir::StringAttr> knownAtEntry_;
  std::vector<std::unique_ptr<plan::InstructionT>> entryChecks_; // come first
  llvm::DenseMap<mlir::Value, uint32_t> values_;
  llvm::DenseMap<mlir::Value, mlir::Value> views_;
  struct Part {
    mlir::Value whole;
    int64_t offset, pitch; // bytes; no pitch: 0
  };
  llvm::DenseMap<mlir::Value, Part> parts_; // by what is no view
  llvm::DenseMap<mlir::Operation *, size_t> positions_;
  std::vector<Buffer> lifetimes_;
  llvm::DenseMap<mlir::Value, size_t> lifetimeOf_;
  std::vector<Arena::Placed> placed_;
};

} // namespace tensmith::vm
